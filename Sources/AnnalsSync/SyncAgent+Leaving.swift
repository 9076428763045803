public import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsWire

extension SyncAgent {
    /// Ends the store's membership in its space and notifies the relay, so that the relay does not keep the log for this
    /// replica. Rows and history stay.
    ///
    ///     let failure = try await agent.leave()
    ///
    /// - Parameter force: leaves even if data is lost by it; see `Store.leave(force:)`.
    /// - Returns: nil if the relay was notified, otherwise the reason why not. The store has left in both cases. A relay
    ///   that was not notified keeps the log for the replica until it was not seen for 30 days, or until an operator
    ///   retires it.
    /// - Throws: `AnnalsError`, as `Store.leave(force:)` does. Then nothing was changed.
    @discardableResult
    public func leave(force: Bool = false) async throws -> AnnalsError? {
        let state = try await store.replicaState()
        // If the space is not created yet, its relay does not know this replica.
        let isMember = try await store.creationStage() == nil
        try await store.leave(force: force)
        guard let state, isMember else { return nil }
        do {
            try await transport.retire(state.replica)
            return nil
        } catch {
            if error.code == .notFound || error.code == .spaceNotFound { return nil }
            return error.annalsError
        }
    }
}
