package import AnnalsCore
import AnnalsSQLite
internal import Foundation
package import GRDB

/// One column list with which a table is or was tracked: a row of annals_tables.
///
/// When a table's columns change, the list it had is retired and stays readable, and the new one gets an id of its own.
package struct TrackedTable: Hashable, Sendable {
    /// What changes and the wire call it.
    package var id: Int64
    package var name: String
    /// Stored columns, in the table's order at that time.
    package var columns: [String]
    package var key: Key
    package var state: State
    /// The digest of the table's declaration when it was last looked at.
    package var shape: String
    /// The oldest transaction after which the table's rows can still be told; nil from the start.
    ///
    /// A token of an older transaction has expired for this table: somebody wrote unseen, or the table was not tracked
    /// yet.
    package var gap: Int64?
    /// What the log calls table and columns, where a joined store calls them otherwise.
    package var firstNames: CanonicalNames.Names?
    /// Which list follows, and what became of the columns; nil where none does, or nobody knows.
    package var continuation: ListContinuation?

    package enum State: String, Hashable, Sendable {
        case tracked
        /// The table has other columns now.
        case retired
        /// Another program dropped the table.
        case dropped
    }

    package struct Key: Hashable, Codable, Sendable {
        /// Places of the key's columns, in the key's order.
        package var places: [Int]
        /// By which the key's index compares each.
        package var collations: [String]
        /// The key may hold NULL, and raw changes carry rowids.
        package var isByRowid: Bool

        package init(places: [Int], collations: [String], isByRowid: Bool) {
            self.places = places
            self.collations = collations
            self.isByRowid = isByRowid
        }
    }

    package var layout: TableLayout {
        TableLayout(name: name, columns: columns, key: key.places)
    }

    package var identityRule: IdentityRule {
        IdentityRule(key: key.places, collations: key.collations)
    }

    /// Every column list the store knows, by id. None when the store has no history.
    package static func fetchAll(_ db: Database) throws -> [TrackedTable] {
        guard try StoreSchema.exists(db) else { return [] }
        let (first, continued) = (try CanonicalNames.load(db), try ListContinuation.load(db))
        return try Row.fetchAll(db.cachedStatement(sql: "\(selection) ORDER BY id")).map(TrackedTable.init(row:)).map { table in
            var table = table
            table.firstNames = first[table.id]
            table.continuation = continued[table.id]
            return table
        }
    }

    /// The column lists with which tables are tracked now, by id.
    package static func fetchTracked(_ db: Database) throws -> [TrackedTable] {
        try fetchAll(db).filter { $0.state == .tracked }
    }

    /// One column list by its id; without its first names and what follows, for which `fetchAll` is there.
    package static func fetch(_ db: Database, id: Int64) throws -> TrackedTable? {
        guard try StoreSchema.exists(db) else { return nil }
        return try Row.fetchOne(db.cachedStatement(sql: "\(selection) WHERE id = ?"), arguments: [id]).map(TrackedTable.init(row:))
    }

    private static let selection = "SELECT id, name, columns, key, state, shape, gap FROM main.annals_tables"

    private init(row: Row) throws {
        id = try row.number("id")
        name = try row.value("name")
        columns = try row.json("columns")
        key = try row.json("key")
        guard let state = try State(rawValue: row.value("state")) else { throw Corruption(column: "state") }
        self.state = state
        shape = try row.value("shape")
        gap = try row.value("gap")
    }

    /// Begins a column list for a table as it is declared now: its row, its changes' and notes' tables.
    package static func create(_ db: Database, for table: DeclaredTable, gap: Int64?) throws -> TrackedTable {
        let key = Key(places: table.primaryKey, collations: table.primaryKeyCollations, isByRowid: table.keyMayBeNull)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let columns = table.columns.map(\.name)
        try db.execute(
            sql: "INSERT INTO main.annals_tables(name, columns, key, state, shape, gap) VALUES(?, ?, ?, ?, ?, ?)",
            arguments: [
                table.name, String(decoding: try encoder.encode(columns), as: UTF8.self),
                String(decoding: try encoder.encode(key), as: UTF8.self), State.tracked.rawValue, table.shape, gap,
            ])
        let id = db.lastInsertedRowID
        try StoreSchema.createChangesTable(db, id: id, columns: columns.count, byRowid: key.isByRowid)
        try StoreSchema.createNotesTable(db, id: id, columns: columns.count, key: key.places, byRowid: key.isByRowid)
        guard let created = try fetch(db, id: id) else {
            throw AnnalsError(.defect, operation: "track", "the row of a table just tracked is missing")
        }
        return created
    }
}
