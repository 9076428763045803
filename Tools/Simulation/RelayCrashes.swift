/// Draws worlds in which the relay dies, with its own dice.
enum RelayCrashes {
    /// Percent of worlds.
    private static let share = 40
    private static let firstStep = 900

    static func add(to plan: inout Plan, _ features: Features) {
        var dice = Dice(seed: plan.seed, 16)
        guard features.relayCrashes, plan.length > 0, dice.chance(share) else { return }
        // Most crashes are at the start of an exchange, so that the relay dies at one of its commits.
        let exchanges = plan.steps.filter { if case .sync = $0.action { true } else { false } }.map(\.at)
        let steps = (0..<dice.number(1...4)).map { number in
            let at = exchanges.isEmpty || dice.chance(25) ? Int64(dice.number(0...Int(plan.length))) : dice.one(of: exchanges)
            let point: Step.RelayCrash.Point = dice.weighted([
                (15, .now), (25, .before), (30, .within(thousandths: dice.number(1...999))), (30, .after),
            ])
            let crash = Step.RelayCrash(point: point, commits: dice.number(1...4), downFor: Int64(dice.one(of: [0, 1, 300, 2_000])))
            return Step(number: firstStep + number, at: at, replica: 0, action: .crashRelay(crash))
        }
        plan.insert(steps)
    }
}
