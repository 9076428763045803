import SeededRandom
import Synchronization

/// The fault of one request.
public enum NetworkFault: Hashable, Sendable {
    /// No fault.
    case none
    /// The relay does not receive the request. The sender cannot know this.
    case requestLost
    /// The relay carries out the request, and the answer is lost.
    case answerLost
    /// The request arrives twice, one directly after the other.
    case repeated
    /// A copy of the request arrives just before the sender's next request.
    case repeatedLater
    /// The request takes this time. The clock of the line advances.
    case delayed(Duration)
    /// The relay is overloaded. It may say when to try again.
    case refused(retryAfter: Duration?)
}

/// A network with faults that are the same in each run of a test. They come from a script or from a seed.
///
///     let scripted = FaultyNetwork(script: [.answerLost, .none, .repeatedLater])
///     let drawn = FaultyNetwork(seed: 17)
///
/// A `TestSpace` has a network without faults, unless the test passes another one. `line(to:)` does the same for your
/// own transport.
public final class FaultyNetwork: Sendable {
    /// How often each fault happens, in percent of all requests.
    public struct Rates: Sendable {
        public var requestsLost: Int
        public var answersLost: Int
        public var repeated: Int
        public var refused: Int
        /// The longest delay. Each request without another fault has a random delay up to it.
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
        /// The remaining faults, in reverse order.
        case script([NetworkFault])
        case dice(SeededGenerator, Rates)
    }

    private struct State {
        var source: Source
        var requests = 0
        var faults = 0
    }

    private let state: Mutex<State>

    /// - Parameter script: the faults of the first requests, in their order. All later requests arrive.
    public init(script: [NetworkFault] = []) {
        state = Mutex(State(source: .script(script.reversed())))
    }

    /// - Parameters:
    ///   - seed: the seed of the random faults. With the same seed, the same requests have the same faults.
    ///   - rates: how often each fault happens, in percent.
    public init(seed: UInt64, rates: Rates = Rates()) {
        state = Mutex(State(source: .dice(SeededGenerator(seed: seed), rates)))
    }

    /// The number of requests so far.
    public var requests: Int { state.withLock { $0.requests } }
    /// The number of requests with a fault.
    public var faults: Int { state.withLock { $0.faults } }

    /// From now on all requests arrive.
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
