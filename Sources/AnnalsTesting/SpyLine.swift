import AnnalsCore
import AnnalsSync
import AnnalsWire
import Synchronization

/// Passes everything on, and keeps the last push that was accepted.
final class SpyLine: RelayTransport {
    struct Push: Sendable {
        var batch: [UInt8]
        var seen: LogMark
        var answer: PushAnswer
    }

    private let relay: any RelayTransport
    private let push = Mutex<Push?>(nil)

    init(_ relay: any RelayTransport) { self.relay = relay }

    var lastPush: Push? { push.withLock { $0 } }

    func describe() async throws(TransportError) -> SpaceDescription { try await relay.describe() }

    func create() async throws(TransportError) -> SpaceDescription { try await relay.create() }

    func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        let answer = try await relay.push(batch, seen: seen)
        if answer.outcome == .accepted { push.withLock { $0 = Push(batch: batch, seen: seen, answer: answer) } }
        return answer
    }

    func pull(after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?) async throws(TransportError) -> Page {
        try await relay.pull(after: position, seen: seen, byteLimit: byteLimit, wait: wait)
    }

    func uploadSnapshot(
        at path: String, seen: LogMark, digest: Digest, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        try await relay.uploadSnapshot(at: path, seen: seen, digest: digest, progress: progress)
    }

    func downloadSnapshot(to path: String, progress: @escaping @Sendable (Int64) -> Void) async throws(TransportError) -> Position {
        try await relay.downloadSnapshot(to: path, progress: progress)
    }
}
