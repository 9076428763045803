import AnnalsCore
import AnnalsSQLite
public import GRDB

extension Store {
    /// A view of the store's current state that later commits do not change, like Core Data's query generation.
    ///
    ///     let generation = try store.makeQueryGeneration()
    ///     let rows = try await generation.read { db in try Invoice.fetchAll(db) }
    ///     let total = try await generation.read { db in try Invoice.select(sum(Column("amount")), as: Int.self).fetchOne(db) }
    ///
    /// It exists as long as the snapshot is held. Meanwhile nobody is blocked, but the -wal file grows because it cannot be reused.
    /// So hold a generation only as long as a screen or a report needs it.
    ///
    /// - Throws: `AnnalsError` with code `usage` for an in-memory store and for a file that is not in WAL mode, where a long reader
    ///   would block all writers. Run `PRAGMA journal_mode = WAL` on the file once to change that.
    public func makeQueryGeneration() throws -> DatabaseSnapshot {
        try blocking("read") { database in
            if let pool = database as? DatabasePool { return try pool.makeSnapshot() }
            let mode = try database.unsafeReentrantRead { db in try String.fetchOne(db, sql: "PRAGMA journal_mode") }
            guard mode == "wal", path != ":memory:" else {
                throw AnnalsError(
                    .usage, operation: "read", "a state can only be kept for reading where the file is in WAL mode",
                    hint: path == ":memory:" ? "A store in memory has none" : "Run PRAGMA journal_mode = WAL on the file once")
            }
            // A queue on a file in WAL mode: the snapshot has its own connection, which lives longer than the pool that creates it.
            return try DatabasePool(path: database.path, configuration: database.configuration).makeSnapshot()
        }
    }
}
