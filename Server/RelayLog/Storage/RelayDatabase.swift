internal import AnnalsCore
internal import Foundation
internal import GRDB

/// The data of a relay: a database with logs, replicas, snapshot records and tokens; and the snapshots.
package final class RelayDatabase: Sendable {
    /// The format of a relay's folder that this program writes.
    package static var folderFormat: Int { SQLiteSchema.formatVersion }

    let storage: any LogDatabase
    package let snapshots: any SnapshotFiles
    /// The directory that one relay at a time can serve; nil if any number of relays can.
    private let directory: String?

    /// The copy of relay.db that was kept before a migration to a newer format; nil if nothing was migrated.
    package let keptCopy: String?

    /// Opens the database in `directory`; creates both if they are missing. Data of an older format are migrated. Before
    /// that a copy is kept beside them.
    ///
    /// - Parameters:
    ///   - reserveBytes: bytes of the disk to keep free beside that copy.
    ///   - wrap: wraps the database, for tests that make it fail.
    /// - Throws: `AnnalsError`: `.newerFormat`, `.notADatabase`, `.cannotCreate`, `.diskFull` or `.busy`.
    package init(
        directory: String, readers: Int = RelayLogLimits().readers, reserveBytes: Int64 = RelayLogLimits().diskReserveBytes,
        wrap: (any LogDatabase) -> any LogDatabase = { $0 }
    ) throws {
        self.directory = directory
        let database = try SQLiteDatabase(directory: directory, readers: readers, reserveBytes: reserveBytes)
        keptCopy = database.keptCopy
        storage = wrap(database)
        do {
            snapshots = try LocalSnapshotFiles(in: directory)
        } catch {
            throw AnnalsError(
                .cannotCreate, operation: "relay", "cannot use \(directory)/snapshots: \(Self.reason(of: error))", underlying: error)
        }
    }

    /// A database that any number of relays can serve.
    package init(shared storage: any LogDatabase, snapshots: any SnapshotFiles) {
        directory = nil
        keptCopy = nil
        self.storage = storage
        self.snapshots = snapshots
    }

    /// The same tables in memory, for tests; they are lost when this is deallocated.
    package convenience init(inMemory snapshots: any SnapshotFiles) throws {
        self.init(shared: try SQLiteDatabase(), snapshots: snapshots)
    }

    /// Takes the lock for serving a directory; nil for a shared database.
    ///
    /// - Parameter copying: true for a command that only reads the data. It may also read a directory that was moved.
    /// - Throws: `AnnalsError`: `.busy` if another relay holds the lock, `.configuration` if `markAsMoved` was called.
    package func lockForServing(copying: Bool = false) throws -> DirectoryLock? {
        guard let directory else { return nil }
        let lock = try Self.lock(directory)
        let mark = Self.movedMark(directory)
        guard copying || !FileManager.default.fileExists(atPath: mark) else {
            lock.release()
            throw AnnalsError(
                .configuration, operation: "relay", "the relay in \(directory) was moved to another place with annals relay copy",
                hint:
                    "Serve the copy. To serve this folder instead, make sure that nothing serves the copy, and remove \(mark)")
        }
        return lock
    }

    /// Notes durably that the directory's data were copied to the place that is served from now on. If both were served, their
    /// logs would differ, and each would refuse the replicas of the other.
    package func markAsMoved() throws {
        guard let directory else { return }
        _ = try DurableFiles.createIfMissing(Self.movedMark(directory))
        try DurableFiles.synchronizeDirectory(directory)
    }

    private static func movedMark(_ directory: String) -> String { directory + "/relay.moved" }

    /// Throws `AnnalsError` with `.busy` if another relay holds the lock.
    static func lock(_ directory: String) throws -> DirectoryLock {
        do {
            return try DirectoryLock(path: directory + "/relay.lock")
        } catch  where DirectoryLock.isHeldElsewhere(error) {
            throw AnnalsError(
                .busy, operation: "relay", "another relay serves \(directory)", hint: "Stop it first, or name another directory",
                underlying: error)
        } catch {
            throw AnnalsError(
                .cannotCreate, operation: "relay", "cannot lock \(directory): \(Self.reason(of: error))", underlying: error)
        }
    }

    /// The database file of a directory, whose owner serves it; nil for a shared database.
    var file: String? { directory.map { $0 + "/relay.db" } }

    /// Whether any number of relays can serve it.
    var isShared: Bool { directory == nil }

    /// Free bytes of the log's file system; nil if the database is remote.
    func freeBytes() -> Int64? { directory.flatMap { DiskReserve.freeBytes(at: $0) } }

    package func close() throws { try storage.close() }

    /// The reason from SQLite or the system, without SQL or values.
    static func reason(of error: any Error) -> String {
        switch error {
        case let error as DatabaseError: error.message ?? error.resultCode.description
        case let error as SystemCallError: error.description
        case RelayLogError.storage(let reason): reason
        default: String(describing: type(of: error))
        }
    }
}

extension RelayLogError {
    /// Runs `body` and converts its errors to `RelayLogError`, except CancellationError.
    static func wrapped<T: Sendable>(_ body: () async throws -> T) async throws -> T {
        do {
            return try await body()
        } catch let error as CancellationError {
            throw error
        } catch {
            throw wrapping(error)
        }
    }

    /// Converts an error of SQLite or the system to `RelayLogError`.
    static func wrapping(_ error: any Error) -> RelayLogError {
        switch error {
        case let error as RelayLogError: error
        case let error as any StorageFailure: error.logError
        case let error as DatabaseError where error.resultCode == .SQLITE_FULL: .diskFull
        case let error as SystemCallError where error.isDiskFull: .diskFull
        case let error as DatabaseError where error.resultCode == .SQLITE_BUSY: .overloaded(retryAfterSeconds: 1)
        default: .storage(RelayDatabase.reason(of: error))
        }
    }
}
