package import AnnalsCore
import AnnalsSQLite
internal import Foundation
package import GRDB

/// One column list with which a table is or was tracked: a row of annals_tables.
///
/// When a table's columns change, its list is retired and stays readable, and the new list gets its own id.
package struct TrackedTable: Hashable, Sendable {
    /// The id in changes and on the wire.
    package var id: Int64
    package var name: String
    /// The stored columns, in the table's order at that time.
    package var columns: [String]
    package var key: Key
    package var state: State
    /// The digest of the table's declaration at the last check.
    package var shape: String
    /// The oldest transaction after which the table's rows can be reconstructed; nil if there is no limit.
    ///
    /// Tokens of older transactions have expired for this table: a program wrote without capture, or the table was not tracked yet.
    package var gap: Int64?
    /// The canonical names of table and columns, if a joined store uses other names.
    package var firstNames: CanonicalNames.Names?
    /// The list that continues this one, with the new indices of columns; nil if there is none or it is unknown.
    package var continuation: ListContinuation?

    package enum State: String, Hashable, Sendable {
        case tracked
        /// The table has other columns now.
        case retired
        /// Another program dropped the table.
        case dropped
    }

    package struct Key: Hashable, Codable, Sendable {
        /// Indices of the key's columns, in the key's order.
        package var places: [Int]
        /// The collation of each key column in the key's index.
        package var collations: [String]
        /// The key may hold NULL, and raw changes have rowids.
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

    /// Every column list of the store, sorted by id; empty if the store has no history.
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

    /// The column lists of currently tracked tables, sorted by id.
    package static func fetchTracked(_ db: Database) throws -> [TrackedTable] {
        try fetchAll(db).filter { $0.state == .tracked }
    }

    /// One column list by its id, without canonical names and continuation. `fetchAll` returns these too.
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

    /// Creates a column list for a table as it is declared now: its row, its table of changes and its table of notes.
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
            throw AnnalsError(.defect, operation: "track", "internal error: the row of a newly tracked table is missing")
        }
        return created
    }
}
