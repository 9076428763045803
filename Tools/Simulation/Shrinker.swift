/// Makes a failing plan smaller while it still fails in the same way. The rest shows the cause.
struct Shrinker {
    /// The failure of a plan; nil if it does not fail.
    private let failure: (Plan) async -> Violation?
    private let law: String
    private var triesLeft: Int
    private(set) var plan: Plan

    /// - Parameters:
    ///   - tries: how many times the plan may be run.
    ///   - failure: runs a plan and returns its failure.
    init(_ plan: Plan, law: String, tries: Int, failure: @escaping (Plan) async -> Violation?) {
        self.plan = plan
        self.law = law
        triesLeft = tries
        self.failure = failure
    }

    static func shrink(_ plan: Plan, law: String, tries: Int = 600) async -> Plan {
        var shrinker = Shrinker(plan, law: law, tries: tries) { await SimulatedSpace.run($0).violation }
        return await shrinker.run()
    }

    mutating func run() async -> Plan {
        await dropAll(\.steps)
        await simplifySurroundings()
        await dropAll(\.rows)
        await simplifySteps()
        await simplifySchema()
        await dropAll(\.steps)
        return plan
    }

    /// If the smaller plan fails in the same way, replaces the plan by it and returns true.
    private mutating func keeps(_ smaller: Plan) async -> Bool {
        guard triesLeft > 0 else { return false }
        triesLeft -= 1
        guard await failure(smaller)?.law == law else { return false }
        plan = smaller
        return true
    }

    /// Leaves out parts of a list: first halves, finally single elements.
    private mutating func dropAll<T>(_ list: WritableKeyPath<Plan, [T]>) async {
        var size = max(1, plan[keyPath: list].count / 2)
        while true {
            var dropped = false
            var start = 0
            while start < plan[keyPath: list].count {
                var smaller = plan
                smaller[keyPath: list].removeSubrange(start..<min(start + size, plan[keyPath: list].count))
                if await keeps(smaller) { dropped = true } else { start += size }
            }
            if size == 1, !dropped { return }
            size = max(1, size / 2)
            if triesLeft == 0 { return }
        }
    }

    private mutating func simplifySurroundings() async {
        var smaller = plan
        smaller.network = .perfect
        _ = await keeps(smaller)
        smaller = plan
        smaller.isSealed = false
        _ = await keeps(smaller)
        smaller = plan
        smaller.sizes?.pageBytes = nil
        _ = await keeps(smaller)
        smaller.sizes?.pieceBytes = nil
        _ = await keeps(smaller)
        smaller.sizes = nil
        _ = await keeps(smaller)
        for number in plan.replicas.indices {
            smaller = plan
            smaller.replicas[number] = ReplicaPlan()
            _ = await keeps(smaller)
        }
    }

    /// Leaves out statements of writes that have several.
    private mutating func simplifySteps() async {
        for number in plan.steps.indices {
            var place = 0
            while let statements = plan.steps[number].action.statements, statements.count > 1, place < statements.count {
                var smaller = plan
                smaller.steps[number].action.statements?.remove(at: place)
                if await !keeps(smaller) { place += 1 }
            }
        }
    }

    private mutating func simplifySchema() async {
        await dropAll(\.schema.extras)
        for number in plan.schema.tables.indices {
            await dropAll(\.schema.tables[number].uniques)
            await dropAll(\.schema.tables[number].checks)
            await dropAll(\.schema.tables[number].references)
        }
    }
}

extension Step.Action {
    /// Whether the other statements are still executed if SQLite refuses one.
    var goesOn: Bool {
        switch self {
        case .write(_, let isTolerant), .strangerWrites(_, let isTolerant, _), .strangerRebuilds(_, _, let isTolerant): isTolerant
        default: false
        }
    }

    /// The statements of a write; nil for other actions.
    var statements: [String]? {
        get {
            switch self {
            case .write(let statements, _), .strangerWrites(let statements, _, _), .strangerRebuilds(_, let statements, _): statements
            default: nil
            }
        }
        set {
            guard let newValue else { return }
            switch self {
            case .write(_, let isTolerant): self = .write(statements: newValue, isTolerant: isTolerant)
            case .strangerWrites(_, let isTolerant, let checksParents):
                self = .strangerWrites(statements: newValue, isTolerant: isTolerant, checksParents: checksParents)
            case .strangerRebuilds(let rebuild, _, let isTolerant):
                self = .strangerRebuilds(rebuild, statements: newValue, isTolerant: isTolerant)
            default: return
            }
        }
    }
}
