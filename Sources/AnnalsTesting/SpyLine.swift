import AnnalsCore
import AnnalsSync
import AnnalsWire
import Synchronization

/// Forwards everything, and keeps the last accepted push.
final class SpyLine: ForwardingTransport {
    struct Push: Sendable {
        var batch: [UInt8]
        var seen: LogMark
        var answer: PushAnswer
    }

    let base: any RelayTransport
    private let push = Mutex<Push?>(nil)

    init(_ relay: any RelayTransport) { base = relay }

    var lastPush: Push? { push.withLock { $0 } }

    func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        let answer = try await base.push(batch, seen: seen)
        if answer.outcome == .accepted { push.withLock { $0 = Push(batch: batch, seen: seen, answer: answer) } }
        return answer
    }
}
