import SeededRandom
import Synchronization

/// What goes wrong with one request.
public enum NetworkFault: Hashable, Sendable {
    /// Nothing does.
    case none
    /// The relay never sees it; who sent it cannot know that.
    case requestLost
    /// The relay does what it was asked, and the answer is lost.
    case answerLost
    /// It arrives twice, one right after the other.
    case repeated
    /// A copy of it arrives just before the sender's next request.
    case repeatedLater
    /// It takes so long; the clock of the lines moves on.
    case delayed(Duration)
    /// The relay is overloaded, and says after how long to come again.
    case refused(retryAfter: Duration?)
}

/// A network on a bad day, the same one whenever a test runs: its faults come from a script or from a seed.
///
///     let scripted = FaultyNetwork(script: [.answerLost, .none, .repeatedLater])
///     let drawn = FaultyNetwork(seed: 17)
///
/// A `TestSpace` has one, which is faultless unless it is given another. Around a transport of your own, `line(to:)` does the same.
public final class FaultyNetwork: Sendable {
    /// How often what goes wrong, in percent of all requests.
    public struct Rates: Sendable {
        public var requestsLost: Int
        public var answersLost: Int
        public var repeated: Int
        public var refused: Int
        /// The longest delay; each request takes some of it.
        public var delay: Duration

        public init(
            requestsLost: Int = 10, answersLost: Int = 10, repeated: Int = 10, refused: Int = 5, delay: Duration = .milliseconds(500)
        ) {
            self.requestsLost = requestsLost
            self.answersLost = answersLost
            self.repeated = repeated
            self.refused = refused
            self.delay = delay
        }
    }

    private enum Source {
        /// The faults to come, the last first.
        case script([NetworkFault])
        case dice(SeededGenerator, Rates)
    }

    private struct State {
        var source: Source
        var requests = 0
        var faults = 0
    }

    private let state: Mutex<State>

    /// - Parameter script: what becomes of the first requests, one after another. Those after them all arrive.
    public init(script: [NetworkFault] = []) {
        state = Mutex(State(source: .script(script.reversed())))
    }

    /// - Parameters:
    ///   - seed: what it is drawn from; the same seed and requests meet the same faults.
    ///   - rates: how often each fault happens, in percent.
    public init(seed: UInt64, rates: Rates = Rates()) {
        state = Mutex(State(source: .dice(SeededGenerator(seed: seed), rates)))
    }

    /// Requests so far.
    public var requests: Int { state.withLock { $0.requests } }
    /// How many of them something happened to.
    public var faults: Int { state.withLock { $0.faults } }

    /// What follows all arrives.
    public func heal() {
        state.withLock { $0.source = .script([]) }
    }

    func next() -> NetworkFault {
        state.withLock { state in
            let fault = Self.draw(&state.source)
            state.requests += 1
            if fault != .none { state.faults += 1 }
            return fault
        }
    }

    private static func draw(_ source: inout Source) -> NetworkFault {
        switch source {
        case .script(var faults):
            let fault = faults.popLast() ?? .none
            source = .script(faults)
            return fault
        case .dice(var dice, let rates):
            defer { source = .dice(dice, rates) }
            if dice.chance(rates.requestsLost) { return .requestLost }
            if dice.chance(rates.answersLost) { return .answerLost }
            if dice.chance(rates.repeated) { return dice.chance(50) ? .repeated : .repeatedLater }
            if dice.chance(rates.refused) { return .refused(retryAfter: dice.chance(50) ? .seconds(2) : nil) }
            guard rates.delay > .zero else { return .none }
            return .delayed(rates.delay * Int.random(in: 0...100, using: &dice) / 100)
        }
    }
}
