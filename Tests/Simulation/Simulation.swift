/// One seed, from its plan to its verdict.
public struct Simulation: Sendable {
    public var seed: UInt64
    public var features: Features

    public init(seed: UInt64, features: Features = Features()) {
        self.seed = seed
        self.features = features
    }

    /// What a run came to.
    public struct Outcome: Sendable {
        /// Equal for equal runs.
        public var traceHash: UInt64
        /// nil when every law held.
        public var failure: String?
    }

    public func run() async throws -> Outcome {
        do {
            return Outcome(traceHash: try await World.run(PlanMaker.make(seed: seed, features: features)).hash)
        } catch let failure as World.Failure {
            return Outcome(traceHash: failure.trace.hash, failure: failure.violation.description)
        }
    }

    /// The run once more, told line by line.
    public func story() async throws -> [String] {
        let plan = PlanMaker.make(seed: seed, features: features)
        do {
            return plan.lines + ["—"] + (try await World.run(plan, keepsLines: true)).lines
        } catch let failure as World.Failure {
            return plan.lines + ["—"] + failure.trace.lines + [failure.violation.description]
        }
    }
}
