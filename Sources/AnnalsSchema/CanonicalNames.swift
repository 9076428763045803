package import AnnalsCore
import AnnalsSQLite
import Foundation
package import GRDB

/// The canonical names of a joined store's column lists, where they differ from the names in the lists.
///
/// SQLite rewrites the capture triggers when any program renames a table or column, and the triggers remain. So the store
/// recognizes the rename without a declaration, and each column of the list keeps its canonical name (`TableRepair`).
package enum CanonicalNames {
    package static let schema = """
        CREATE TABLE IF NOT EXISTS annals_canonical_names (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL,
            columns TEXT NOT NULL
        );
        """

    /// A column list's names in the log.
    package struct Names: Hashable, Codable, Sendable {
        package var table: String
        /// In the order of the list.
        package var columns: [String]

        package init(table: String, columns: [String]) {
            self.table = table
            self.columns = columns
        }
    }

    package static func exist(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT EXISTS(SELECT 1 FROM main.sqlite_master WHERE name = 'annals_canonical_names')")) ?? false
    }

    package static func load(_ db: Database) throws -> [Int64: Names] {
        guard try exist(db) else { return [:] }
        var names: [Int64: Names] = [:]
        for row in try Row.fetchAll(db.cachedStatement(sql: "SELECT id, name, columns FROM main.annals_canonical_names")) {
            names[try row.number("id")] = try Names(table: row.value("name"), columns: row.json("columns"))
        }
        return names
    }

    /// Replaces the stored names. The table is dropped and created again, so that `schema_version` changes for every connection.
    ///
    /// Call it when everything is recorded, in the same SQLite transaction.
    package static func save(_ names: [Int64: Names], _ db: Database) throws {
        guard try names != load(db) else { return }
        try drop(db)
        try db.execute(sql: schema)
        let encoder = JSONEncoder()
        for (id, names) in names {
            let columns = String(decoding: try encoder.encode(names.columns), as: UTF8.self)
            try db.execute(
                sql: "INSERT INTO main.annals_canonical_names (id, name, columns) VALUES (?, ?, ?)", arguments: [id, names.table, columns])
        }
        try StoreSchema.noteSchemaVersion(db)
    }

    /// Stores one list's canonical names. Stores nothing if they equal the names in the list.
    package static func set(_ names: Names, of list: TrackedTable, _ db: Database) throws {
        var all = try load(db)
        all[list.id] = names == Names(table: list.name, columns: list.columns) ? nil : names
        try save(all, db)
    }

    package static func forget(_ id: Int64, _ db: Database) throws {
        guard try exist(db) else { return }
        try db.execute(sql: "DELETE FROM main.annals_canonical_names WHERE id = ?", arguments: [id])
    }

    package static func drop(_ db: Database) throws {
        try db.execute(sql: "DROP TABLE IF EXISTS main.annals_canonical_names")
    }

    /// Stores the canonical names of lists that had none stored, because their canonical name was their own name. Call it before
    /// tables are renamed in Annals' own tables.
    package static func keep(ofTablesNamed names: [String], _ db: Database) throws {
        var all = try load(db)
        for list in try TrackedTable.fetchAll(db) where all[list.id] == nil && list.state != .dropped {
            guard names.contains(where: { $0.isSameIdentifier(as: list.name) }) else { continue }
            all[list.id] = Names(table: list.name, columns: list.columns)
        }
        try save(all, db)
    }
}

extension TrackedTable {
    /// The table's layout under its canonical names.
    package var firstLayout: TableLayout {
        TableLayout(name: first.table, columns: first.columns, key: key.columnIndexes)
    }

    package var first: CanonicalNames.Names { canonicalNames ?? CanonicalNames.Names(table: name, columns: columns) }
}
