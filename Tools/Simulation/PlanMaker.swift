import AnnalsCore

/// Draws a plan from a seed.
struct PlanMaker {
    private var features: Features
    private let seed: UInt64
    private var dice: Dice
    private var time: Int64 = 0
    private var isFirstNewcomer = true
    private var isFirstCopy = true
    private var hasPolicies = false

    static func make(seed: UInt64, features: Features) -> Plan {
        var maker = PlanMaker(features: features, seed: seed, dice: Dice(seed: seed, 2))
        return maker.run()
    }

    private init(features: Features, seed: UInt64, dice: Dice) {
        self.features = features
        self.seed = seed
        self.dice = dice
    }

    private mutating func run() -> Plan {
        let schema = SchemaMaker.make(seed: seed, features: features)
        if schema.tables.contains(where: \.keyMayBeNull) {
            // Rows with NULL in their key are not repaired if a program violates their foreign keys.
            features.strangersWithoutForeignKeys = false
            features.unseenWrites = false
        }
        if schema.usesProgram {
            // While a file is made from a snapshot, it calls no functions that an app added.
            (features.newcomers, features.relayPurges, features.unseenWrites) = (false, false, false)
        }
        var workload = Workload(schema: schema, features: features, dice: Dice(seed: seed, 3))
        let rows = (0..<dice.number(0...14)).map { _ in workload.row() }
        let count = dice.weighted([(40, 2), (30, 3), (20, 4), (10, 5)])
        let replicas = (0..<count).map { _ in replica() }
        let network = network()
        hasPolicies = features.policies && dice.chance(35)
        let steps = (0..<dice.number(10...24)).map { number in step(number, replicas: count, &workload) }
        var plan = Plan(seed: seed, schema: schema, rows: rows, replicas: replicas, network: network, steps: steps)
        // This is not drawn, so that the other worlds do not change.
        plan.isSealed = features.sealedSpaces && seed % 8 == 5
        if features.parts { divide(&plan) }
        if features.scenes { Scenes.add(to: &plan, features) }
        RareEvents.add(to: &plan, features)
        Purges.add(to: &plan, features)
        Faults.add(to: &plan, features)
        return plan
    }

    /// Gives one world in four small batches, so that transactions have several parts. It uses its own dice, so that the other worlds
    /// do not change.
    private func divide(_ plan: inout Plan) {
        var dice = Dice(seed: seed, 8)
        guard dice.chance(25) else { return }
        plan.sizes = SizePlan(
            partBytes: dice.one(of: [1, 1, 1, 8, 16, 40]), pageBytes: dice.chance(75) ? dice.one(of: [1, 200, 400, 900]) : nil)
        // This is not drawn, so that the other worlds do not change.
        plan.sizes?.pieceBytes = [nil, 60, 150][Int(seed % 3)]
        let writes = plan.steps.compactMap(\.action.statements)
        for number in plan.steps.indices where plan.steps[number].action.goesOn && dice.chance(40) {
            for _ in 0..<dice.number(1...4) { plan.steps[number].action.statements? += dice.one(of: writes) }
        }
        guard features.crashes else { return }
        let crashes = plan.steps.enumerated().compactMap { number, step in
            dice.chance(20) ? crash(during: step, Self.firstAddedStep + number, delay: plan.network.delay, &dice) : nil
        }
        plan.insert(crashes)
    }

    /// A crash while parts are sent, or between them; nil for steps that send nothing.
    private func crash(during step: Step, _ number: Int, delay: Int, _ dice: inout Dice) -> Step? {
        guard case .sync = step.action else { return nil }
        let commits = dice.number(1...12)
        let point = dice.one(of: [CrashPoint.now, .now, .beforeCommit(commits), .afterCommit(commits)])
        let at = point == .now ? step.at + Int64(dice.number(1...10 * delay)) : step.at
        return Step(number: number, at: at, replica: step.replica, action: .crash(point, downFor: Int64(dice.number(0...1_500))))
    }

    /// Added steps have numbers after those of the other steps; those of `RareEvents` are higher.
    private static let firstAddedStep = 500

    private mutating func replica() -> ReplicaPlan {
        var plan = ReplicaPlan()
        plan.isInFile = features.files && dice.chance(10)
        guard features.clockFaults, dice.chance(30) else { return plan }
        plan.clockOffset = dice.one(of: [-86_400_000, -5_000, -300, 300, 5_000, 59_000, 61_000, 86_400_000])
        plan.clockDrift = Int64(dice.number(-200...200))
        return plan
    }

    private mutating func network() -> NetworkPlan {
        guard features.networkFaults, dice.chance(70) else { return .perfect }
        let percentages = RequestFaults.percentages(features, seed: seed, &dice)
        return NetworkPlan(percentages: percentages, delay: dice.one(of: [5, 20, 100, 700]))
    }

    private mutating func step(_ number: Int, replicas: Int, _ workload: inout Workload) -> Step {
        time += Int64(dice.weighted([(30, dice.number(0...3)), (50, dice.number(1...120)), (20, dice.number(100...2_000))]))
        return Step(number: number, at: time, replica: dice.number(0...replicas - 1), action: action(&workload))
    }

    private mutating func action(_ workload: inout Workload) -> Step.Action {
        enum Kind { case write, stranger, sync, look, remember, crash, cut, clock, newcomer, copy, policy, resolve }
        let kind = dice.weighted([
            (36, Kind.write), (features.strangers ? 16 : 0, .stranger), (34, .sync), (3, .look), (2, .remember),
            (features.crashes ? 6 : 0, .crash), (features.partitions ? 2 : 0, .cut), (features.clockFaults ? 2 : 0, .clock),
            (features.newcomers && isFirstNewcomer ? 1 : 0, .newcomer),
            (features.copies && isFirstCopy ? 1 : 0, .copy), (hasPolicies ? 5 : 0, .policy), (features.resolutions ? 2 : 0, .resolve),
        ])
        switch kind {
        case .write: return .write(statements: workload.transaction(), isTolerant: dice.chance(75))
        case .stranger:
            return .strangerWrites(
                statements: workload.transaction(), isTolerant: dice.chance(75),
                checksParents: !features.strangersWithoutForeignKeys || dice.chance(80))
        case .sync: return .sync(dice.weighted([(80, .both), (10, .pushOnly), (10, .pullOnly)]))
        case .look: return .look
        case .remember: return .remember
        case .crash: return .crash(crashPoint(), downFor: Int64(dice.number(0...1_500)))
        case .cut: return .cut(for: Int64(dice.number(100...3_000)))
        case .newcomer:
            isFirstNewcomer = false
            return .newcomer
        case .copy:
            isFirstCopy = false
            return .copy
        case .policy: return .setPolicy(workload.policy(), isOverride: dice.chance(20))
        case .resolve: return .resolve(dice.number(0...99), taking: dice.chance(70) ? .incoming : .stored)
        case .clock: return .turnClock(by: Int64(dice.one(of: [-86_400_000, -10_000, -500, 500, 10_000, 120_000, 86_400_000])))
        }
    }

    private mutating func crashPoint() -> CrashPoint {
        switch dice.number(0...2) {
        case 0: .now
        case 1: .beforeCommit(dice.number(1...5))
        default: .afterCommit(dice.number(1...5))
        }
    }
}
