public import AnnalsCore
public import AnnalsHistory
public import AnnalsStore

extension SyncAgent {
    /// Syncs until the space has ordered a transaction of this store, and says what became of it.
    ///
    ///     let saved = try await context.save()
    ///     if let token = saved.token, try await !agent.confirm(token).isAsWritten { showConflicts() }
    ///
    /// The transaction is in the space's log then, in the form in which every replica applies it. It is confirmed even if a later
    /// transaction is refused, and without a request if the relay has accepted it already. `run` may sync the store meanwhile.
    ///
    /// - Parameter token: the point after the transaction: `SavedEdits.token`, or the token of `Store.transaction`.
    /// - Throws: `AnnalsError`. As `sync` if the transaction cannot be sent; it stays in the outbox, and the call can be repeated.
    ///   `waitingForMigration` if the store must migrate first, `tokenUnknown` for a token of another store, `tokenExpired` if history
    ///   was purged or a table was rebuilt since, and `usage` for a transaction of another replica, and for one from before the store
    ///   joined an existing space.
    public func confirm(_ token: HistoryToken) async throws -> OrderedTransaction {
        var backoff = Backoff()
        for _ in 0..<SyncLimits.exchangesToConfirm {
            if let ordered = try await store.ordered(token) { return ordered }
            do {
                let summary = try await sync()
                if let ordered = try await store.ordered(token) { return ordered }
                if summary.isWaitingForMigration { throw Self.waitingForMigration }
            } catch let error as AnnalsError {
                // The error may be about a later transaction.
                if let ordered = try await store.ordered(token) { return ordered }
                // Another exchange of this store is under way.
                guard error.code == .busy else { throw error }
            }
            try await environment.pause(backoff.next(random: environment.random))
        }
        throw AnnalsError(
            .busy, operation: "sync", "the transaction is not ordered yet, after \(SyncLimits.exchangesToConfirm) exchanges with the relay",
            hint: "Nothing is lost. Call confirm again", isRetryable: true)
    }

    private static var waitingForMigration: AnnalsError {
        AnnalsError(
            .waitingForMigration, operation: "sync", "the transaction waits in the outbox for a migration of this store",
            hint: "Migrate the store to the space's schema, and call confirm again")
    }
}
