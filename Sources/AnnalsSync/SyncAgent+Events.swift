import AnnalsCore
import AnnalsStore

extension SyncAgent {
    /// The agent's events from now on; see `SyncEvent`.
    ///
    /// Each call returns a separate sequence for one task. It ends with that task or with the agent. If more than 64
    /// events wait for a slow listener, the oldest are dropped.
    public nonisolated var events: AsyncStream<SyncEvent> { board.listen() }

    /// Returns when the store has the rows that the space had when the store joined. It returns at once if that
    /// happened earlier, even in another process, or if the space was created from this store.
    ///
    ///     let agent = try SyncAgent(store: store, joining: address, existing: .sameKey)
    ///     async let _: Void = agent.run()
    ///     try await agent.waitForInitialImport()
    ///     // From here on an empty list means that there is nothing.
    ///
    /// Something else must run the agent. This method sends no request, so it also works without a relay after the
    /// import.
    ///
    /// - Throws: `CancellationError`, or the `AnnalsError` that prevents the join, if a retry cannot help.
    public nonisolated func waitForInitialImport() async throws {
        let events = board.listen()
        if try await isInitialImportDone() { return }
        for await event in events where event.hasEnded {
            if try await isInitialImportDone() { return }
            if let error = event.error, !error.isRetryable, error.code != .cancelled { throw error }
        }
        throw CancellationError()
    }

    /// A store becomes a replica in the same SQLite transaction that imports the space's rows. If the store creates the
    /// space, it becomes a replica at the end of that. So no extra record is necessary.
    private nonisolated func isInitialImportDone() async throws -> Bool {
        guard try await store.replicaState() != nil else { return false }
        return try await store.creationStage() == nil
    }

    // MARK: Pausing

    /// Pauses `run` until `resume`, for example on an expensive network or when the app is in the background.
    ///
    /// An exchange that is under way is completed. A request that waits for new entries is cancelled. `sync` still
    /// works, for example when a user pulls to refresh.
    public nonisolated func pause() { gate.set(isPaused: true) }

    /// Resumes `run`, with an exchange at once, even if it was in a long pause because the relay was unreachable.
    public nonisolated func resume() { gate.set(isPaused: false) }

    public nonisolated var isPaused: Bool { gate.isPaused }
}
