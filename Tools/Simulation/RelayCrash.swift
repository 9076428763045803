import AnnalsCore

/// The relay's process dies and is started again on its data.
struct RelayCrash: Fault, Equatable {
    enum Point: Sendable, Equatable {
        case now
        /// Before a commit: its writes are undone.
        case before
        /// Only this part of the commit's bytes is written.
        case within(thousandths: Int)
        /// The commit is durable, and no replica gets its answer.
        case after
    }

    var point: Point
    /// At the nth commit from now on.
    var commits: Int
    var downFor: Int64

    static let name = "relay crash"
    /// Percent of worlds.
    private static let share = 40
    private static let firstStep = 900

    static func add(to plan: inout Plan, _ features: Features) {
        var dice = Dice(seed: plan.seed, 16)
        guard dice.chance(share) else { return }
        // Most crashes are at the start of an exchange, so that the relay dies at one of its commits.
        let exchanges = plan.steps.filter { if case .sync = $0.action { true } else { false } }.map(\.at)
        let steps = (0..<dice.number(1...4)).map { number in
            let at = exchanges.isEmpty || dice.chance(25) ? Int64(dice.number(0...Int(plan.length))) : dice.one(of: exchanges)
            let point: Point = dice.weighted([
                (15, .now), (25, .before), (30, .within(thousandths: dice.number(1...999))), (30, .after),
            ])
            let crash = RelayCrash(point: point, commits: dice.number(1...4), downFor: Int64(dice.one(of: [0, 1, 300, 2_000])))
            return Step(number: firstStep + number, at: at, replica: 0, action: .fault(crash))
        }
        plan.insert(steps)
    }

    var text: String {
        let place =
            switch point {
            case .now: "now"
            case .before: "before commit \(commits)"
            case .within(let thousandths): "with \(thousandths) ‰ of commit \(commits) written"
            case .after: "after commit \(commits)"
            }
        return "is at work while the relay dies \(place), back after \(downFor) ms"
    }

    func perform(on replica: Int, in space: SimulatedSpace) async throws {
        try await space.startRelay()
        space.relayIsDownFor = downFor
        guard point == .now else { return space.machine.power.die(at: self) }
        try await space.machine.die()
        space.noteRelayDeath()
    }

    static func explains(_ error: AnnalsError, in space: SimulatedSpace) -> Bool {
        space.relayWasDown && [.relayUnreachable, .relayOverloaded].contains(error.code)
    }

    static func end(in space: SimulatedSpace) async throws {
        try await space.startRelay()
        space.machine.power.spare()
    }
}
