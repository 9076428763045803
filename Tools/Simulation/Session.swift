import AnnalsCore
import AnnalsStore
import AnnalsSync
import AnnalsWire
import Logging

/// One exchange of a replica with the relay, by the real agent. The agent stops at each request and at each pause, and waits for the
/// world. So only one task runs at a time, and a seed always gives the same order of events.
final class Session: Sendable {
    /// The reason for a stop.
    enum Stop: Sendable {
        case request(Request)
        case pause(Duration)
        case finished(Result<SyncAgent.Summary, AnnalsError>)
    }

    enum Request: Sendable {
        case push([UInt8], LogMark)
        case pull(after: Position, LogMark, byteLimit: Int)
        case describe
        case downloadSnapshot(to: String, atOrBefore: Position?)
        case uploadSnapshot(String, LogMark, Digest)
    }

    enum Reply: Sendable {
        case answer(PushAnswer)
        case page(Page)
        case description(SpaceDescription)
        case snapshot(Position)
        /// The relay has the snapshot of this position.
        case uploaded(Position)
        case failed(TransportError)
        case goOn
        case dead
    }

    private let stops = Mailbox<Stop>()
    private let replies = Mailbox<Reply>()

    init(store: Store, direction: SyncDirection, random: @escaping @Sendable () -> Double) {
        let line = Line(stops: stops, replies: replies)
        let environment = SyncAgent.Environment(
            pause: { duration in
                if case .dead = await line.stop(.pause(duration)) { throw TransportError.cancelled.annalsError }
            }, random: random)
        let silence = Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }
        let agent = SyncAgent(store: store, transport: line, environment: environment, logger: silence)
        Task { [stops] in
            do {
                stops.put(.finished(.success(try await agent.sync(direction))))
            } catch let error as AnnalsError {
                stops.put(.finished(.failure(error)))
            } catch {
                stops.put(.finished(.failure(AnnalsError(.defect, operation: "sync", "\(error)"))))
            }
        }
    }

    /// Waits until the agent stops.
    func nextStop() async -> Stop {
        await stops.take()
    }

    func reply(_ reply: Reply) {
        replies.put(reply)
    }

    /// Ends the exchange like the end of its process: the agent gets no answer.
    func abandon() async {
        while true {
            replies.put(.dead)
            if case .finished = await stops.take() { return }
        }
    }
}

/// The transport of a session's agent.
private struct Line: RelayTransport {
    let stops: Mailbox<Session.Stop>
    let replies: Mailbox<Session.Reply>

    func stop(_ stop: Session.Stop) async -> Session.Reply {
        stops.put(stop)
        return await replies.take()
    }

    func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        switch await stop(.request(.push(batch, seen))) {
        case .answer(let answer): return answer
        case .failed(let error): throw error
        default: throw .cancelled
        }
    }

    func pull(after position: Position, seen: LogMark, byteLimit: Int, wait: Duration?) async throws(TransportError) -> Page {
        switch await stop(.request(.pull(after: position, seen, byteLimit: byteLimit))) {
        case .page(let page): return page
        case .failed(let error): throw error
        default: throw .cancelled
        }
    }

    // The following methods are used to compare rows with the log, to resync, and for snapshots.

    func describe() async throws(TransportError) -> SpaceDescription {
        switch await stop(.request(.describe)) {
        case .description(let description): return description
        case .failed(let error): throw error
        default: throw .cancelled
        }
    }

    func downloadSnapshot(to path: String, progress: @escaping @Sendable (Int64) -> Void) async throws(TransportError) -> Position {
        try await download(.downloadSnapshot(to: path, atOrBefore: nil))
    }

    func downloadSnapshot(
        atOrBefore position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) -> Position {
        try await download(.downloadSnapshot(to: path, atOrBefore: position))
    }

    private func download(_ request: Session.Request) async throws(TransportError) -> Position {
        switch await stop(.request(request)) {
        case .snapshot(let position): return position
        case .failed(let error): throw error
        default: throw .cancelled
        }
    }

    func uploadSnapshot(
        at path: String, seen: LogMark, digest: Digest, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) {
        switch await stop(.request(.uploadSnapshot(path, seen, digest))) {
        case .uploaded: return
        case .failed(let error): throw error
        default: throw .cancelled
        }
    }

    /// Exchanges do not use this request.
    func create() async throws(TransportError) -> SpaceDescription { throw .cancelled }
}
