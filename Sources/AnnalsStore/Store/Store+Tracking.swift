public import AnnalsCore
public import AnnalsHistory
package import AnnalsReplica
import AnnalsRows
public import AnnalsSchema
import AnnalsSQLite
public import GRDB

extension Store {
    /// Starts the history of the selected tables, or of all tables that can have one, in one SQLite transaction. Earlier writes of
    /// other programs are recorded first.
    ///
    ///     let report = try await store.track(.all)
    ///     for table in report.tables { print(table.name, table.outcome) }
    ///
    /// - Throws: `AnnalsError`; nothing is changed then. A table that cannot be tracked is in the report with the reason.
    @discardableResult
    public func track(_ selection: Tracking.Selection, options: Tracking.Options = .init()) async throws -> TrackingReport {
        try await track(selection, options: options) { _ in }
    }

    /// - Parameter check: gets the report before COMMIT. If it throws, nothing is changed.
    package func track(
        _ selection: Tracking.Selection, options: Tracking.Options, check: @escaping @Sendable (TrackingReport) throws -> Void
    ) async throws -> TrackingReport {
        let (configuration, schema) = (configuration, schema)
        return try await translated("track") {
            try await database.writeWithoutTransaction { db in
                try Tracking.track(db, selection, options: options, StoreStep(db, configuration, schema).environment, check: check)
            }
        }
    }

    /// Ends the history of tables and deletes it. Without a list, ends it for all tables and removes all objects of Annals, even if
    /// Annals' own tables are corrupt. After tables were named, a store that tracks all tables no longer tracks new ones
    /// automatically.
    ///
    /// - Throws: `AnnalsError`: `notTracked`, or `alreadyJoined` while the store is a replica.
    public func untrack(_ tables: [String]? = nil) async throws -> [String] {
        // Where all tables are tracked, a table that was created since the last look is tracked now. Otherwise the next look would do it.
        if tables != nil { try? await recordExternalChanges() }
        return try await translated("untrack") {
            try await database.writeWithoutTransaction { db in
                if try Self.isReplica(db, isToEnd: tables == nil) {
                    throw Self.mustLeave("untrack", "the store has joined a space")
                }
                do {
                    return try Tracking.untrack(db, tables)
                } catch let error as AnnalsError where error.code == .notTracked {
                    throw try Self.isDamaged(db) ? Self.damagedTables : error
                }
            }
        }
    }

    /// Whether it is impossible to know which tables have a history.
    private static func isDamaged(_ db: Database) throws -> Bool {
        try StoreSchema.exists(db) ? !OwnTableChecks(db: db).areSound() : Tracking.hasRemains(db)
    }

    private static var damagedTables: AnnalsError {
        AnnalsError(
            .corruptBatch, operation: "untrack", "Annals' own tables in this file are corrupt",
            hint: "Call untrack() without table names: it removes everything of Annals from the file and keeps your rows",
            commandHint: "Run annals untrack without table names: it removes everything of Annals from the file and keeps your rows")
    }

    /// - Parameter isToEnd: if true, a replica that cannot be read, and so cannot leave its space, does not count as a replica.
    private static func isReplica(_ db: Database, isToEnd: Bool) throws -> Bool {
        guard try StoreSchema.exists(db) else { return false }
        if isToEnd, try !OwnTableChecks(db: db).areSound() { return false }
        return try ReplicaState.load(db) != nil
    }

    /// Writes as one transaction of history, with an author.
    ///
    ///     try await store.write(author: "till 3") { db in
    ///         try db.execute(sql: "UPDATE invoice SET paid = 1 WHERE id = 17")
    ///     }
    ///
    /// Earlier writes of other programs are recorded first. A write that changes nothing creates no transaction.
    ///
    /// - Throws: `AnnalsError` for errors of SQLite; other errors of `updates` unchanged. Nothing is changed then.
    @discardableResult
    public func write<T: Sendable>(
        author: String? = nil, contextName: String? = nil, _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try await managed("write") { [schema] db, step in try Self.record(db, step, schema, author, contextName, updates).value }
    }

    /// Writes as `write` does, and also returns the token after it; nil if nothing was changed.
    public func transaction<T: Sendable>(
        author: String? = nil, contextName: String? = nil, _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> (value: T, token: HistoryToken?) {
        try await managed("write") { [schema] db, step in
            let (value, number) = try Self.record(db, step, schema, author, contextName, updates)
            return (value, try number.map { _ in try HistoryBounds(db).latest })
        }
    }

    /// Runs an app's write and records it as one transaction, within a managed step.
    ///
    /// - Returns: the number of the transaction; nil if nothing was changed.
    static func record<T>(
        _ db: Database, _ step: StoreStep, _ schema: SchemaCache, _ author: String?, _ contextName: String?,
        _ updates: (Database) throws -> T
    ) throws -> (value: T, number: Int64?) {
        try TransactionRecorder.managedWrite(db, author: author, contextName: contextName, step.environment) { db in
            try RefusedReference.naming(db, schema) { db in try ClosureError.passing { try updates(db) } }
        }
    }

    /// Records writes of other programs, so that history is up to date.
    public func recordExternalChanges() async throws {
        try await managed("history") { _, step in _ = try step.recordExternal() }
    }

    /// The same, but takes the lock only if there is something to record.
    package func recordNewChanges() async throws {
        let isOpen = try await translated("history") {
            try await database.writeWithoutTransaction { db in try RecordedRead.isOpen(db) }
        }
        if isOpen { try await recordExternalChanges() }
    }

    /// The names of the tracked tables, as they were recorded last.
    package func trackedTables() async throws -> [String] {
        try await translated("status") {
            try await database.reading { db in
                try StoreSchema.exists(db) ? TrackedTable.fetchTracked(db).filter { $0.state == .tracked }.map(\.name) : []
            }
        }
    }

    /// Foreign keys from tables without history to tracked tables, sorted by table. Rows of these tables are not synced.
    ///
    ///     let tables = try await store.untrackedReferences().map(\.table)
    ///
    /// - Throws: `AnnalsError` if the file cannot be read.
    public func untrackedReferences() async throws -> [UntrackedReference] {
        try await managed("status") { db, step in try StoreSchema.exists(db) ? step.tables().untrackedReferences : [] }
    }

    /// Rows of tracked tables with NULL in their key, sorted by table. They are in history and are not synced.
    ///
    ///     let unsynced = try await store.rowsWithNullKey()
    ///
    /// SQLite finds them with the key's index if NULL is in its first column. Otherwise it reads the whole index.
    ///
    /// - Throws: `AnnalsError` if the file cannot be read.
    public func rowsWithNullKey() async throws -> [RowsWithNullKey] {
        try await managed("status") { db, step in
            try StoreSchema.exists(db) ? RowsWithNullKey.fetchAll(db, in: step.tables().entries.map(\.definition)) : []
        }
    }

    /// Tables that use functions, collations or modules that the store's connections do not have, sorted by table.
    ///
    ///     let unusable = try await store.unusableTables()
    ///     for table in unusable { print(table.table, table.message) }
    ///
    /// An app adds what it has with `Configuration.prepareDatabase`.
    ///
    /// - Throws: `AnnalsError` if the file cannot be read.
    public func unusableTables() async throws -> [UnusableTable] {
        try await translated("status") { try await database.reading { db in try UnusableTable.fetchAll(db) } }
    }

    /// The conflicts in the log, oldest first.
    package func conflicts() async throws -> [Conflict] {
        try await read { [schema] db in try StoreSchema.isReplica(db) ? ConflictJournal.all(db, schema.tables(db)) : [] }
    }

    /// Closes the file. Every later use of the store throws an `AnnalsError` with code `usage`. A running agent, lists and
    /// sequences of changes end with this error too.
    ///
    /// - Throws: `AnnalsError` if SQLite cannot close the file yet.
    public func close() throws {
        try blocking("close") { try $0.close() }
        closing.close()
    }
}

extension Store {
    /// SHA-256 of the tracked rows. It is equal on replicas with equal rows. It does not depend on the layout of the file and on local
    /// names. Generated columns are left out.
    public func digest() async throws -> Digest {
        try await read { try StoreDigest.rows($0) }
    }
}
