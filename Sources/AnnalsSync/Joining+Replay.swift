package import AnnalsCore
import AnnalsReplica
import AnnalsSQLite
import AnnalsStore
import AnnalsWire
import Foundation

/// The rows of a space at an earlier position, written to a file.
package struct SpaceReplay: Sendable {
    /// The position of the rows: the requested position, or the last one before it if that one is within a transaction
    /// in parts.
    package var position: Position
    /// The position of the snapshot that was used.
    package var snapshot: Position
    /// The untracked tables of the space. They are empty in the file.
    package var emptyTables: [String]
}

/// Restores the space at any kept position without a local store: from the newest snapshot that is not later, and the
/// log after it.
extension Joining {
    /// Writes the space's rows at a position to a new file. The file is an ordinary database without data of Annals.
    ///
    /// - Parameters:
    ///   - position: the position in the log.
    ///   - path: the file.
    ///   - force: replaces an existing file.
    /// - Throws: `AnnalsError`: `expired` if the position is no longer kept, with the oldest kept one; `usage` if the
    ///   position is after the head of the space; `cannotCreate`.
    package func replay(to position: Position, output path: String, force: Bool = false) async throws -> SpaceReplay {
        guard force || !FileManager.default.fileExists(atPath: path) else {
            throw OutputFile.taken(path, "replay")
        }
        do {
            let description = try await transport.describe()
            let oldest = max(description.horizon, Position.first)
            guard position <= description.head else {
                throw AnnalsError(
                    .usage, operation: "replay",
                    "position \(position) is after the head of the space \(space), which is \(description.head)",
                    hint: "Choose a position from \(oldest) to \(description.head)")
            }
            guard position >= oldest else { throw gone(position, oldest, description.head) }
            let purpose = Self.purpose(ofDownload: description, atOrBefore: position)
            return try await withTemporaryFolder(beside: path, for: purpose) { folder in
                let (copy, snapshot) = try await replayed(to: position, in: folder, description)
                let replay = SpaceReplay(
                    position: try await copy.replicaState()?.position ?? snapshot, snapshot: snapshot,
                    emptyTables: try await copy.emptyTables())
                try await copy.leave(force: true)
                _ = try await copy.untrack()
                try copy.close()
                if force { for suffix in ["-wal", "-shm", "-journal"] { try? FileManager.default.removeItem(atPath: path + suffix) } }
                guard rename(copy.path, path) == 0 else {
                    throw AnnalsError(
                        .cannotCreate, operation: "replay", "\(path) cannot be created: \(String(cString: strerror(errno)))",
                        hint: "Check the folder and its permissions")
                }
                return replay
            }
        } catch let error as TransportError {
            throw error.thrown
        } catch let error as WireError {
            throw TransportError.badAnswer(error).annalsError
        }
    }

    private func replayed(to position: Position, in folder: WorkFolder, _ description: SpaceDescription) async throws -> (Store, Position) {
        do {
            let copy = try await snapshotReplica(in: folder, description, .atOrBefore(position))
            let snapshot = try await copy.snapshotStamp().seen.position
            guard snapshot <= position else { throw gone(position, snapshot, description.head) }
            try await SyncAgent(store: copy, transport: BoundedLog(last: position, of: transport), environment: environment).sync(.pullOnly)
            try await expectExplained(copy.passedVoids(), of: copy)
            return (copy, snapshot)
        } catch let error as AnnalsError where error.code == .expired {
            // The log was purged between the description and the request.
            throw gone(position, try await transport.describe().horizon, description.head)
        }
    }

    /// Checks that later entries of the relay explain every entry that the copy passed over as voided.
    private func expectExplained(_ passed: [VoidedEntry], of copy: Store) async throws {
        guard !passed.isEmpty, var seen = try await copy.replicaState()?.seen else { return }
        seen.replica = nil
        var left = passed
        var (position, isLast) = (seen.position, false)
        while !isLast, !left.isEmpty {
            let page = try await transport.page(after: position, seen: seen)
            for frame in page.frames where try BatchHeader.parse(frame.batch).replica == .relay {
                let batch = try frame.open()
                for index in frame.firstIndex..<frame.firstIndex + frame.acceptedCount {
                    var body = try batch.body(index)
                    let voids = try body.rest().voids
                    left.removeAll(where: voids.contains)
                }
            }
            isLast = page.frames.isEmpty || page.lastPosition >= page.head
            position = page.lastPosition
            seen.position = position
            seen.digest = nil
        }
        if let first = left.first { throw SyncAgent.leftOut(first.position) }
    }

    private func gone(_ position: Position, _ oldest: Position, _ head: Position) -> AnnalsError {
        AnnalsError(
            .expired, operation: "replay", "the relay no longer keeps position \(position) of the space \(space)",
            hint: "Choose a position from \(oldest) to \(head)")
    }
}
