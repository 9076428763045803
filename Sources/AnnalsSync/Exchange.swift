import AnnalsCore
import AnnalsWire

/// A state machine that decides the next step of an exchange. It is a value: it gets the events, and the agent carries
/// out the steps.
///
/// A push comes before a pull, because the answer to a refused push contains the log after its base. Transactions that
/// may have been sent are not rewritten before the relay has said whether it has them. So while a push has no definite
/// answer, the only step is to send it again.
struct Exchange {
    enum Direction: Sendable {
        case both, pushOnly, pullOnly
    }

    enum Step: Equatable {
        case push
        case pull
        /// Another replica has the push lease. Try again after this many milliseconds.
        case wait(milliseconds: Int)
        case done
    }

    enum Event {
        /// The state of the store at the beginning, or after a change of it.
        case ready(outbox: Int, isPushUnderWay: Bool)
        case answered(PushAnswer.Outcome, isBehind: Bool, outbox: Int)
        /// The outbox has nothing that may be sent now.
        case nothingToSend(isBehind: Bool)
        /// The relay refuses the push permanently. Nothing more is sent.
        case refused
        case pulled(isBehind: Bool, outbox: Int)
    }

    let direction: Direction
    private var hasPulled = false
    private var isRefused = false
    private var sends: Bool { direction != .pullOnly && !isRefused }

    init(direction: Direction) {
        self.direction = direction
    }

    mutating func next(after event: Event) -> Step {
        switch event {
        case .ready(let outbox, let isPushUnderWay):
            if isPushUnderWay { return .push }
            if outbox > 0, sends { return .push }
            return direction == .pushOnly ? .done : .pull
        case .refused:
            isRefused = true
            return direction == .pushOnly ? .done : .pull
        case .answered(let outcome, let isBehind, let outbox):
            if case .wait(let milliseconds) = outcome { return .wait(milliseconds: milliseconds) }
            if case .stale = outcome, isBehind { return .pull }
            if outbox > 0, sends { return .push }
            if direction == .pushOnly { return .done }
            return isBehind || !hasPulled ? .pull : .done
        case .nothingToSend(let isBehind):
            return direction != .pushOnly && (isBehind || !hasPulled) ? .pull : .done
        case .pulled(let isBehind, let outbox):
            hasPulled = true
            if isBehind { return .pull }
            return outbox > 0 && sends ? .push : .done
        }
    }

    /// The relay's answer showed that the replica has the whole log, so a pull would return nothing.
    mutating func noteCaughtUp() {
        hasPulled = true
    }
}
