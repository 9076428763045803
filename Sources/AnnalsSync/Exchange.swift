import AnnalsCore
import AnnalsWire

/// Which step of an exchange comes next. A value that takes what happened and says what to do; the agent does it.
///
/// A push comes before a pull, since its answer brings the log after its base when it is refused. Nothing that may
/// have been sent is rewritten before the relay has said whether it holds it: while a push has no definite answer the
/// only step is to send it again.
struct Exchange {
    enum Direction: Sendable {
        case both, pushOnly, pullOnly
    }

    enum Step: Equatable {
        case push
        case pull
        /// Another replica has the turn; try again after this many milliseconds.
        case wait(milliseconds: Int)
        case done
    }

    enum Event {
        /// What the store holds at the beginning, or after something changed it.
        case ready(outbox: Int, isPushUnderWay: Bool)
        case answered(PushAnswer.Outcome, isBehind: Bool, outbox: Int)
        /// The relay does not take what was pushed, now or later: nothing more is sent.
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
        case .pulled(let isBehind, let outbox):
            hasPulled = true
            if isBehind { return .pull }
            return outbox > 0 && sends ? .push : .done
        }
    }

    /// The relay's answer told the head, so a pull would bring nothing.
    mutating func noteCaughtUp() {
        hasPulled = true
    }
}
