internal import AnnalsCore
internal import Foundation
internal import GRDB

/// DATA/relay.db: spaces, their logs, replicas, snapshot records and tokens, in one SQLite file.
///
/// There is one file for all spaces, for two reasons. Pushes to many spaces share one commit, and so one fsync. And a
/// replica's last counter is committed together with its entries; SQLite in WAL mode does not commit atomically across
/// files. The price: the purge of a space leaves free pages and does not shrink the file.
///
/// WAL with synchronous=FULL: an acknowledged push survives a loss of power. Every process opens the file in this way;
/// the serving process also holds DATA/relay.lock.
final class SQLiteDatabase: LogDatabase {
    private let pool: any DatabaseWriter
    /// nil for a database in memory.
    private let path: String?

    /// Opens a database in memory, for tests.
    init() throws {
        path = nil
        pool = try DatabaseQueue(configuration: Self.configuration(readers: 1))
        try pool.writeWithoutTransaction { db in try SQLiteSchema.migrate(db) }
    }

    /// Opens the file in `directory`; creates both if they are missing.
    ///
    /// Throws `AnnalsError`: `.newerFormat`, `.notADatabase`, `.cannotCreate` or `.busy`.
    init(directory: String, readers: Int) throws {
        let path = (directory as NSString).appendingPathComponent("relay.db")
        self.path = path
        do {
            try DurableFiles.createDirectory(directory)
            // SQLite creates its other files with the permissions of this one.
            let isNew = try DurableFiles.createIfMissing(path)
            pool = try DatabasePool(path: path, configuration: Self.configuration(readers: readers))
            // After opening, because the pool sets NORMAL when it enables WAL.
            try pool.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA synchronous = FULL")
                try SQLiteSchema.migrate(db)
            }
            if isNew { try DurableFiles.synchronizeDirectory(directory) }
        } catch let error as AnnalsError {
            throw error
        } catch {
            throw Self.openingError(error, path: path)
        }
    }

    private static func configuration(readers: Int) -> Configuration {
        var configuration = Configuration()
        configuration.maximumReaderCount = readers
        configuration.foreignKeysEnabled = true
        configuration.busyMode = .timeout(10)
        configuration.label = "annals.relay"
        configuration.prepareDatabase { db in
            // Checkpoints after 16 MiB instead of 4 MiB, for fewer fsyncs of the database file.
            try db.execute(sql: "PRAGMA wal_autocheckpoint = 4000")
            try db.execute(sql: "PRAGMA journal_size_limit = 67108864")
        }
        return configuration
    }

    private static func openingError(_ error: any Error, path: String) -> AnnalsError {
        switch (error as? DatabaseError)?.resultCode {
        case .SQLITE_NOTADB:
            AnnalsError(.notADatabase, operation: "relay", "\(path) is not a relay's database", underlying: error)
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            AnnalsError(
                .busy, operation: "relay", "\(path) is locked by another program", hint: "Try again", isRetryable: true, underlying: error)
        case .SQLITE_FULL:
            AnnalsError(.diskFull, operation: "relay", "the disk has no space left for \(path)", underlying: error)
        default:
            AnnalsError(
                .cannotCreate, operation: "relay", "cannot open \(path): \(RelayDatabase.reason(of: error))",
                hint: "Check that the directory exists and is writable", underlying: error)
        }
    }

    func read<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T {
        try await pool.read { db in try body(SQLiteConnection(db: db)) }
    }

    func readNow<T: Sendable>(_ body: (any LogConnection) throws -> T) throws -> T {
        try pool.read { db in try body(SQLiteConnection(db: db)) }
    }

    func write<T: Sendable>(_ body: @escaping @Sendable (any LogConnection) throws -> T) async throws -> T {
        try await pool.write { db in try body(SQLiteConnection(db: db)) }
    }

    func writeNow<T: Sendable>(_ body: (any LogConnection) throws -> T) throws -> T {
        try pool.write { db in try body(SQLiteConnection(db: db)) }
    }

    func schedule(_ body: @escaping @Sendable (any LogConnection) -> Void) {
        pool.asyncWriteWithoutTransaction { db in body(SQLiteConnection(db: db)) }
    }

    /// Only one relay at a time serves a file, so there are no announcements.
    func listen(_ visit: @escaping @Sendable (SpaceName, Position) -> Void) {}

    func byteCount() async throws -> Int64 {
        guard let path else { return 0 }
        return [path, path + "-wal"].reduce(0) { sum, path in
            sum + ((try? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int64) ?? 0)
        }
    }

    /// Checkpoints the write-ahead log, so that the database file alone is complete, and closes the connections. Throws
    /// the errors of SQLite.
    func close() throws {
        if path != nil { try pool.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) } }
        try pool.close()
    }
}
