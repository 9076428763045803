/// One seed, from its plan to its verdict.
///
///     let outcome = await Simulation(seed: 17).run()
///     if let failure = outcome.failure { print(failure) }
public struct Simulation: Sendable {
    public let seed: UInt64
    public let features: Features

    /// Only these steps of the plan, by number; nil for all.
    public let steps: Set<Int>?

    public init(seed: UInt64, features: Features = Features(), steps: Set<Int>? = nil) {
        self.seed = seed
        self.features = features
        self.steps = steps
    }

    private var plan: Plan {
        var plan = PlanMaker.make(seed: seed, features: features)
        if let steps { plan.steps.removeAll { !steps.contains($0.number) } }
        return plan
    }

    /// What a run came to.
    public struct Outcome: Sendable {
        /// Equal for equal runs.
        public var traceHash: UInt64
        public var failure: Failure?
    }

    /// A law that did not hold.
    public struct Failure: Sendable, CustomStringConvertible {
        /// Which, in a few words.
        public var law: String
        public var text: String

        public var description: String { "\(law): \(text)" }
    }

    /// What it is going to do.
    public var planLines: [String] { plan.lines }

    public func run() async -> Outcome {
        let (trace, violation) = await SimulatedSpace.run(plan)
        return Outcome(traceHash: trace.hash, failure: violation.map { Failure(law: $0.law, text: $0.text) })
    }

    /// The run once more, told line by line, with the steps that a failure needs and no others.
    public func story(isShrunk: Bool = true) async -> [String] {
        var plan = plan
        let (whole, violation) = await SimulatedSpace.run(plan, keepsLines: true)
        guard let violation else { return plan.lines + [""] + whole.lines }
        if isShrunk { plan = await Shrinker.shrink(plan, law: violation.law) }
        let (trace, last) = await SimulatedSpace.run(plan, keepsLines: true)
        return plan.lines + [""] + trace.lines + ["", (last ?? violation).description]
    }
}
