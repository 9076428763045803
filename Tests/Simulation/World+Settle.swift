import AnnalsStore

/// Liveness: once nothing fails any more, everything settles in a few rounds.
extension World {
    /// Rounds after which nobody may have anything left to say. In the first all push, in the second all have what the
    /// others pushed, the third shows that it is quiet.
    static let rounds = 3
    /// Requests of one replica in one round.
    static let requestsPerRound = 40

    func settle() async throws {
        network = .perfect
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
        }
        for replica in replicas {
            let look = replica.look
            guard look.position == oracle.head, look.outbox.isEmpty, look.ahead.isEmpty else {
                throw Violation(
                    "liveness",
                    "\(replica.name) is at \(look.position) of \(oracle.head) with \(look.outbox.count) unsent after \(Self.rounds) rounds")
            }
        }
    }
}
