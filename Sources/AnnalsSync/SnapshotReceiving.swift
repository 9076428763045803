import AnnalsCore
import AnnalsSQLite
import AnnalsStore
import AnnalsWire
import Synchronization

/// Unpacks a snapshot while it is downloaded.
///
/// The unpacked file is valid only if the download has succeeded and the packed file has the digest that the relay
/// sent. If the download starts again, the unpacking starts again.
final class SnapshotReceiving: Sendable {
    private struct Arrived {
        var length: Int64 = 0
        /// How often the file started again.
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
    ///   - cipher: the cipher of the space, if it is sealed.
    ///   - space: the space, for error messages.
    init(_ packed: String, to plain: String, cipher: SpaceCipher?, of space: SpaceName) {
        self.cipher = cipher
        self.space = space
        self.packed = packed
        self.plain = plain
        (news, tell) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Runs a download and unpacks the bytes as they arrive.
    ///
    /// The first bytes show whether a key is missing or not needed. Then the rest of the download is cancelled.
    ///
    /// - Parameter download: downloads the file. It must call its argument with the file's length after each growth.
    /// - Returns: the head of a sealed snapshot.
    /// - Throws: the errors of `download`, and `AnnalsError` if the file cannot be unpacked.
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
            // A resumed download reports its start offset. A restarted one reports 0 first.
            if length == 0, arrived.length > 0 { arrived.beginnings += 1 }
            arrived.length = length
        }
        tell.yield()
    }

    /// The result for the file as it was at the end of the download. If the download failed, the result does not
    /// matter.
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

    /// The unpacking since the file started last.
    private struct Attempt {
        var unpacker: FileUnpacker?
        var beginnings: Int?
        /// Unpacking has stopped. If the download starts again, other bytes may arrive.
        var failure: (any Error)?
    }

    /// - Parameter isAll: the download has ended, and its last reported length no longer matters.
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
    /// Whether the error needs another key, or no key.
    fileprivate var isAboutKeys: Bool {
        switch self {
        case .missingKey, .notSealed: true
        default: false
        }
    }
}
