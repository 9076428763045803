/// Draws purges of the log before a snapshot and purges of stores' history, with its own dice.
enum Purges {
    /// Percent of worlds.
    private static let ofRelay = 17
    private static let ofHistory = 17
    private static let firstRelayStep = 740
    private static let firstHistoryStep = 770

    static func add(to plan: inout Plan, _ features: Features) {
        guard plan.length > 0 else { return }
        var dice = Dice(seed: plan.seed, 11)
        if features.relayPurges, dice.chance(ofRelay) { purgeRelay(&plan, features, &dice) }
        dice = Dice(seed: plan.seed, 12)
        if features.historyPurges, dice.chance(ofHistory) { purgeHistory(&plan, features, &dice) }
    }

    // MARK: The relay

    /// One replica is offline for a while. Others continue and make snapshots, and the log before one is purged. Then the replica
    /// returns.
    private static func purgeRelay(_ plan: inout Plan, _ features: Features, _ dice: inout Dice) {
        plan.snapshots = SnapshotPlan(
            positions: Int64(dice.number(1...3)), lease: dice.one(of: [0, 300, 5_000]), kept: dice.one(of: [1, 2, 8]))
        let away = dice.number(0...plan.replicas.count - 1)
        let other = (away + dice.number(1...plan.replicas.count - 1)) % plan.replicas.count
        var workload = Workload(schema: plan.schema, features: features, dice: Dice(seed: plan.seed, 15))
        var steps: [Step] = []
        var time = Int64(dice.number(0...Int(plan.length) * 2 / 3))
        func add(_ replica: Int, _ action: Step.Action, after pause: Int = 0) {
            steps.append(Step(number: firstRelayStep + steps.count, at: time + Int64(pause), replica: replica, action: action))
        }
        func write() -> Step.Action {
            let (statements, isStranger) = (workload.transaction() + workload.rows(1), features.strangers && dice.chance(30))
            return isStranger
                ? .strangerWrites(statements: statements, isTolerant: true, checksParents: true)
                : .write(statements: statements, isTolerant: true)
        }
        let (begin, delay) = (time, plan.network.delay)
        add(away, write())
        for _ in 0..<dice.number(1...3) { add(other, write()) }
        add(other, .sync(.both), after: 1)
        // Writes during the exchange are in the outbox when the snapshot is made.
        for _ in 0..<dice.number(0...2) { add(other, write(), after: dice.number(1...8 * delay)) }
        if features.crashes, dice.chance(15) {
            add(other, .crash(dice.one(of: [.now, .beforeCommit(dice.number(1...4))]), downFor: 300), after: dice.number(1...8 * delay))
        }
        // The pause is usually long enough for the exchange to end.
        time += Int64(10 * delay + (plan.network.losesAnything ? 2_000 : 50))
        if dice.chance(30) { add(other, write()) }
        let silence = dice.one(of: [0, 0, time - begin, 1 << 40])
        add(0, .purgeRelay(.init(retired: dice.chance(50) ? [away] : [], silence: silence, isForced: dice.chance(50))))
        if features.newcomers, dice.chance(30) { add(0, .newcomer) }
        if dice.chance(30) { add(other, .sync(.both)) }
        add(away, .sync(dice.weighted([(80, .both), (20, .pullOnly)])), after: 1)
        if features.crashes, dice.chance(25) {
            let commits = dice.number(1...5)
            add(away, .crash(dice.one(of: [.beforeCommit(commits), .afterCommit(commits)]), downFor: 300), after: 1)
        }
        if dice.chance(30) { add(0, .purgeRelay(.init(silence: 0, isForced: true)), after: dice.number(1...2_000)) }
        plan.steps.removeAll { step in
            guard case .sync = step.action else { return false }
            return step.replica == away && step.at >= begin && step.at <= time
        }
        plan.leaveOut(steps.count, &dice)
        plan.insert(steps)
    }

    // MARK: History

    /// One store's history is read, remembered, and purged completely or in part.
    private static func purgeHistory(_ plan: inout Plan, _ features: Features, _ dice: inout Dice) {
        let replica = dice.number(0...plan.replicas.count - 1)
        let length = Int(plan.length)
        var steps: [Step] = []
        func add(_ action: Step.Action, at time: Int) {
            steps.append(Step(number: firstHistoryStep + steps.count, at: Int64(time), replica: replica, action: action))
        }
        for _ in 0..<dice.number(1...3) { add(.remember, at: dice.number(0...length)) }
        if dice.chance(75) { add(.consume(reader: 0, limit: 1), at: dice.number(0...length / 3)) }
        for _ in 0..<dice.number(0...2) {
            add(.consume(reader: dice.number(0...1), limit: dice.one(of: [1, 1, 100])), at: dice.number(0...length))
        }
        for _ in 0..<dice.number(1...2) {
            let time = dice.number(length / 3...length)
            if features.crashes, dice.chance(35) {
                let commits = dice.number(1...4)
                add(.crash(dice.one(of: [.beforeCommit(commits), .afterCommit(commits)]), downFor: Int64(dice.number(0...300))), at: time)
            }
            let aim: Step.HistoryPurge = dice.weighted([
                (40, .token(dice.number(0...9))), (20, .age(Int64(dice.number(0...length)))), (40, .consumed),
            ])
            add(.purgeHistory(aim, isForced: dice.chance(35)), at: time)
            if dice.chance(50) { add(.remember, at: time + 1) }
            if dice.chance(60) { add(.consume(reader: dice.number(0...1), limit: 2), at: time + 2) }
        }
        // A sync applies the store's retention once an hour.
        if dice.chance(30) {
            let time = dice.number(0...length)
            add(.setRetention(Int64(dice.number(0...length))), at: time)
            if features.clockFaults { add(.turnClock(by: 7_200_000), at: time + 1) }
            add(.sync(.both), at: time + 2)
        }
        plan.leaveOut(steps.count / 2, &dice)
        plan.insert(steps)
    }
}
