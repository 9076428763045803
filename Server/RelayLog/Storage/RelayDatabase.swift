internal import AnnalsCore
internal import GRDB

/// What a relay keeps: its spaces' logs, replicas, snapshots' records and tokens in a database, the snapshots beside it.
package final class RelayDatabase: Sendable {
    let storage: any LogDatabase
    package let snapshots: any SnapshotFiles
    /// Which one relay at a time may serve; nil where any number may.
    private let directory: String?

    /// Opens the database in `directory`, creating both where they are missing.
    ///
    /// - Parameter wrap: puts a storage of the caller's around the database, for tests that make it fail.
    /// - Throws: `AnnalsError`: `.newerFormat`, `.notADatabase`, `.cannotCreate` or `.busy`.
    package init(
        directory: String, readers: Int = RelayLogLimits().readers, wrap: (any LogDatabase) -> any LogDatabase = { $0 }
    ) throws {
        self.directory = directory
        storage = wrap(try SQLiteDatabase(directory: directory, readers: readers))
        do {
            snapshots = try LocalSnapshotFiles(in: directory)
        } catch {
            throw AnnalsError(
                .cannotCreate, operation: "relay", "cannot use \(directory)/snapshots: \(Self.reason(of: error))", underlying: error)
        }
    }

    /// A database that any number of relays may serve.
    package init(shared storage: any LogDatabase, snapshots: any SnapshotFiles) {
        directory = nil
        self.storage = storage
        self.snapshots = snapshots
    }

    /// The same tables in memory, for tests: one relay serves them, and they go with it.
    package convenience init(inMemory snapshots: any SnapshotFiles) throws {
        self.init(shared: try SQLiteDatabase(), snapshots: snapshots)
    }

    /// Takes the right to serve, where only one has it. Throws `AnnalsError`: `.busy` when another relay has it.
    package func lockForServing() throws -> DirectoryLock? {
        guard let directory else { return nil }
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

    /// Whether any number of relays may serve it.
    var isShared: Bool { directory == nil }

    /// Bytes that are free where the log is; nil where it is elsewhere.
    func freeBytes() -> Int64? { directory.flatMap { DiskReserve.freeBytes(at: $0) } }

    package func close() throws { try storage.close() }

    /// What the system says, without SQL or values.
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
        case let error as any StorageFailure: error.logError
        case let error as DatabaseError where error.resultCode == .SQLITE_FULL: .diskFull
        case let error as SystemCallError where error.isDiskFull: .diskFull
        case let error as DatabaseError where error.resultCode == .SQLITE_BUSY: .overloaded(retryAfterSeconds: 1)
        default: .storage(RelayDatabase.reason(of: error))
        }
    }
}
