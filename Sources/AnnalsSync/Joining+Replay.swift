package import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsWire
import Foundation

/// A space as it was, written into a file.
package struct SpaceReplay: Sendable {
    /// The position whose rows it holds: the one asked for, or the last before it where that lies within one transaction.
    package var position: Position
    /// The position of the snapshot with which it began.
    package var snapshot: Position
    /// Untracked tables of the space, which come empty.
    package var emptyTables: [String]
}

/// The space as it was at any kept position, with no store at hand: the newest snapshot that is not later, and the log after it.
extension Joining {
    /// Writes the space's rows at a position into a new file, an ordinary database with nothing of Annals in it.
    ///
    /// - Parameters:
    ///   - position: of the log.
    ///   - path: the file.
    ///   - force: replaces a file that is there.
    /// - Throws: `AnnalsError`; `expired` where the position is not kept any more, with the oldest that is; `usage` where the
    ///   space has not come so far; `cannotCreate`.
    package func replay(to position: Position, output path: String, force: Bool = false) async throws -> SpaceReplay {
        guard force || !FileManager.default.fileExists(atPath: path) else {
            throw AnnalsError(.cannotCreate, operation: "replay", "\(path) exists already", hint: "Give another name, or --force")
        }
        do {
            let description = try await transport.describe()
            let oldest = max(description.horizon, Position.first)
            guard position <= description.head else {
                throw AnnalsError(
                    .usage, operation: "replay", "the space \(space) has come to position \(description.head), not to \(position)",
                    hint: "Positions \(oldest) to \(description.head) can be had")
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
            throw error.annalsError
        } catch let error as WireError {
            throw TransportError.badAnswer(error).annalsError
        }
    }

    private func replayed(to position: Position, in folder: WorkFolder, _ description: SpaceDescription) async throws -> (Store, Position) {
        do {
            let copy = try await snapshotReplica(in: folder, description, .atOrBefore(position))
            let snapshot = try await copy.snapshotStamp().seen.position
            guard snapshot <= position else { throw gone(position, snapshot, description.head) }
            try await SyncAgent(store: copy, transport: LogThrough(last: position, of: transport), environment: environment).sync(.pullOnly)
            try await expectExplained(copy.passedVoids(), of: copy)
            return (copy, snapshot)
        } catch let error as AnnalsError where error.code == .expired {
            // Purged between the look and the request.
            throw gone(position, try await transport.describe().horizon, description.head)
        }
    }

    /// What was passed over as voided on the way to a position, the relay's own entries later in the log must explain.
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
            .expired, operation: "replay", "position \(position) of the space \(space) is not kept any more",
            hint: "Positions \(oldest) to \(head) can be had")
    }
}
