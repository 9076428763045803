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
    private let cipher: SpaceCipher?
    private let space: SpaceName
    private let seal = Mutex<SnapshotSeal?>(nil)
    private let arrived = Mutex(Arrived())
    private let news: AsyncStream<Void>
    private let tell: AsyncStream<Void>.Continuation

    /// - Parameters:
    ///   - cipher: of the space, where it is sealed.
    ///   - space: for what is told when it does not open.
    init(_ packed: String, to plain: String, cipher: SpaceCipher?, of space: SpaceName) {
        self.cipher = cipher
        self.space = space
        self.packed = packed
        self.plain = plain
        (news, tell) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Runs a download and unpacks what it brings meanwhile.
    ///
    /// A key that is missing or too many shows in the first bytes: the rest is not waited for.
    ///
    /// - Parameter download: fetches the file, and calls what it is given with the file's length whenever it has grown.
    /// - Returns: what the head of a sealed snapshot says.
    /// - Throws: what `download` throws, and what `SnapshotPacking.unpack` does.
    func run(_ download: @escaping @Sendable (@escaping @Sendable (Int64) -> Void) async throws -> Void) async throws -> SnapshotSeal? {
        let isUnpacked = try await withThrowingTaskGroup(of: Bool?.self) { group in
            group.addTask { try await self.unpack() }
            group.addTask {
                defer { self.tell.finish() }
                try await download { self.note($0) }
                return nil
            }
            var isUnpacked = false
            do {
                while let ended = try await group.next() { isUnpacked = ended ?? isUnpacked }
            } catch is OtherKey {
                group.cancelAll()
                return false
            }
            return isUnpacked
        }
        if isUnpacked { return seal.withLock { $0 } }
        // What stands in the way is told by doing it once more, with all of the file that is there.
        return try SnapshotPacking.unpack(packed, plain, cipher, of: space)
    }

    /// It can be told already that the file will not open.
    private struct OtherKey: Error {}

    private func note(_ length: Int64) {
        arrived.withLock { arrived in
            // A download that goes on reports where it does; one that begins anew reports nothing at first.
            if length == 0, arrived.length > 0 { arrived.beginnings += 1 }
            arrived.length = length
        }
        tell.yield()
    }

    /// Whether all of it is unpacked, as far as can be told here.
    private func unpack() async throws -> Bool {
        var unpacker: FileUnpacker?
        var beginnings = -1
        for await _ in news { try advance(&unpacker, &beginnings) }
        try advance(&unpacker, &beginnings)
        do { try unpacker?.finish() } catch { return false }
        seal.withLock { [found = unpacker?.seal] in $0 = found }
        return unpacker != nil
    }

    private func advance(_ unpacker: inout FileUnpacker?, _ beginnings: inout Int) throws {
        let now = arrived.withLock { $0 }
        do {
            if now.beginnings != beginnings {
                guard now.length > 0 else { return }
                beginnings = now.beginnings
                unpacker = nil
                unpacker = try FileUnpacker(packed, to: plain, maximumBytes: SyncLimits.snapshotBytes, cipher: cipher)
            }
            try unpacker?.take(upTo: now.length)
        } catch let error as WireError where error.isAboutKeys {
            throw OtherKey()
        } catch {
            // Bytes of two files, or of none: if the download begins anew they are right then.
            unpacker = nil
        }
    }
}

extension WireError {
    /// Another key, or none, is what it takes.
    fileprivate var isAboutKeys: Bool {
        switch self {
        case .missingKey, .notSealed: true
        default: false
        }
    }
}
