import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import CAnnalsSQLite
package import GRDB
import GRDBSQLite

/// Prepares a connection for applying entries, and restores it afterwards.
///
/// An entry holds every row that its transaction changed. So nothing else may change rows while it is applied: no ON DELETE
/// action and no trigger on a tracked table (merge rule 19). Deferred foreign keys would defer only the check, not the actions.
/// SQLite does not change the enforcement of foreign keys inside a transaction, so it is turned off before one begins.
package enum MergeConnection {
    /// Runs `body` with foreign keys and persistent triggers off, and with the given user triggers instead of the persistent
    /// ones. `body` begins and ends its own transactions. Afterwards the connection always has its earlier settings. If `body`
    /// throws and leaves a transaction open, the transaction is rolled back.
    ///
    ///     let triggers = try UserTriggers.plan(db, tracked: names)
    ///     try MergeConnection.withTriggersAndForeignKeysOff(db, userTriggers: triggers) {
    ///         try db.inTransaction(.immediate) { … }
    ///     }
    ///
    /// Calls do not nest. Foreign keys are not enforced in `body`, also not in untracked tables: check them before COMMIT.
    ///
    /// - Precondition: No transaction is open, before and after `body`.
    /// - Throws: The errors of `body` and of `UserTriggers.install`, or `AnnalsError` with code `defect` if the connection could
    ///   not be restored and must be closed.
    package static func withTriggersAndForeignKeysOff<T>(
        _ db: Database, userTriggers: UserTriggers, _ body: () throws -> T
    ) throws -> T {
        try WorkCache.with { try run(db, userTriggers, cache: $0, body) }
    }

    private static func run<T>(_ db: Database, _ userTriggers: UserTriggers, cache: Int, _ body: () throws -> T) throws -> T {
        precondition(!db.isInsideTransaction, "foreign keys can only be turned off outside a transaction")
        let found = try ConnectionSettings(of: db)
        let result: T
        do {
            try ConnectionSettings(forMergesOn: found, cache: cache).apply(to: db)
            try userTriggers.install(db)
            result = try body()
        } catch {
            try setBack(db, userTriggers, found, after: error)
            throw error
        }
        precondition(!db.isInsideTransaction, "a transaction was left open")
        try setBack(db, userTriggers, found, after: nil)
        return result
    }

    /// Runs every step, also after another step failed.
    private static func setBack(
        _ db: Database, _ userTriggers: UserTriggers, _ found: ConnectionSettings, after failure: (any Error)?
    ) throws {
        let steps: [() throws -> Void] = [
            { if db.isInsideTransaction { try db.rollback() } },
            { try userTriggers.remove(db) },
            { try WorkCache.giveBack(db) { try found.apply(to: db) } },
        ]
        var problems: [any Error] = []
        for step in steps {
            do { try step() } catch { problems.append(error) }
        }
        guard let problem = problems.first else { return }
        throw AnnalsError(
            .defect, operation: "apply", "internal error: the connection's settings could not be restored after entries were applied",
            hint: "Close the store and open it again", underlying: failure ?? problem)
    }
}

/// Settings of a connection that are not part of the file.
private struct ConnectionSettings {
    let triggers: Bool
    let foreignKeys: Bool
    /// The value of the pragma: a number of pages, or a negative number of kibibytes.
    let cacheSize: Int

    /// - Parameter cache: the size of the cache in kibibytes.
    init(forMergesOn found: ConnectionSettings, cache: Int) {
        triggers = false
        foreignKeys = false
        cacheSize = WorkCache.pragma(found.cacheSize, cache)
    }

    init(of db: Database) throws {
        self.cacheSize = try Int.fetchOne(db.cachedStatement(sql: "PRAGMA main.cache_size")) ?? 0
        self.triggers = annals_sqlite_triggers(db.sqliteConnection) == 1
        self.foreignKeys = annals_sqlite_foreign_keys(db.sqliteConnection) == 1
    }

    func apply(to db: Database) throws {
        for code in [
            annals_sqlite_set_triggers(db.sqliteConnection, triggers ? 1 : 0),
            annals_sqlite_set_foreign_keys(db.sqliteConnection, foreignKeys ? 1 : 0),
        ] where code != SQLITE_OK {
            throw DatabaseError(resultCode: ResultCode(rawValue: code), message: "the connection refused its settings")
        }
        // This does not use GRDB, because GRDB runs no statement after its task was cancelled. The pragma can fail while another program
        // locks the file. Then only the cache size stays wrong.
        sqlite3_exec(db.sqliteConnection, "PRAGMA main.cache_size = \(cacheSize)", nil, nil, nil)
    }
}
