package import AnnalsCore
package import AnnalsHistory
import AnnalsMerge
import AnnalsReplica
import AnnalsRows
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// What saving edited rows needs from a store: the stored rows, the merge rules, and conflicting rows.
///
/// A save works like a rebase: the edited row is "incoming", the stored row is "stored", and the row that the editor had read is
/// the base. So the rule and the store's policies that settle columns in a rebase settle them here too.
package final class SaveSession {
    package let db: Database
    package let catalog: TableCatalog
    private let session: MergeSession
    private let configured: MergePolicies
    private var loaded: MergePolicies?

    /// The side that wins a column that both sides changed, if the column's policy does not combine.
    package enum Trump: Sendable {
        case store, object
    }

    /// A row that has a unique tuple which another row needs.
    package struct Holder {
        package var row: [Value]
        /// Indices of the index's columns; nil if the index has expressions or generated columns.
        package var columnIndexes: [Int]?
        package var isKey: Bool
    }

    init(_ db: Database, _ configuration: Store.Configuration, _ schema: SchemaCache) throws {
        self.db = db
        catalog = try schema.catalog(db)
        session = MergeSession(db, registry: try schema.tables(db))
        configured = configuration.mergePolicies
    }

    /// The number of history's newest transaction; zero without history.
    package func newestTransaction() throws -> Int64 { try Self.newestTransaction(db) }

    fileprivate static func newestTransaction(_ db: Database) throws -> Int64 {
        guard try StoreSchema.exists(db) else { return 0 }
        return try TransactionTable(db).newest() ?? 0
    }

    // MARK: Rows

    /// The stored row of a key; nil if there is none.
    package func row(_ key: [Value], of table: DeclaredTable) throws -> [Value]? {
        try session.prepared(table.lookup()).row(for: key, columns: table.columns.count)
    }

    /// The value that the column would hold if this value were written to it.
    package func asStored(_ value: Value, _ columnIndex: Int, of table: DeclaredTable) throws -> Value {
        try session.asStored(value, in: table.columns[columnIndex])
    }

    // MARK: Merging

    /// The stored row with the edits merged into it, column by column.
    ///
    /// A column with a combining policy of the space or the program combines here too. For other columns, `trump` decides if both
    /// sides changed them.
    package func merged(_ table: DeclaredTable, base: [Value], stored: [Value], mine: [Value], _ trump: Trump) throws -> [Value] {
        let rules = try policies()[table.name]
        var merged = stored
        for columnIndex in stored.indices where mine[columnIndex] != base[columnIndex] {
            var policy: ColumnPolicy = trump == .store ? .mergeByPropertyStoreTrump : .mergeByPropertyObjectTrump
            let own = rules.policy(ofColumn: table.columns[columnIndex].name)
            if own.isCombining, !table.primaryKey.contains(columnIndex) { policy = own }
            let outcome = try policy.settle(
                base: base[columnIndex], stored: stored[columnIndex], incoming: mine[columnIndex],
                isContested: stored[columnIndex] != base[columnIndex],
                later: { trump == .store ? .stored : .incoming },
                combine: {
                    try policies().combine(
                        policy, base: base[columnIndex], stored: stored[columnIndex], incoming: mine[columnIndex], table: table.name,
                        column: columnIndex,
                        columns: table.columns.map(\.name), row: stored
                    ).map { try asStored($0, columnIndex, of: table) }
                })
            switch outcome {
            case .unchanged, .stored: break
            case .incoming: merged[columnIndex] = mine[columnIndex]
            case .combined(let value): merged[columnIndex] = value
            }
        }
        return merged
    }

    private func policies() throws -> MergePolicies {
        if let loaded { return loaded }
        let inForce = try StoreSchema.isReplica(db) ? PolicyTable.load(db, for: session.registry) : []
        let policies = try MergePolicies(inForce, over: configured)
        loaded = policies
        return policies
    }

    // MARK: Constraints

    /// Rows that conflict with a row in the table's key and unique indexes, without the stored form of the row itself.
    package func holders(of row: [Value], in table: DeclaredTable, exceptKey own: [Value]?) throws -> [Holder] {
        try UniqueHolders(session, table) { try self.row($0, of: table) }.collisions(of: row)
            .filter { collision in table.primaryKey.map { collision.holder[$0] } != own }
            .map { Holder(row: $0.holder, columnIndexes: $0.columnIndexes, isKey: $0.isKey) }
    }

    /// Whether a deferred foreign key is violated; SQLite checks it only at COMMIT.
    package var hasBrokenForeignKeys: Bool { DeferredForeignKeys.areBroken(db) }
}

extension Store {
    /// Saves edits as one transaction of history.
    ///
    /// - Parameters:
    ///   - take: returns what to save, at the start of this save's write transaction; nil if there is nothing.
    ///   - conclude: can ask which rows of some tables the transaction wrote, according to history, including those that cascades
    ///     and triggers wrote.
    ///   - done: called after COMMIT with what was saved, before another save begins.
    /// - Returns: the result of `done`; nil if there was nothing to save.
    package func save<Edits, Saved, Outcome: Sendable>(
        author: String?, contextName: String?, take: @escaping @Sendable () -> Edits?,
        write: @escaping @Sendable (SaveSession, Edits) throws -> Saved,
        conclude:
            @escaping @Sendable (
                SaveSession, inout Saved, _ touched: ([String]) throws -> Set<PersistentIdentifier>
            ) throws -> Void = { _, _, _ in },
        done: @escaping @Sendable (Saved, HistoryToken?) -> Outcome
    ) async throws -> Outcome? {
        let (configuration, schema) = (configuration, schema)
        return try await translated("save") {
            try await database.writeWithoutTransaction { db in
                guard let edits = take() else { return nil }
                var open: SaveSession?
                let (saved, token) = try inManagedTransaction(db, author: author, contextName: contextName) { db in
                    // Rows of one save may refer to each other in any order.
                    try db.execute(sql: "PRAGMA defer_foreign_keys = ON")
                    let session = try SaveSession(db, configuration, schema)
                    open = session
                    return try write(session, edits)
                } conclude: { saved, number in
                    guard let open else { return }
                    try conclude(open, &saved) { try touchedRows(db, in: number, tables: $0) }
                }
                return done(saved, token)
            }
        }
    }

    private func touchedRows(_ db: Database, in number: Int64, tables: [String]) throws -> Set<PersistentIdentifier> {
        var request = HistoryRequest(after: HistoryToken(number: number - 1, store: try HistoryBounds(db).storeID))
        request.tableNames = tables
        do {
            return try Set(HistoryReader(db, tables: schema.tables(db)).touchedRows(request))
        } catch let error as AnnalsError where error.code == .tokenExpired {
            // A table's history starts again here.
            return []
        }
    }

    /// Reads for an edit context, with the declared tables and the number of history's newest transaction.
    package func readForEditing<T: Sendable>(
        _ body: @escaping @Sendable (Database, TableCatalog, _ newest: Int64) throws -> T
    ) async throws -> T {
        let schema = schema
        return try await translated("read") {
            try await database.readingOnly { db in
                let newest = try SaveSession.newestTransaction(db)
                return try ClosureError.passing { try body(db, schema.catalog(db), newest) }
            }
        }
    }

    /// Rows that got other keys in a sync after a point of history, oldest first.
    ///
    /// - Throws: `AnnalsError` with code `tokenExpired` if some of this was purged, because an identifier may mean another row now.
    package static func renumberedRows(_ db: Database, after number: Int64) throws -> [RenumberedRow] {
        guard try RenumberedRows.reach(db, after: number) else {
            throw AnnalsError(
                .tokenExpired, operation: "edit", "rows that were read got other keys, and a purge dropped the records of the new keys",
                hint: "Discard the edits, and fetch the rows again")
        }
        return try RenumberedRows.load(db, after: number)
    }
}
