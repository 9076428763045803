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
    /// Tokens of older transactions have expired, because a program wrote to the table without capture.
    package var gap: Int64?
    /// The canonical names of table and columns, if a joined store uses other names.
    package var canonicalNames: CanonicalNames.Names?
    /// The list that continues this one, with the new indices of columns; nil if there is none or it is unknown.
    package var continuation: ListContinuation?
    /// The values of rows that are older than a column, by its index; see `FilledColumns`.
    package var fills: [Int: String] = [:]

    package enum State: String, Hashable, Sendable {
        case tracked
        /// The table has other columns now.
        case retired
        /// Another program dropped the table.
        case dropped
        /// The space has removed the table. The file still has it.
        case leftover
        /// The space has removed the table, or the outbox has the schema entry that removes it. The file does not have it: a table of that
        /// name is another one.
        case removed
    }

    package struct Key: Hashable, Codable, Sendable {
        /// Indices of the key's columns, in the key's order.
        package var columnIndexes: [Int]
        /// The collation of each key column in the key's index.
        package var collations: [String]
        /// The key may hold NULL, and raw changes have rowids.
        package var isByRowid: Bool

        package init(columnIndexes: [Int], collations: [String], isByRowid: Bool) {
            self.columnIndexes = columnIndexes
            self.collations = collations
            self.isByRowid = isByRowid
        }
    }

    package var layout: TableLayout {
        TableLayout(name: name, columns: columns, key: key.columnIndexes)
    }

    package var identityRule: IdentityRule {
        IdentityRule(key: key.columnIndexes, collations: key.collations)
    }

    /// Every column list of the store, sorted by id; empty if the store has no history.
    package static func fetchAll(_ db: Database) throws -> [TrackedTable] {
        guard try StoreSchema.exists(db) else { return [] }
        let (first, continued, fills) = (try CanonicalNames.load(db), try ListContinuation.load(db), try FilledColumns.load(db))
        return try Row.fetchAll(db.cachedStatement(sql: "\(selection) ORDER BY id")).map(TrackedTable.init(row:)).map { table in
            var table = table
            table.canonicalNames = first[table.id]
            table.continuation = continued[table.id]
            table.fills = fills[table.id] ?? [:]
            return table
        }
    }

    /// The column lists of currently tracked tables, sorted by id.
    package static func fetchTracked(_ db: Database) throws -> [TrackedTable] {
        try fetchAll(db).filter { $0.state == .tracked }
    }

    /// One column list by its id, without canonical names, continuation and fills. `fetchAll` returns these too.
    package static func fetch(_ db: Database, id: Int64) throws -> TrackedTable? {
        guard try StoreSchema.exists(db) else { return nil }
        return try Row.fetchOne(db.cachedStatement(sql: "\(selection) WHERE id = ?"), arguments: [id]).map(TrackedTable.init(row:))
    }

    package static let schema = """
        CREATE TABLE IF NOT EXISTS main.annals_tables(
          id INTEGER PRIMARY KEY, name TEXT NOT NULL, columns TEXT NOT NULL, key TEXT NOT NULL,
          state TEXT NOT NULL, shape TEXT NOT NULL, gap INTEGER, width INTEGER NOT NULL);
        """

    /// A cached statement that selects the id of every column list, and more columns: SQL expressions that may use `id`.
    package static func statement(_ db: Database, with columns: [String]) throws -> Statement {
        try db.cachedStatement(sql: "SELECT \((["id"] + columns).joined(separator: ", ")) FROM main.annals_tables")
    }

    /// The ids of currently tracked tables in a range, sorted.
    package static func trackedIDs(_ db: Database, in range: ClosedRange<Int64>) throws -> [Int64] {
        let sql = "SELECT id FROM main.annals_tables WHERE id BETWEEN ? AND ? AND state = ? ORDER BY id"
        return try Int64.fetchAll(
            db.cachedStatement(sql: sql), arguments: [range.lowerBound, range.upperBound, State.tracked.rawValue])
    }

    /// The names of all column lists with their ids, sorted by id.
    package static func names(_ db: Database) throws -> [(id: Int64, name: String)] {
        try Row.fetchAll(db, sql: "SELECT id, name FROM main.annals_tables ORDER BY id").map { try ($0.value("id"), $0.value("name")) }
    }

    /// The highest `gap` of all column lists; nil if none has one.
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

    /// Creates a column list for a table as it is declared now: its row and its table of changes.
    package static func create(_ db: Database, for table: DeclaredTable) throws -> TrackedTable {
        let key = Key(columnIndexes: table.primaryKey, collations: table.primaryKeyCollations, isByRowid: table.keyMayBeNull)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let columns = table.columns.map(\.name)
        try db.execute(
            sql: "INSERT INTO main.annals_tables(name, columns, key, state, shape, width) VALUES(?, ?, ?, ?, ?, ?)",
            arguments: [
                table.name, String(decoding: try encoder.encode(columns), as: UTF8.self),
                String(decoding: try encoder.encode(key), as: UTF8.self), State.tracked.rawValue, table.shape, columns.count,
            ])
        let id = db.lastInsertedRowID
        try StoreSchema.createChangesTable(db, id: id, columns: columns.count, byRowid: key.isByRowid)
        guard let created = try fetch(db, id: id) else {
            throw AnnalsError(.defect, operation: "track", "internal error: the row of a newly tracked table is missing")
        }
        return created
    }

    // MARK: Changing a column list

    package static func set(gap number: Int64, of id: Int64, _ db: Database) throws {
        try db.execute(sql: "UPDATE main.annals_tables SET gap = ? WHERE id = ?", arguments: [number, id])
    }

    package static func set(shape: String, of id: Int64, _ db: Database) throws {
        try db.execute(sql: "UPDATE main.annals_tables SET shape = ? WHERE id = ?", arguments: [shape, id])
    }

    package static func set(state: State, of id: Int64, _ db: Database) throws {
        try db.execute(sql: "UPDATE main.annals_tables SET state = ? WHERE id = ?", arguments: [state.rawValue, id])
    }

    /// Renames all column lists of some tables at once, because tables may have swapped names. Lists of dropped tables keep their names.
    package static func rename(_ names: [(from: String, to: String)], _ db: Database) throws {
        let cases = names.map { "WHEN \(SQL.literal($0.from)) THEN \(SQL.literal($0.to))" }.joined(separator: " ")
        let old = names.map { SQL.literal($0.from) }.joined(separator: ", ")
        try db.execute(
            sql: """
                UPDATE main.annals_tables SET name = CASE name \(cases) END
                WHERE name IN (\(old)) AND state NOT IN ('dropped', 'leftover', 'removed')
                """)
    }

    /// Ends the history of a table that the space has removed. Its lists stay readable.
    ///
    /// - Parameter first: the table's canonical name.
    package static func noteRemoval(of first: String, _ db: Database) throws {
        let lists = try fetchAll(db).filter { $0.first.table.isSameIdentifier(as: first) }
        let isHere = lists.last?.state == .tracked || lists.last?.state == .leftover
        for list in lists { try set(state: isHere ? .leftover : .removed, of: list.id, db) }
    }

    /// To be called when the store leaves its space.
    package static func forgetRemovals(_ db: Database) throws {
        for list in try fetchAll(db) where list.state == .leftover || list.state == .removed {
            try set(state: .retired, of: list.id, db)
        }
    }

    package static func delete(_ id: Int64, _ db: Database) throws {
        try db.execute(sql: "DELETE FROM main.annals_tables WHERE id = ?", arguments: [id])
    }
}
