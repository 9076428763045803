package import AnnalsCore
internal import Foundation
internal import GRDB
internal import Logging
internal import Synchronization

/// Snapshots as files in DATA/snapshots, recorded in the database.
///
/// An upload goes to a temporary name while it streams. Whole and verified it is made durable, gets its name by one
/// atomic rename, is recorded with its position, and the one before is removed. So a snapshot that is recorded is
/// always whole, and files that no record names are leftovers, removed at the next start.
package final class SnapshotStore: Sendable {
    private let database: RelayDatabase
    private let directory: String
    private let limits: RelayLogLimits
    private let clock: RelayClock
    private let logger: Logger
    private let state = Mutex(State())

    private struct State {
        var uploads = 0
        var isClosed = false
    }

    static let temporaryPrefix = "upload-"

    init(database: RelayDatabase, limits: RelayLogLimits, clock: RelayClock, logger: Logger) throws {
        self.database = database
        self.limits = limits
        self.clock = clock
        self.logger = logger
        directory = (database.directory as NSString).appendingPathComponent("snapshots")
        do {
            try DurableFiles.createDirectory(directory)
            try removeLeftovers()
        } catch {
            throw AnnalsError(
                .cannotCreate, operation: "relay", "cannot use \(directory): \(RelayDatabase.reason(of: error))", underlying: error)
        }
    }

    /// Begins an upload of the rows at `position`.
    ///
    /// Throws `.spaceNotFound`, `.wentBack` when the position is beyond the head or the lineage another,
    /// `.snapshotSuperseded` when a later one is there; `finish` throws it also when another one of that position is, `.overloaded`, `.closing`.
    package func begin(_ space: SpaceName, position: Position, lineage: Lineage? = nil) async throws -> SnapshotUpload {
        let id = try await check(space, position: position, lineage: lineage)
        try state.withLock { state in
            guard !state.isClosed else { throw RelayLogError.closing }
            guard state.uploads < limits.snapshotUploads else { throw RelayLogError.overloaded(retryAfterSeconds: 10) }
            state.uploads += 1
        }
        do {
            let path = self.path(Self.temporaryPrefix + Self.randomText())
            return SnapshotUpload(
                store: self, space: space, spaceID: id, position: position, file: try DurableFile(creating: path),
                limit: limits.snapshotBytes)
        } catch {
            uploadEnded()
            throw RelayLogError.wrapping(error)
        }
    }

    /// The newest snapshot, open for reading; it stays readable when a newer one takes its place.
    ///
    /// Throws `.spaceNotFound`, `.noSnapshot` or `.storage`.
    package func open(_ space: SpaceName) async throws -> SnapshotFile {
        try await RelayLogError.wrapped {
            for _ in 0..<limits.snapshotOpenings {
                let record = try await database.pool.read { db in
                    guard let space = try LogStorage.space(space, in: db) else { throw RelayLogError.spaceNotFound }
                    return try LogStorage.snapshot(of: space.id, in: db)
                }
                guard let record else { throw RelayLogError.noSnapshot }
                // A newer snapshot may have removed the file since the look: look again.
                if let file = try? DurableFile(reading: path(record.file)) { return SnapshotFile(record: record, file: file) }
            }
            throw RelayLogError.storage("the snapshot's file is missing")
        }
    }

    /// Refuses uploads from now on.
    func close() async {
        state.withLock { $0.isClosed = true }
    }

    // MARK: What an upload calls

    /// Names, records and keeps a finished upload, and removes the one before. The file must be durable.
    func record(_ upload: SnapshotUpload.Finished) async throws -> SnapshotRecord {
        // A name of its own even for the same position and bytes, so that removing one never hits another.
        let name = "\(upload.spaceID)-\(upload.position)-\(Self.randomText()).zst"
        let record = SnapshotRecord(position: upload.position, byteCount: upload.byteCount, digest: upload.digest, file: name)
        return try await RelayLogError.wrapped {
            try DurableFiles.rename(upload.path, to: path(name))
            do {
                try DurableFiles.synchronizeDirectory(directory)
                if let previous = try await replace(by: record, of: upload.spaceID) { DurableFiles.remove(path(previous.file)) }
            } catch {
                DurableFiles.remove(path(name))
                throw error
            }
            return record
        }
    }

    /// Returns the record that was there before.
    private func replace(by record: SnapshotRecord, of space: Int64) async throws -> SnapshotRecord? {
        let now = clock.wall()
        return try await database.pool.write { db in
            let previous = try LogStorage.snapshot(of: space, in: db)
            // Others may have begun from the one that is there: at one position there is one set of rows.
            if let previous,
                previous.position > record.position || (previous.position == record.position && previous.digest != record.digest)
            {
                throw RelayLogError.snapshotSuperseded(by: previous.position)
            }
            try LogStorage.setSnapshot(record, of: space, at: now, in: db)
            return previous
        }
    }

    private static func randomText() -> String {
        String(UInt64.random(in: 0 ... .max), radix: 36)
    }

    func uploadEnded() {
        state.withLock { $0.uploads -= 1 }
    }

    // MARK: Checks

    private func check(_ name: SpaceName, position: Position, lineage: Lineage?) async throws -> Int64 {
        try await RelayLogError.wrapped {
            try await database.pool.read { db in
                guard let space = try LogStorage.space(name, in: db) else { throw RelayLogError.spaceNotFound }
                guard position <= space.head, lineage == nil || lineage == space.lineage else {
                    throw RelayLogError.wentBack(head: space.head)
                }
                if let newest = try LogStorage.snapshot(of: space.id, in: db), newest.position > position {
                    throw RelayLogError.snapshotSuperseded(by: newest.position)
                }
                return space.id
            }
        }
    }

    private func removeLeftovers() throws {
        let kept = Set(try database.pool.read { try LogStorage.snapshotFiles(in: $0) })
        for name in try FileManager.default.contentsOfDirectory(atPath: directory) where !kept.contains(name) {
            logger.info("removing an unfinished snapshot", metadata: ["file": "\(name)"])
            DurableFiles.remove(path(name))
        }
    }

    private func path(_ name: String) -> String {
        (directory as NSString).appendingPathComponent(name)
    }
}
