/// Adds rare events to a plan. It uses its own dice, so that the rest of the plan does not change.
enum RareEvents {
    /// Percent of worlds.
    private static let unseenWrites = 10
    private static let relayRestores = 8
    private static let firstStep = 700

    static func add(to plan: inout Plan, _ features: Features) {
        var dice = Dice(seed: plan.seed, 9)
        guard plan.length > 0 else { return }
        var steps: [Step] = []
        func add(_ action: Step.Action, at time: Int64, replica: Int) {
            steps.append(Step(number: firstStep + steps.count, at: time, replica: replica, action: action))
        }
        if features.unseenWrites, dice.chance(unseenWrites) {
            var workload = Workload(schema: plan.schema, features: features, dice: Dice(seed: plan.seed, 10))
            for _ in 0..<dice.number(1...2) {
                let rebuild = Step.Rebuild(table: dice.one(of: plan.schema.tables).name, dropsOnlyTriggers: dice.chance(50))
                let statements = (0..<dice.number(1...3)).flatMap { _ in workload.transaction() }
                add(
                    .strangerRebuilds(rebuild, statements: statements, isTolerant: dice.chance(75)),
                    at: Int64(dice.number(0...Int(plan.length))), replica: dice.number(0...plan.replicas.count - 1))
            }
        }
        if features.relayRestores, dice.chance(relayRestores) {
            let backup = dice.number(0...Int(plan.length))
            add(.backUpRelay, at: Int64(backup), replica: 0)
            add(.restoreRelay, at: Int64(dice.number(backup...Int(plan.length))), replica: 0)
        }
        plan.insert(steps)
    }
}

extension Plan {
    /// Steps at the same time keep their order.
    mutating func insert(_ more: [Step]) {
        steps = (steps + more).enumerated().sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }.map(\.element)
    }
}
