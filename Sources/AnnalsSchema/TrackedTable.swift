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

    package static let schema = """
        CREATE TABLE IF NOT EXISTS main.annals_tables(
          id INTEGER PRIMARY KEY, name TEXT NOT NULL, columns TEXT NOT NULL, key TEXT NOT NULL,
          state TEXT NOT NULL, shape TEXT NOT NULL, gap INTEGER);
        """

    /// A kept statement over the id of every column list, and what else is said of it, in SQL over `id`.
    package static func statement(_ db: Database, with columns: [String]) throws -> Statement {
        try db.cachedStatement(sql: "SELECT \((["id"] + columns).joined(separator: ", ")) FROM main.annals_tables")
    }

    /// The names of all column lists with their ids, oldest first.
    package static func names(_ db: Database) throws -> [(id: Int64, name: String)] {
        try Row.fetchAll(db, sql: "SELECT id, name FROM main.annals_tables ORDER BY id").map { try ($0.value("id"), $0.value("name")) }
    }

    /// The newest transaction before which some table's rows cannot be told.
    package static func newestGap(_ db: Database) throws -> Int64? {
        try Int64.fetchOne(db, sql: "SELECT max(gap) FROM main.annals_tables")
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

    // MARK: What changes of it

    package static func set(gap number: Int64, of id: Int64, _ db: Database) throws {
        try db.execute(sql: "UPDATE main.annals_tables SET gap = ? WHERE id = ?", arguments: [number, id])
    }

    package static func set(shape: String, of id: Int64, _ db: Database) throws {
        try db.execute(sql: "UPDATE main.annals_tables SET shape = ? WHERE id = ?", arguments: [shape, id])
    }

    package static func set(state: State, of id: Int64, _ db: Database) throws {
        try db.execute(sql: "UPDATE main.annals_tables SET state = ? WHERE id = ?", arguments: [state.rawValue, id])
    }

    /// Renames all lists of some tables at once, since tables may have swapped their names.
    package static func rename(_ names: [(from: String, to: String)], _ db: Database) throws {
        let cases = names.map { "WHEN \(SQL.literal($0.from)) THEN \(SQL.literal($0.to))" }.joined(separator: " ")
        let old = names.map { SQL.literal($0.from) }.joined(separator: ", ")
        try db.execute(sql: "UPDATE main.annals_tables SET name = CASE name \(cases) END WHERE name IN (\(old)) AND state <> 'dropped'")
    }

    package static func delete(_ id: Int64, _ db: Database) throws {
        try db.execute(sql: "DELETE FROM main.annals_tables WHERE id = ?", arguments: [id])
    }
}
