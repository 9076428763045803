import AnnalsCore
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
    ///   was purged, or a table was rebuilt or compared with the space since, `conflict` for a serializable transaction that was
    ///   withdrawn, and `usage` for a transaction of another replica, and for one from before the store joined an existing space.
    public func confirm(_ token: HistoryToken) async throws -> OrderedTransaction {
        let progress = try await settle { [store] () -> TransactionProgress? in
            let progress = try await store.progress(of: token)
            if case .waiting = progress { return nil }
            return progress
        }
        guard let ordered = progress.ordered else {
            throw AnnalsError(.conflict, operation: "sync", "the transaction was serializable, and it was withdrawn")
        }
        return ordered
    }

    /// Syncs until a transaction does not wait any more.
    ///
    /// - Parameter find: what became of it; nil while it waits.
    private func settle<Progress: Sendable>(_ find: @Sendable () async throws -> Progress?) async throws -> Progress {
        var backoff = Backoff()
        for _ in 0..<SyncLimits.exchangesToConfirm {
            if let progress = try await find() { return progress }
            do {
                let summary = try await sync()
                if let progress = try await find() { return progress }
                if summary.isWaitingForMigration { throw Self.waitingForMigration }
            } catch let error as AnnalsError {
                // The error may be about a later transaction.
                if let progress = try await find() { return progress }
                // Another exchange of this store is under way.
                guard error.code == .busy else { throw error }
            }
            try await environment.pause(backoff.next(random: environment.random))
        }
        throw AnnalsError(
            .busy, operation: "sync", "the transaction is not ordered yet, after \(SyncLimits.exchangesToConfirm) exchanges with the relay",
            hint: "Sync again", isRetryable: true)
    }

    private static var waitingForMigration: AnnalsError {
        AnnalsError(
            .waitingForMigration, operation: "sync", "the transaction waits in the outbox for a migration of this store",
            hint: "Migrate the store to the space's schema, and sync again")
    }

    /// Writes one transaction that is serializable in the whole space: it is ordered directly on the state that the closure read. If
    /// another replica meanwhile wrote to a table that the closure read or wrote, the write is withdrawn, and the closure runs again on
    /// the new state.
    ///
    ///     let seat = try await agent.serializable(author: "till 3") { db in
    ///         guard let seat = try Seat.filter(Column("guest") == nil).fetchOne(db) else { throw SoldOut() }
    ///         try db.execute(sql: "UPDATE seat SET guest = 'Vera' WHERE id = ?", arguments: [seat.id])
    ///         return seat.id
    ///     }
    ///
    /// So a rule that the closure checks, such as "no more than 100 guests", holds in the space, as far as all writers that can break
    /// it write in this way. `run` may sync the store meanwhile.
    ///
    /// - It needs the relay. If the relay cannot be reached or refuses the write, nothing stays written. Only if the relay's answer
    ///   is lost, the write waits, and a later sync gets the answer: the write is then accepted or withdrawn.
    /// - Before the relay's answer, the write is in this file. Readers, lists and history see it, and history keeps withdrawn runs
    ///   with the transactions that undid them.
    /// - A withdrawal undoes the rows of tracked tables. What the closure does to other tables, or to the schema, stays.
    /// - The tables of foreign keys and triggers count as read. If the closure or a trigger reads a table without history, such as a
    ///   full-text index, or if the closure changes the schema, any write of another replica withdraws it. What an SQL function of the
    ///   app reads by itself does not count.
    /// - The call ends a trace that the app has set on the connection, and sets the one of `Store.Configuration.trace` again.
    /// - The relay keeps other replicas waiting for up to two seconds while it is repeated, and those that wrote to its tables meanwhile
    ///   rebase their unsent work on it.
    ///
    /// - Parameters:
    ///   - author: the author of the transaction.
    ///   - contextName: the context of the transaction.
    ///   - updates: may run several times, and must change nothing but rows of tracked tables.
    /// - Returns: the closure's result of the run that counts. A run that changes nothing counts at once; it has read all that the
    ///   relay had accepted before the call.
    /// - Throws: Errors of `updates` unchanged; then nothing is written. `AnnalsError` as `sync` and `Store.write`; `busy` if another
    ///   serializable write of this store waits, or if each run was withdrawn; `conflict` if the write is in the space, but perhaps
    ///   after transactions that the closure did not see, because another copy of the file sent it or a tool rebuilt its table.
    public func serializable<T: Sendable>(
        author: String? = nil, contextName: String? = nil, _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        for run in 1...SyncLimits.runsToSerialize {
            if try await sync().isWaitingForMigration { throw Self.waitingForMigration }
            let (value, number) = try await store.serializableTransaction(author: author, contextName: contextName, updates)
            guard let number else { return value }
            switch try await outcome(ofSerializable: number) {
            case .ordered: return value
            case .withdrawn: break
            case .merged:
                throw AnnalsError(
                    .conflict, operation: "write",
                    "the write is in the space, or will be sent, perhaps after transactions that it did not see",
                    hint: "Read the rows again")
            }
            // Replicas that write at the same time do not begin again at the same time.
            try await environment.pause(SyncLimits.pauseToSerialize * (Double(run) * environment.random()))
        }
        throw AnnalsError(
            .busy, operation: "write",
            "each of \(SyncLimits.runsToSerialize) attempts was withdrawn, because other replicas wrote first; nothing was written",
            hint: "Try again", isRetryable: true)
    }

    /// If the write cannot be sent, it is withdrawn. A write whose answer was lost waits.
    private func outcome(ofSerializable number: Int64) async throws -> SerializableTable.Outcome {
        do {
            return try await settle { [store] in try await store.outcome(ofSerializable: number) }
        } catch {
            // Also if this task was cancelled.
            let outcome = try? await Task { [store] in try await store.withdrawSerializable(number) }.value
            guard let outcome = outcome.flatMap(\.self), outcome != .withdrawn else { throw error }
            return outcome
        }
    }
}
