import AnnalsCore
import AnnalsReplica
import AnnalsStore

/// Reports the operations of one exchange as events.
struct ExchangeEvents {
    private let board: EventBoard
    private var open: [SyncEvent.Stage: SyncEvent] = [:]

    init(_ board: EventBoard) {
        self.board = board
    }

    mutating func begin(_ stage: SyncEvent.Stage) {
        guard open[stage] == nil else { return }
        open[stage] = board.begin(stage)
    }

    mutating func begin(_ step: Exchange.Step) {
        switch step {
        case .push: begin(.export)
        case .pull: begin(.import)
        case .wait, .done: break
        }
    }

    /// Reports the progress of the exchange. The answer to a push may contain entries of other replicas.
    mutating func note(_ summary: SyncAgent.Summary, _ status: ExchangeStatus) {
        if summary.pulled.transactions > 0 { begin(.import) }
        move(.export, summary.pushed, remaining: status.outbox)
        move(.import, summary.pulled, remaining: Int(max(0, status.head.rawValue - status.position.rawValue)))
    }

    private mutating func move(_ stage: SyncEvent.Stage, _ flow: SyncAgent.Summary.Flow, remaining: Int) {
        guard var event = open[stage], event.transactions != flow.transactions || event.remaining != remaining else { return }
        event.transactions = flow.transactions
        event.changes = flow.changes
        event.bytes = flow.bytes
        event.remaining = remaining
        open[stage] = event
        board.send(event)
    }

    /// Ends the setup. The exchange continues from this position with a restored relay.
    mutating func follow(from position: Position?) {
        open[.setup]?.followed = position
        end(.setup)
    }

    mutating func end(_ stage: SyncEvent.Stage, isCaughtUp: Bool = false) {
        guard var event = open.removeValue(forKey: stage) else { return }
        event.isCaughtUp = isCaughtUp
        board.send(event, isEnd: true)
    }

    /// Ends all operations with an error. An error before the first operation counts as an error of the setup.
    mutating func fail(_ error: any Error) {
        if open.isEmpty { begin(.setup) }
        for stage in SyncEvent.Stage.allCases {
            guard var event = open.removeValue(forKey: stage) else { continue }
            event.error = Self.edge(error)
            board.send(event, isEnd: true)
        }
    }

    private static func edge(_ error: any Error) -> AnnalsError {
        switch error {
        case let error as AnnalsError: error
        case let error as TransportError: error.annalsError
        case is CancellationError: AnnalsError(.cancelled, operation: "sync", "stopped")
        default: AnnalsError(.defect, operation: "sync", "\(error)", underlying: error)
        }
    }
}
