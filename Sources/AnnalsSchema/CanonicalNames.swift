package import AnnalsCore
import AnnalsSQLite
import Foundation
package import GRDB

/// The first names of a joined store's column lists, where those are otherwise than what the lists say.
///
/// A rename that any program makes leaves capture triggers where they are, and SQLite rewrites them. So it is known for one without a
/// word: the list's places keep their first names (`TableRepair`).
package enum CanonicalNames {
    package static let schema = """
        CREATE TABLE IF NOT EXISTS annals_first_names (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL,
            columns TEXT NOT NULL
        );
        """

    /// A list's names in the log.
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
            db.cachedStatement(sql: "SELECT EXISTS(SELECT 1 FROM main.sqlite_master WHERE name = 'annals_first_names')")) ?? false
    }

    package static func load(_ db: Database) throws -> [Int64: Names] {
        guard try exist(db) else { return [:] }
        var names: [Int64: Names] = [:]
        for row in try Row.fetchAll(db.cachedStatement(sql: "SELECT id, name, columns FROM main.annals_first_names")) {
            names[try row.number("id")] = try Names(table: row.value("name"), columns: row.json("columns"))
        }
        return names
    }

    /// Takes the place of what was known. The table is made anew, so that `schema_version` tells every connection.
    ///
    /// Call it where everything is recorded, in the same SQLite transaction.
    package static func save(_ names: [Int64: Names], _ db: Database) throws {
        guard try names != load(db) else { return }
        try drop(db)
        try db.execute(sql: schema)
        let encoder = JSONEncoder()
        for (id, names) in names {
            let columns = String(decoding: try encoder.encode(names.columns), as: UTF8.self)
            try db.execute(
                sql: "INSERT INTO main.annals_first_names (id, name, columns) VALUES (?, ?, ?)", arguments: [id, names.table, columns])
        }
        try StoreSchema.noteSchemaVersion(db)
    }

    /// Sets one list's names, where they are not what the list says.
    package static func set(_ names: Names, of list: TrackedTable, _ db: Database) throws {
        var all = try load(db)
        all[list.id] = names == Names(table: list.name, columns: list.columns) ? nil : names
        try save(all, db)
    }

    package static func forget(_ id: Int64, _ db: Database) throws {
        guard try exist(db) else { return }
        try db.execute(sql: "DELETE FROM main.annals_first_names WHERE id = ?", arguments: [id])
    }

    package static func drop(_ db: Database) throws {
        try db.execute(sql: "DROP TABLE IF EXISTS main.annals_first_names")
    }

    /// Before tables get other names in Annals' own tables: the lists that have a table's first name by its name alone.
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
    /// What the log calls the table and its columns.
    package var firstLayout: TableLayout {
        TableLayout(name: first.table, columns: first.columns, key: key.places)
    }

    package var first: CanonicalNames.Names { firstNames ?? CanonicalNames.Names(table: name, columns: columns) }
}
