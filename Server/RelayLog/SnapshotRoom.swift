internal import AnnalsCore
internal import Synchronization

/// The room that uploads of snapshots take: what a space's snapshots and the uploads under way have together stays within the bytes that
/// the space may have.
///
/// Of several relays with one database each knows its own uploads. What is recorded is judged once more in the transaction that does so.
final class SnapshotRoom: Sendable {
    /// What an upload is given beyond what it needs now, where that is free: so that few of its pieces need a look at the database.
    private static let step: Int64 = 4 << 20

    private let limits: RelayLogLimits
    private let underWay = Mutex<[Int64: Int64]>([:])

    init(limits: RelayLogLimits) {
        self.limits = limits
    }

    /// Bytes that the uploads to a space have room for.
    func bytes(of space: Int64) -> Int64 { underWay.withLock { $0[space] ?? 0 } }

    /// Gives an upload room for so many more bytes, or for some more than that. Where there is none, snapshots that can be spared are
    /// dropped.
    ///
    /// - Parameter owner: whose upload it is.
    /// - Returns: the bytes, and the files that no record names any more.
    /// - Throws: `RelayLogError.spaceFull`, and what the storage throws.
    func grant(
        _ bytes: Int64, in space: Int64, of owner: String, _ database: RelayDatabase
    ) async throws -> (bytes: Int64, files: [String]) {
        var held = max(bytes, Self.step)
        // Counted first: who else asks meanwhile sees it.
        let all = take(held, in: space)
        do {
            if try await database.storage.read({ try LogStorage.snapshotBytes(of: space, in: $0) }) <= limits.spaceBytes - all {
                return (held, [])
            }
            give(held - bytes, in: space)
            held = bytes
            let bound = limits.spaceBytes - self.bytes(of: space)
            let files = try await database.storage.write { try LogStorage.shrinkSnapshots(of: space, to: bound, for: owner, in: $0) }
            guard let files else { throw RelayLogError.spaceFull(limit: limits.spaceBytes) }
            return (bytes, files)
        } catch {
            give(held, in: space)
            throw error
        }
    }

    /// Whether an upload of so many bytes can have room, with all dropped that can be spared. Nothing is promised.
    func mayFit(_ bytes: Int64, in space: Int64, of owner: String, _ database: RelayDatabase) async throws -> Bool {
        let bound = limits.spaceBytes - self.bytes(of: space)
        return try await database.storage.read { db in
            var retention = try LogStorage.retention(of: space, coming: (nil, owner), in: db)
            return bytes <= bound && retention.shrink(to: bound - bytes)
        }
    }

    private func take(_ bytes: Int64, in space: Int64) -> Int64 {
        underWay.withLock { rooms in
            rooms[space, default: 0] += bytes
            return rooms[space] ?? 0
        }
    }

    func give(_ bytes: Int64, in space: Int64) {
        underWay.withLock { rooms in
            let left = (rooms[space] ?? 0) - bytes
            rooms[space] = left > 0 ? left : nil
        }
    }
}
