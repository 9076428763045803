import AnnalsCore
import AnnalsStore
import AnnalsWire
import Synchronization

/// Unpacks a snapshot while it comes in, so that the one does not wait for the other.
///
/// What was unpacked counts only when the download has ended well, and the packed file has the digest that the relay told.
/// Where the download begins anew, so does this.
final class SnapshotReceiving: Sendable {
    private struct Arrived {
        var length: Int64 = 0
        /// How often the file began anew.
        var beginnings = 0
    }

    private let packed: String
    private let plain: String
    private let arrived = Mutex(Arrived())
    private let news: AsyncStream<Void>
    private let tell: AsyncStream<Void>.Continuation

    init(_ packed: String, to plain: String) {
        self.packed = packed
        self.plain = plain
        (news, tell) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Runs a download and unpacks what it brings meanwhile.
    ///
    /// - Parameter download: fetches the file, and calls what it is given with the file's length whenever it has grown.
    /// - Throws: what `download` throws, and what `SnapshotPacking.unpack` does.
    func run(_ download: (@escaping @Sendable (Int64) -> Void) async throws -> Void) async throws {
        let isUnpacked = try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask { await self.unpack() }
            do {
                try await download { self.note($0) }
            } catch {
                tell.finish()
                throw error
            }
            tell.finish()
            return try await group.next() ?? false
        }
        // What stands in the way is told by doing it once more, with the whole file there.
        if !isUnpacked { try SnapshotPacking.unpack(packed, plain) }
    }

    private func note(_ length: Int64) {
        arrived.withLock { arrived in
            // A download that goes on reports where it does; one that begins anew reports nothing at first.
            if length == 0, arrived.length > 0 { arrived.beginnings += 1 }
            arrived.length = length
        }
        tell.yield()
    }

    /// Whether all of it is unpacked, as far as can be told here.
    private func unpack() async -> Bool {
        var unpacker: FileUnpacker?
        var beginnings = -1
        for await _ in news { advance(&unpacker, &beginnings) }
        advance(&unpacker, &beginnings)
        do { try unpacker?.finish() } catch { return false }
        return unpacker != nil
    }

    private func advance(_ unpacker: inout FileUnpacker?, _ beginnings: inout Int) {
        let now = arrived.withLock { $0 }
        do {
            if now.beginnings != beginnings {
                guard now.length > 0 else { return }
                beginnings = now.beginnings
                unpacker = nil
                unpacker = try FileUnpacker(packed, to: plain, maximumBytes: SyncLimits.snapshotBytes)
            }
            try unpacker?.take(upTo: now.length)
        } catch {
            // Bytes of two files, or of none: if the download begins anew they are right then.
            unpacker = nil
        }
    }
}
