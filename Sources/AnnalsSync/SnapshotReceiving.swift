import AnnalsCore
import AnnalsSQLite
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
    /// - Throws: what `download` throws, and `AnnalsError` where the file cannot be unpacked.
    func run(_ download: @escaping @Sendable (@escaping @Sendable (Int64) -> Void) async throws -> Void) async throws -> SnapshotSeal? {
        let unpacked = try await withThrowingTaskGroup(of: Result<SnapshotSeal?, any Error>?.self) { group in
            group.addTask { await self.unpack() }
            group.addTask {
                defer { self.tell.finish() }
                try await download { self.note($0) }
                return nil
            }
            var unpacked: Result<SnapshotSeal?, any Error>?
            while let ended = try await group.next() {
                unpacked = ended ?? unpacked
                guard !Self.isAboutKeys(unpacked) else { break }
            }
            group.cancelAll()
            return unpacked
        }
        return try SnapshotPacking.unpacking(cipher, of: space) { try unpacked?.get() }
    }

    private static func isAboutKeys(_ unpacked: Result<SnapshotSeal?, any Error>?) -> Bool {
        guard case .failure(let error as WireError) = unpacked else { return false }
        return error.isAboutKeys
    }

    private func note(_ length: Int64) {
        arrived.withLock { arrived in
            // A download that goes on reports where it does; one that begins anew reports nothing at first.
            if length == 0, arrived.length > 0 { arrived.beginnings += 1 }
            arrived.length = length
        }
        tell.yield()
    }

    /// What came of the file as it was when the download ended; what came of a download that failed does not matter.
    private func unpack() async -> Result<SnapshotSeal?, any Error> {
        var attempt = Attempt()
        for await _ in news {
            advance(&attempt)
            if let failure = attempt.failure as? WireError, failure.isAboutKeys { return .failure(failure) }
        }
        advance(&attempt, isAll: true)
        return Result {
            if let failure = attempt.failure { throw failure }
            try attempt.unpacker?.finish()
            return attempt.unpacker?.seal
        }
    }

    /// The unpacking of what came since the file began anew.
    private struct Attempt {
        var unpacker: FileUnpacker?
        var beginnings: Int?
        /// It goes no further. If the download begins anew, other bytes may come.
        var failure: (any Error)?
    }

    /// - Parameter isAll: the download has ended, and what it told no longer says how long the file is.
    private func advance(_ attempt: inout Attempt, isAll: Bool = false) {
        let now = arrived.withLock { $0 }
        guard isAll || now.length > 0 else { return }
        do {
            if now.beginnings != attempt.beginnings {
                attempt = Attempt(beginnings: now.beginnings)
                attempt.unpacker = try FileUnpacker(packed, to: plain, maximumBytes: SyncLimits.snapshotBytes, cipher: cipher)
            }
            guard attempt.failure == nil else { return }
            try attempt.unpacker?.take(upTo: isAll ? .max : now.length)
        } catch {
            attempt.failure = error
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
