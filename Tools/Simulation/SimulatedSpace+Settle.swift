import AnnalsStore

/// Liveness: without further faults, all replicas settle in a few rounds.
extension SimulatedSpace {
    /// Rounds after which all replicas must be settled. In the first round all replicas push, in the second they pull the entries of
    /// the others, and the third shows that nothing more happens.
    static let rounds = 3
    /// The maximum number of requests of one replica in one round.
    static let requestsPerRound = 40

    func settle() async throws {
        network = .perfect
        for fault in Faults.all { try await fault.end(in: self) }
        for (number, replica) in replicas.enumerated() {
            replica.cutUntil = 0
            if replica.isRunning { replica.power.restore() } else { try restart(number) }
        }
        trace.note("+\(time.now) everything heals")
        for round in 1...Self.rounds {
            for number in replicas.indices {
                let step = Step(number: 1_000 * round + number, at: time.now, replica: number, action: .sync(.both))
                queue.add(.step(step), at: time.now + Int64(number))
            }
            try await runQueue()
            // Usually the rounds end when everything is settled; one world in four runs all rounds, to show that it stays settled.
            if plan.seed % 4 != 0, replicas.allSatisfy(isSettled) { break }
        }
        for replica in replicas {
            if isSettled(replica) { continue }
            let look = replica.look
            if isStranded(replica) { throw Violation("liveness", "\(replica.name) got no error that the log was purged") }
            if replica.lostLog != nil { throw Violation("merge rule 41", "\(replica.name) got no error that the relay was restored") }
            throw Violation(
                "liveness",
                "\(replica.name) is at \(look.position) of \(oracle.head) with \(look.outbox.count) unsent after \(Self.rounds) rounds")
        }
    }

    /// Whether a replica has everything and all others have its transactions, or it got an error that says why not.
    private func isSettled(_ replica: Replica) -> Bool {
        if replica.lostLog != nil || isStranded(replica) { return replica.reportsLostLog }
        let look = replica.look
        return look.position == oracle.head && look.outbox.isEmpty && look.ahead.isEmpty && !hasUnsealed(replica, look)
            && !replica.mayHoldUnseen
    }
}
