import AnnalsCore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Synchronization

/// A relay that becomes unreachable: the request with this number and all later ones fail, before or after the relay has done its
/// work.
final class FailingRelay: RelayTransport {
    enum Moment: CaseIterable {
        case before, after
    }

    private let relay: any RelayTransport
    private let failing: Int
    private let moment: Moment
    private let error: TransportError
    private let count = Mutex(0)

    /// - Parameter failing: the first request that fails, from 1.
    init(_ relay: any RelayTransport, failing: Int, _ moment: Moment = .before, error: TransportError = .notARelay("lost")) {
        self.relay = relay
        self.failing = failing
        self.moment = moment
        self.error = error
    }

    /// The number of requests, including the failed ones.
    var requests: Int { count.withLock { $0 } }

    private func request<Answer>(_ send: () async throws(TransportError) -> Answer) async throws(TransportError) -> Answer {
        let number = count.withLock { count in
            count += 1
            return count
        }
        if number >= failing, moment == .before { throw error }
        guard number >= failing else { return try await send() }
        _ = try? await send()
        throw error
    }

    func describe() async throws(TransportError) -> SpaceDescription {
        try await request { () async throws(TransportError) in try await relay.describe() }
    }

    func create() async throws(TransportError) -> SpaceDescription {
        try await request { () async throws(TransportError) in try await relay.create() }
    }

    func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        try await request { () async throws(TransportError) in try await relay.push(batch, seen: seen) }
    }

    func pull(after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?) async throws(TransportError) -> Page {
        try await request { () async throws(TransportError) in
            try await relay.pull(after: position, seen: seen, byteLimit: byteLimit, wait: wait)
        }
    }

    func uploadSnapshot(
        at path: String, seen: LogMark, digest: Digest, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        try await request { () async throws(TransportError) in
            try await relay.uploadSnapshot(at: path, seen: seen, digest: digest, progress: progress)
        }
    }

    func downloadSnapshot(to path: String, progress: @escaping @Sendable (Int64) -> Void) async throws(TransportError) -> Position {
        try await request { () async throws(TransportError) in try await relay.downloadSnapshot(to: path, progress: progress) }
    }
}
