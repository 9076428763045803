import AnnalsCore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Synchronization

/// A relay with faults: it hands out small pages, and chosen requests and answers are lost.
final class FaultyRelay: ForwardingTransport {
    private struct State {
        var pushes = 0
        var pulls = 0
    }

    let base: any RelayTransport
    private let pageBytes: Int
    /// Requests from this one on fail.
    private let failingPush: Int
    private let failingPull: Int
    /// Whether the relay has done its work when a push fails.
    private let isAnswerLost: Bool
    /// The work of other replicas before a push, by its number from 1.
    private let beforePush: @Sendable (Int) async throws(TransportError) -> Void
    private let state = Mutex(State())

    init(
        _ relay: LocalRelay, pageBytes: Int = .max, failingPush: Int = .max, failingPull: Int = .max, isAnswerLost: Bool = true,
        beforePush: @escaping @Sendable (Int) async throws(TransportError) -> Void = { _ in }
    ) {
        base = relay
        self.pageBytes = pageBytes
        self.failingPush = failingPush
        self.failingPull = failingPull
        self.isAnswerLost = isAnswerLost
        self.beforePush = beforePush
    }

    var pushes: Int { state.withLock { $0.pushes } }
    var pulls: Int { state.withLock { $0.pulls } }

    private static let lost = TransportError.notARelay("lost")

    func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        let number = state.withLock { state in
            state.pushes += 1
            return state.pushes
        }
        if number >= failingPush, !isAnswerLost { throw Self.lost }
        try await beforePush(number)
        let answer = try await base.push(batch, seen: seen)
        if number >= failingPush { throw Self.lost }
        return answer
    }

    func pull(after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?) async throws(TransportError) -> Page {
        let number = state.withLock { state in
            state.pulls += 1
            return state.pulls
        }
        if number >= failingPull { throw Self.lost }
        return try await base.pull(after: position, seen: seen, byteLimit: min(byteLimit, pageBytes), wait: wait)
    }
}
