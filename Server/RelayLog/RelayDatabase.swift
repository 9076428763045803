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
package final class RelayDatabase: Sendable {
    let pool: DatabasePool
    let directory: String

    static let formatVersion = 4

    /// Opens the file in `directory`, creating both where they are missing.
    ///
    /// Throws `AnnalsError`: `.newerFormat`, `.notADatabase`, `.cannotCreate` or `.busy`.
    package init(directory: String, readers: Int = RelayLogLimits().readers) throws {
        self.directory = directory
        let path = (directory as NSString).appendingPathComponent("relay.db")
        do {
            try DurableFiles.createDirectory(directory)
            // SQLite gives its other files the permissions of this one.
            let isNew = try DurableFiles.createIfMissing(path)
            pool = try DatabasePool(path: path, configuration: Self.configuration(readers: readers))
            // After opening, since the pool itself sets NORMAL when it turns WAL on.
            try pool.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA synchronous = FULL")
                try Self.migrate(db)
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

    private static func migrate(_ db: Database) throws {
        let version = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
        guard version <= formatVersion else {
            throw AnnalsError(
                .newerFormat, operation: "relay", "the relay's data is of format \(version), this program knows \(formatVersion)",
                hint: "Serve it with the newer annals")
        }
        guard version < formatVersion else { return }
        try db.inTransaction(.exclusive) {
            // Another process may have been here between the look and the lock.
            let version = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
            if version < 1 {
                try db.execute(sql: LogStorage.schema)
                try db.execute(sql: TokenStore.schema)
            }
            if version < 2 { try db.execute(sql: PartStorage.schema) }
            if version < 3 {
                try db.execute(sql: RunningDigests.schema)
                try RunningDigests.fill(db)
            }
            if version < 4 { try db.execute(sql: PurgeStorage.schema) }
            if version < formatVersion { try db.execute(sql: "PRAGMA user_version = \(formatVersion)") }
            return .commit
        }
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
                .cannotCreate, operation: "relay", "cannot open \(path): \(reason(of: error))",
                hint: "Check that the directory exists and is writable", underlying: error)
        }
    }

    /// What the system says, without SQL or values.
    static func reason(of error: any Error) -> String {
        switch error {
        case let error as DatabaseError: error.message ?? error.resultCode.description
        case let error as SystemCallError: error.description
        default: String(describing: type(of: error))
        }
    }

    /// Folds the write-ahead log back, so that the file alone is whole, and closes the connections. Throws what SQLite
    /// reports.
    package func close() throws {
        try pool.writeWithoutTransaction { db in _ = try db.checkpoint(.truncate) }
        try pool.close()
    }
}

extension RelayLogError {
    /// Runs `body` and gives its errors as the log's own; CancellationError stays what it is.
    static func wrapped<T: Sendable>(_ body: () async throws -> T) async throws -> T {
        do {
            return try await body()
        } catch let error as CancellationError {
            throw error
        } catch {
            throw wrapping(error)
        }
    }

    /// An error of SQLite or the system as the log's own.
    static func wrapping(_ error: any Error) -> RelayLogError {
        switch error {
        case let error as RelayLogError: error
        case let error as DatabaseError where error.resultCode == .SQLITE_FULL: .diskFull
        case let error as SystemCallError where error.isDiskFull: .diskFull
        case let error as DatabaseError where error.resultCode == .SQLITE_BUSY: .overloaded(retryAfterSeconds: 1)
        default: .storage(RelayDatabase.reason(of: error))
        }
    }
}
