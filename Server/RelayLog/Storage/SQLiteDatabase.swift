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
    /// The copy in an older format that was kept before a migration; nil if nothing was migrated.
    let keptCopy: String?

    /// Opens a database in memory, for tests.
    init() throws {
        path = nil
        keptCopy = nil
        pool = try DatabaseQueue(configuration: Self.configuration(readers: 1))
        try pool.writeWithoutTransaction { db in try SQLiteSchema.migrate(db) }
    }

    /// Opens the file in `directory`; creates both if they are missing.
    ///
    /// - Parameter reserveBytes: bytes of the disk to keep free beside the copy that is made before a migration.
    /// - Throws: `AnnalsError`: `.newerFormat`, `.notADatabase`, `.cannotCreate`, `.diskFull` or `.busy`.
    init(directory: String, readers: Int, reserveBytes: Int64) throws {
        let path = (directory as NSString).appendingPathComponent("relay.db")
        self.path = path
        do {
            try DurableFiles.createDirectory(directory)
            // SQLite creates its other files with the permissions of this one.
            let isNew = try DurableFiles.createIfMissing(path)
            let pool = try DatabasePool(path: path, configuration: Self.configuration(readers: readers))
            self.pool = pool
            // After opening, because the pool sets NORMAL when it enables WAL.
            keptCopy = try pool.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA synchronous = FULL")
                var kept: String?
                try SQLiteSchema.migrate(db) { format in kept = try Self.keep(path, format: format, reserveBytes: reserveBytes, db) }
                return kept
            }
            if isNew { try DurableFiles.synchronizeDirectory(directory) }
        } catch let error as AnnalsError {
            throw error
        } catch {
            throw Self.openingError(error, path: path)
        }
    }

    /// Keeps a copy of the file in its old format, so that the program before an upgrade can serve it again.
    ///
    /// The caller holds the lock for writing, so the copy has everything, and only one process makes it.
    ///
    /// - Returns: the path of the copy.
    private static func keep(_ path: String, format: Int, reserveBytes: Int64, _ db: Database) throws -> String {
        let pages = (try Int64.fetchOne(db, sql: "PRAGMA page_count") ?? 0) - (try Int64.fetchOne(db, sql: "PRAGMA freelist_count") ?? 0)
        let bytes = pages * (try Int64.fetchOne(db, sql: "PRAGMA page_size") ?? 0)
        let directory = DurableFiles.parent(of: path)
        if let free = DiskReserve.freeBytes(at: directory), free - bytes <= reserveBytes {
            throw AnnalsError(
                .diskFull, operation: "relay",
                "the disk has no room for a copy of \(path), which is kept before the data are migrated to a newer format: "
                    + "it needs \(bytes) bytes beside the reserve of \(reserveBytes), and \(free) are free",
                hint: "Make room on the disk. Nothing was changed")
        }
        let kept = "\(path).format-\(format)"
        let partial = kept + ".partial"
        // Of a process that was killed.
        DurableFiles.remove(partial)
        // SQLite writes into an empty file, and only its owner may read this one.
        _ = try DurableFiles.createIfMissing(partial)
        do {
            let source = try DatabaseQueue(path: path)
            try source.writeWithoutTransaction { try $0.execute(sql: "VACUUM INTO ?", arguments: [partial]) }
            try source.close()
            _ = DurableFiles.give(partial, toOwnerOf: path)
            try DurableFile(reading: partial).synchronize()
            try DurableFiles.rename(partial, to: kept)
            try DurableFiles.synchronizeDirectory(directory)
        } catch {
            DurableFiles.remove(partial)
            throw error
        }
        return kept
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
