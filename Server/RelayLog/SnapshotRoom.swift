internal import AnnalsCore
internal import Synchronization

/// The bytes of snapshot uploads. A space's snapshots and its uploads under way together stay within the byte limit of
/// the space.
///
/// Each of several relays over one database knows only its own uploads. So the transaction that records a snapshot
/// checks the limit again.
final class SnapshotRoom: Sendable {
    /// Extra bytes for an upload, if they are free, so that few of its pieces need a database query.
    private static let step: Int64 = 4 << 20

    private let limits: RelayLogLimits
    private let underWay = Mutex<[Int64: Int64]>([:])

    init(limits: RelayLogLimits) {
        self.limits = limits
    }

    /// Bytes granted to the uploads of the space.
    func bytes(of space: Int64) -> Int64 { underWay.withLock { $0[space] ?? 0 } }

    /// Grants an upload this many bytes, or more. If there is no room, it drops snapshots that are not needed.
    ///
    /// - Parameter owner: the owner of the upload.
    /// - Returns: the granted bytes, and the files that no record uses any more.
    /// - Throws: `RelayLogError.spaceFull`, and what the storage throws.
    func grant(
        _ bytes: Int64, in space: Int64, of owner: String, _ database: RelayDatabase
    ) async throws -> (bytes: Int64, files: [String]) {
        var held = max(bytes, Self.step)
        // Counted first, so that concurrent requests see it.
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

    /// Whether an upload of this size could fit if all snapshots that are not needed were dropped. It reserves nothing.
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
