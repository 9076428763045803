public import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsWire

extension SyncAgent {
    /// Ends the store's membership of its space, and tells the relay, which then does not keep the log for this replica. Rows and history
    /// stay.
    ///
    ///     let untold = try await agent.leave()
    ///
    /// - Parameter force: also where something is lost by it; see `Store.leave(force:)`.
    /// - Returns: nil where the relay knows; otherwise why it could not be told. The store has left all the same, and the relay keeps the
    ///   log for the replica until it was not seen for 30 days, or an operator retires it.
    /// - Throws: `AnnalsError`, as `Store.leave(force:)` does; nothing was changed then.
    @discardableResult
    public func leave(force: Bool = false) async throws -> AnnalsError? {
        let state = try await store.replicaState()
        // The relay of a space that is not made yet knows no replica of it.
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
