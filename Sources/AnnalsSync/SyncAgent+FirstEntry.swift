import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsWire

extension SyncAgent {
    /// Sends the entry with which a space begins, as often as it takes, unless another store's is taken over.
    ///
    /// - Returns: false when the log begins with another store's entry.
    /// - Throws: `AnnalsError`; the same entry is sent again the next time.
    func pushFirstEntry() async throws -> Bool {
        var patience = ExchangePatience()
        while let state = try await store.replicaState(), state.lastCounter == .zero, state.position == .zero {
            try await pauseForRound(&patience) { Self.refusal(of: 1) }
            guard let push = try await store.freezePush() else { return false }
            let answer = try await request(&patience) { [transport] in try await transport.push(push.batch, seen: push.seen) }
            switch answer.outcome {
            case .stale, .identityConflict, .gap, .partsMissing: return false
            case .wait(let milliseconds): try await waitForTurn(milliseconds, &patience)
            case .accepted, .wentBack: _ = try await store.settle(answer, to: push)
            }
        }
        return true
    }
}
