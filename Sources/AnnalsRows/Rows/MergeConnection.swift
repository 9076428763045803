import AnnalsCore
import AnnalsSchema
import CAnnalsSQLite
package import GRDB
import GRDBSQLite

/// Sets a connection up for applying entries, and back.
///
/// Entries hold every row that changed, so nothing may change more rows by itself meanwhile: no ON DELETE action, no
/// trigger on tracked tables (merge rule 19). Deferring foreign keys would defer their check but not their actions, and
/// inside a transaction their enforcement cannot be changed, so it is turned off around it.
package enum MergeConnection {
    /// Runs `body`, which begins and ends its own transactions, with foreign keys and persistent triggers off and the
    /// given user triggers in their place. Whatever happens, the connection is afterwards as it was found; a transaction
    /// that `body` left open when it threw is rolled back.
    ///
    ///     let triggers = try UserTriggers.plan(db, tracked: names)
    ///     try MergeConnection.withTriggersAndForeignKeysOff(db, userTriggers: triggers) {
    ///         try db.inTransaction(.immediate) { … }
    ///     }
    ///
    /// Calls do not nest. Foreign keys are not enforced in `body`, not in untracked tables either: check them before COMMIT.
    ///
    /// - Precondition: No transaction is open, before and after `body`.
    /// - Throws: What `body` throws, what `UserTriggers.install` throws, or `AnnalsError` with code `defect` where the
    ///   connection could not be set back and must be closed.
    package static func withTriggersAndForeignKeysOff<T>(
        _ db: Database, userTriggers: UserTriggers, _ body: () throws -> T
    ) throws -> T {
        precondition(!db.isInsideTransaction, "foreign keys can only be turned off outside a transaction")
        let found = try ConnectionSettings(of: db)
        let result: T
        do {
            try ConnectionSettings(forMergesOn: found).apply(to: db)
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

    /// Each step is tried, whatever became of the others.
    private static func setBack(
        _ db: Database, _ userTriggers: UserTriggers, _ found: ConnectionSettings, after failure: (any Error)?
    ) throws {
        let steps: [() throws -> Void] = [
            { if db.isInsideTransaction { try db.rollback() } },
            { try userTriggers.remove(db) },
            { try found.apply(to: db) },
        ]
        var problems: [any Error] = []
        for step in steps {
            do { try step() } catch { problems.append(error) }
        }
        guard let problem = problems.first else { return }
        throw AnnalsError(
            .defect, operation: "apply", "The connection could not be set back after entries were applied",
            hint: "Close the store and open it again", underlying: failure ?? problem)
    }
}

/// Settings of a connection that are no part of the file.
private struct ConnectionSettings {
    let triggers: Bool
    let foreignKeys: Bool
    /// As the pragma has it: pages, or kibibytes below zero.
    let cacheSize: Int

    /// A program that gave its connection a cache of its own choice, in pages or larger than ours, keeps it.
    init(forMergesOn found: ConnectionSettings) {
        triggers = false
        foreignKeys = false
        cacheSize = found.cacheSize > 0 ? found.cacheSize : min(found.cacheSize, -ApplyLimits.cacheKibibytes)
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
            throw DatabaseError(resultCode: ResultCode(rawValue: code), message: "the connection does not take its settings")
        }
        // Past GRDB, which runs nothing more once its task was cancelled. It may fail where another program holds the file; then the
        // cache has the wrong size, and that is all.
        sqlite3_exec(db.sqliteConnection, "PRAGMA main.cache_size = \(cacheSize)", nil, nil, nil)
    }
}
