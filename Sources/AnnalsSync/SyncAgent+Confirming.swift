public import AnnalsCore
public import AnnalsHistory
public import AnnalsStore
public import GRDB

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
        guard let ordered = try await settle(token).ordered else {
            throw AnnalsError(
                .conflict, operation: "sync", "the transaction was serializable, and was withdrawn because others wrote first")
        }
        return ordered
    }

    /// Syncs until a transaction does not wait any more.
    private func settle(_ token: HistoryToken) async throws -> TransactionProgress {
        var backoff = Backoff()
        for _ in 0..<SyncLimits.exchangesToConfirm {
            if let settled = try await settled(token) { return settled }
            do {
                let summary = try await sync()
                if let settled = try await settled(token) { return settled }
                if summary.isWaitingForMigration { throw Self.waitingForMigration }
            } catch let error as AnnalsError {
                // The error may be about a later transaction.
                if let settled = try await settled(token) { return settled }
                // Another exchange of this store is under way.
                guard error.code == .busy else { throw error }
            }
            try await environment.pause(backoff.next(random: environment.random))
        }
        throw AnnalsError(
            .busy, operation: "sync", "the transaction is not ordered yet, after \(SyncLimits.exchangesToConfirm) exchanges with the relay",
            hint: "Nothing is lost. Call confirm again", isRetryable: true)
    }

    private func settled(_ token: HistoryToken) async throws -> TransactionProgress? {
        let progress = try await store.progress(of: token)
        if case .waiting = progress { return nil }
        return progress
    }

    private static var waitingForMigration: AnnalsError {
        AnnalsError(
            .waitingForMigration, operation: "sync", "the transaction waits in the outbox for a migration of this store",
            hint: "Migrate the store to the space's schema, and sync again")
    }

    /// Writes one transaction that is serializable in the whole space: it is ordered directly on the state that the closure read. If
    /// another replica wrote anything meanwhile, the write is withdrawn, and the closure runs again on the new state.
    ///
    ///     let seat = try await agent.serializable(author: "till 3") { db in
    ///         guard let seat = try Seat.filter(Column("guest") == nil).fetchOne(db) else { throw SoldOut() }
    ///         try db.execute(sql: "UPDATE seat SET guest = 'Vera' WHERE id = ?", arguments: [seat.id])
    ///         return seat.id
    ///     }
    ///
    /// So a rule that the closure checks, such as "no more than 100 guests", holds in the space, as far as all writers that can break
    /// it write in this way. It needs the relay: without it, nothing is written. Before the relay's answer, the write is in this file,
    /// and readers of the file see it. The more the others write, the more often the closure runs. `run` may sync the store meanwhile.
    ///
    /// - Parameters:
    ///   - author: the author of the transaction.
    ///   - contextName: the context of the transaction.
    ///   - updates: may run several times, and must not change anything outside of the database.
    /// - Returns: the closure's result of the run that counts. A run that changes nothing counts at once; it has read all that the
    ///   relay had accepted before the call.
    /// - Throws: Errors of `updates` unchanged; then nothing is written. `AnnalsError` as `sync` and `Store.write`, and `busy` if
    ///   another serializable write of this store waits, or if others wrote before each of its runs. If the relay's answer is lost,
    ///   a later sync gets it: the write is then accepted or withdrawn.
    public func serializable<T: Sendable>(
        author: String? = nil, contextName: String? = nil, _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        for run in 1...SyncLimits.runsToSerialize {
            if try await sync().isWaitingForMigration { throw Self.waitingForMigration }
            let (value, token) = try await store.serializableTransaction(author: author, contextName: contextName, updates)
            guard let token, case .withdrawn = try await settle(token) else { return value }
            // Replicas that write at the same time do not begin again at the same time.
            try await environment.pause(SyncLimits.pauseToSerialize * (Double(run) * environment.random()))
        }
        throw AnnalsError(
            .busy, operation: "write", "other replicas wrote before each of \(SyncLimits.runsToSerialize) attempts; nothing was written",
            hint: "Try again", isRetryable: true)
    }
}
