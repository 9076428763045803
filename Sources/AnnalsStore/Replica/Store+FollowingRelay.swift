package import AnnalsCore
import AnnalsHistory
package import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
import GRDB

extension Store {
    /// Positions at which this store's log may diverge from the relay's, with the log's running digests, oldest first. The store
    /// has all entries after each of these positions.
    package func recentLogMarks() async throws -> [LogMark] {
        try await translated("sync") {
            try await database.reading { db in
                guard let state = try ReplicaState.load(db) else { return [] }
                return try RecentEntries(db, state).marks()
            }
        }
    }

    /// Goes back to a position that the relay's log also has. All later entries, which the relay lost, become outbox transactions
    /// again, under their own ids. Rows do not change.
    ///
    /// If another replica sends some of these transactions again first, their ids identify them when they are pulled, so that each
    /// is in the log once (merge rule 39).
    ///
    /// - Parameter mark: one of `recentLogMarks()`.
    /// - Throws: `AnnalsError.relayRolledBack` if the store does not have the entries after that position, or cannot send them
    ///   again. No row and no transaction was changed then.
    package func follow(_ mark: LogMark, head: Position) async throws -> FollowedRelay {
        // A push under way is in the outbox too. Deferred cells may have to be applied first.
        try await managed("sync") { db, _ in try Push.thaw(db) }
        _ = try await prepareOutbox()
        let transactions = try await managed("sync") { db, step in
            try step.recordExternal()
            try step.schemaComparison()
            try UnverifiedRows.check(db)
            try step.filler().fill()
            var following = try FollowingRelay(db, step)
            let transactions = try following.run(mark, head: head)
            step.forgetComparison()
            return transactions
        }
        // If the space's schema went back too, this adds schema entries for what the store has in addition.
        return FollowedRelay(status: try await prepareOutbox(), position: mark.position, transactions: transactions)
    }
}
