import AnnalsCore
import AnnalsSQLite
public import GRDB

extension Store {
    /// A view of the store as it is now, that later commits do not change: Core Data's query generation.
    ///
    ///     let generation = try store.makeQueryGeneration()
    ///     let rows = try await generation.read { db in try Invoice.fetchAll(db) }
    ///     let total = try await generation.read { db in try Invoice.select(sum(Column("amount")), as: Int.self).fetchOne(db) }
    ///
    /// It lasts as long as the snapshot is held. Meanwhile nobody has to wait, but the -wal file cannot be reused: hold it for as
    /// long as a screen or a report needs it, and no longer.
    ///
    /// - Throws: `AnnalsError` with code `usage` for a store in memory and for a file that is not in WAL mode: there a reader
    ///   that stays would keep everyone from writing. `PRAGMA journal_mode = WAL` once, on the file, changes that.
    public func makeQueryGeneration() throws -> DatabaseSnapshot {
        try blocking("read") { database in
            if let pool = database as? DatabasePool { return try pool.makeSnapshot() }
            let mode = try database.unsafeReentrantRead { db in try String.fetchOne(db, sql: "PRAGMA journal_mode") }
            guard mode == "wal", path != ":memory:" else {
                throw AnnalsError(
                    .usage, operation: "read", "a state can only be kept for reading where the file is in WAL mode",
                    hint: path == ":memory:" ? "A store in memory has none" : "Run PRAGMA journal_mode = WAL on the file once")
            }
            // A queue over a file in WAL mode: the snapshot's connection is its own, and outlives the pool that makes it.
            return try DatabasePool(path: database.path, configuration: database.configuration).makeSnapshot()
        }
    }
}
