import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsWire

extension SyncAgent {
    /// Sends the first entry of a space until it has an answer. Stops if another store's first entry was accepted.
    ///
    /// - Returns: false if the log begins with another store's entry.
    /// - Throws: `AnnalsError`. The next call sends the same entry again.
    func pushFirstEntry() async throws -> Bool {
        var patience = ExchangePatience()
        while let state = try await store.replicaState(), state.lastCounter == .zero, state.position == .zero {
            try await pauseForRound(&patience) { Self.refusal(of: 1) }
            guard let push = try await store.freezePush() else { return false }
            let answer = try await request(&patience) { [transport] in try await transport.push(push.batch, seen: push.seen) }
            switch answer.outcome {
            case .stale, .identityConflict, .gap, .partsMissing: return false
            case .wait(let milliseconds): try await waitForLease(milliseconds, &patience)
            case .accepted, .logRolledBack: _ = try await store.settle(answer, to: push)
            }
        }
        return true
    }
}
