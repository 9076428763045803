internal import AnnalsCore
internal import Foundation
internal import GRDB

/// DATA/relay.db: spaces, their logs, replicas, snapshots' records and tokens, in one SQLite file.
///
/// One file and not one per space, because pushes of many spaces then share one commit and so one fsync, and because
/// a replica's last counter commits together with its entries (SQLite in WAL mode does not commit across files). The
/// price is that a purged space leaves free pages behind instead of a smaller file.
///
/// WAL with synchronous=FULL: an acknowledged push survives a loss of power. Every process that needs the file opens
/// it so; the one that serves holds DATA/relay.lock besides.
final class SQLiteDatabase: LogDatabase {
    private let pool: any DatabaseWriter
    /// nil in memory.
    private let path: String?

    /// The same in memory, which lasts as long as this.
    init() throws {
        path = nil
        pool = try DatabaseQueue(configuration: Self.configuration(readers: 1))
        try pool.writeWithoutTransaction { db in try SQLiteSchema.migrate(db) }
    }

    /// Opens the file in `directory`, creating both where they are missing.
    ///
    /// Throws `AnnalsError`: `.newerFormat`, `.notADatabase`, `.cannotCreate` or `.busy`.
    init(directory: String, readers: Int) throws {
        let path = (directory as NSString).appendingPathComponent("relay.db")
        self.path = path
        do {
            try DurableFiles.createDirectory(directory)
            // SQLite gives its other files the permissions of this one.
            let isNew = try DurableFiles.createIfMissing(path)
            pool = try DatabasePool(path: path, configuration: Self.configuration(readers: readers))
            // After opening, since the pool itself sets NORMAL when it turns WAL on.
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
            // 16 MiB instead of 4 before the log is folded back into the file: fewer fsyncs of the file itself.
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
            AnnalsError(.diskFull, operation: "relay", "no space is left for \(path)", underlying: error)
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

    /// One relay at a time serves a file.
    func listen(_ visit: @escaping @Sendable (SpaceName, Position) -> Void) {}

    func byteCount() async throws -> Int64 {
        guard let path else { return 0 }
        return [path, path + "-wal"].reduce(0) { sum, path in
            sum + ((try? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int64) ?? 0)
        }
    }

    /// Folds the write-ahead log back, so that the file alone is whole, and closes the connections. Throws what SQLite
    /// reports.
    func close() throws {
        if path != nil { try pool.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) } }
        try pool.close()
    }
}
