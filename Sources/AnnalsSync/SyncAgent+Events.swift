import AnnalsCore
import AnnalsStore

extension SyncAgent {
    /// What the agent does, from now on; see `SyncEvent`.
    ///
    /// Each call makes a sequence of its own, for one task, which ends with that task or with the agent. A listener who is busy
    /// misses the oldest of more than 64.
    public nonisolated var events: AsyncStream<SyncEvent> { board.listen() }

    /// Returns when the store holds what the space held when the store came to it: at once where that was long ago, in another
    /// process, or where the space was made from this store.
    ///
    ///     let agent = try SyncAgent(store: store, joining: address, existing: .sameKey)
    ///     async let _: Void = agent.run()
    ///     try await agent.waitForInitialImport()
    ///     // From here on an empty list means that there is nothing.
    ///
    /// Something else has to run the agent. No relay is asked, so it works without one where the import is done.
    ///
    /// - Throws: `CancellationError`; the `AnnalsError` that keeps the store from joining, where trying again does not help.
    public nonisolated func waitForInitialImport() async throws {
        let events = board.listen()
        do {
            if try await isInitialImportDone() { return }
            for await event in events where event.hasEnded {
                if try await isInitialImportDone() { return }
                if let error = event.error, !error.isRetryable, error.code != .cancelled { throw error }
            }
        } catch let error as AnnalsError where error.code == .cancelled {
            throw CancellationError()
        }
        throw CancellationError()
    }

    /// A store becomes a replica in the SQLite transaction that brings it the space's rows at the head of then, or, of a space
    /// that it makes itself, when that is done. So there is nothing to note down.
    private nonisolated func isInitialImportDone() async throws -> Bool {
        guard try await store.replicaState() != nil else { return false }
        return try await store.creationStage() == nil
    }

    // MARK: Pausing

    /// Has `run` keep still until `resume`: for a network that costs, or an app in the background.
    ///
    /// An exchange that is under way is completed; a request that waits for news is given up. `sync` goes on to do what it is told,
    /// as for a user who pulls to refresh.
    public nonisolated func pause() { gate.set(isPaused: true) }

    /// Has `run` go on, with an exchange at once, however long it would have waited for a relay that was away.
    public nonisolated func resume() { gate.set(isPaused: false) }

    public nonisolated var isPaused: Bool { gate.isPaused }
}
