/// One seed, from its plan to its result.
///
///     let outcome = await Simulation(seed: 17).run()
///     if let failure = outcome.failure { print(failure) }
public struct Simulation: Sendable {
    public let seed: UInt64
    public let features: Features

    /// Runs only these steps of the plan, by number; nil: all.
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

    /// The result of a run.
    public struct Outcome: Sendable {
        /// Equal for equal runs.
        public var traceHash: UInt64
        public var failure: Failure?
    }

    /// A law that was violated.
    public struct Failure: Sendable, CustomStringConvertible {
        /// The law, in a few words.
        public var law: String
        public var text: String

        public var description: String { "\(law): \(text)" }
    }

    /// The plan as lines.
    public var planLines: [String] { plan.lines }

    public func run() async -> Outcome {
        let (trace, violation) = await SimulatedSpace.run(plan)
        return Outcome(traceHash: trace.hash, failure: violation.map { Failure(law: $0.law, text: $0.text) })
    }

    /// Runs the plan again and returns it line by line, with only the steps that a failure needs.
    public func story(isShrunk: Bool = true) async -> [String] {
        var plan = plan
        let (whole, violation) = await SimulatedSpace.run(plan, keepsLines: true)
        guard let violation else { return plan.lines + [""] + whole.lines }
        if isShrunk { plan = await Shrinker.shrink(plan, law: violation.law) }
        let (trace, last) = await SimulatedSpace.run(plan, keepsLines: true)
        return plan.lines + [""] + trace.lines + ["", (last ?? violation).description]
    }
}
