public import AnnalsCore
public import AnnalsSync
public import AnnalsWire
import Synchronization

/// The connection of one replica to its relay through a `FaultyNetwork`. A test can cut and mend it.
///
///     space[0].line.cut()
///     await #expect(throws: AnnalsError.self) { try await space[0].agent.sync() }
///     space[0].line.mend()
///     try await space.settle()
public final class FaultyLine: RelayTransport {
    private struct State {
        var isCut = false
        /// Copies that arrive before the next request.
        var late: [@Sendable () async -> Void] = []
    }

    private let relay: any RelayTransport
    private let network: FaultyNetwork
    private let clock: ManualClock?
    private let state = Mutex(State())

    init(_ relay: any RelayTransport, _ network: FaultyNetwork, _ clock: ManualClock?) {
        self.relay = relay
        self.network = network
        self.clock = clock
    }

    /// From now on every request fails.
    public func cut() { state.withLock { $0.isCut = true } }

    public func mend() { state.withLock { $0.isCut = false } }

    public var isCut: Bool { state.withLock { $0.isCut } }

    // MARK: Requests

    public func describe() async throws(TransportError) -> SpaceDescription {
        try await send { [relay] () async throws(TransportError) in try await relay.describe() }
    }

    public func create() async throws(TransportError) -> SpaceDescription {
        try await send(isRepeatable: false) { [relay] () async throws(TransportError) in try await relay.create() }
    }

    public func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        try await send { [relay] () async throws(TransportError) in try await relay.push(batch, seen: seen) }
    }

    public func pull(after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?) async throws(TransportError) -> Page {
        try await send { [relay] () async throws(TransportError) in
            try await relay.pull(after: position, seen: seen, byteLimit: byteLimit, wait: wait)
        }
    }

    public func uploadSnapshot(
        at path: String, seen: LogMark, digest: Digest, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        try await send(isRepeatable: false) { [relay] () async throws(TransportError) in
            try await relay.uploadSnapshot(at: path, seen: seen, digest: digest, progress: progress)
        }
    }

    public func downloadSnapshot(to path: String, progress: @escaping @Sendable (Int64) -> Void) async throws(TransportError) -> Position {
        try await send(isRepeatable: false) { [relay] () async throws(TransportError) in
            try await relay.downloadSnapshot(to: path, progress: progress)
        }
    }

    public func downloadSnapshot(
        atOrBefore position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) -> Position {
        try await send(isRepeatable: false) { [relay] () async throws(TransportError) in
            try await relay.downloadSnapshot(atOrBefore: position, to: path, progress: progress)
        }
    }

    /// - Parameter isRepeatable: whether a copy may arrive later. False if the request needs, for example, a file that
    ///   may not exist then.
    private func send<Answer: Sendable>(
        isRepeatable: Bool = true, _ request: @escaping @Sendable () async throws(TransportError) -> Answer
    ) async throws(TransportError) -> Answer {
        guard !isCut else { throw .unreachable("the test has cut the line", wasSent: false) }
        let late = state.withLock { state in
            defer { state.late = [] }
            return state.late
        }
        for copy in late { await copy() }
        switch network.next() {
        case .requestLost:
            throw .unreachable("no answer came", wasSent: true)
        case .answerLost:
            _ = try? await request()
            throw .unreachable("no answer came", wasSent: true)
        case .refused(let retryAfter):
            throw .problem(Problem(.unavailable), retryAfter: retryAfter)
        case .delayed(let duration):
            clock?.advance(duration)
        case .repeated where isRepeatable:
            _ = try? await request()
        case .repeatedLater where isRepeatable:
            state.withLock { state in state.late.append { _ = try? await request() } }
        case .none, .repeated, .repeatedLater:
            break
        }
        return try await request()
    }
}

extension FaultyNetwork {
    /// A connection to a relay through this network.
    ///
    /// - Parameters:
    ///   - relay: the relay behind the connection.
    ///   - clock: the clock that delays advance.
    public func line(to relay: any RelayTransport, clock: ManualClock? = nil) -> FaultyLine {
        FaultyLine(relay, self, clock)
    }
}
