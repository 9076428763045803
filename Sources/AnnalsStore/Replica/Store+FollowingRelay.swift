package import AnnalsCore
import AnnalsHistory
package import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
package import AnnalsWire
import GRDB

extension Store {
    /// Where this store's log may part from a relay's, with the log's running digests there, oldest first. All that comes after each of
    /// these positions is kept here.
    package func recentLogMarks() async throws -> [LogMark] {
        try await translated("sync") {
            try await database.reading { db in
                guard let state = try ReplicaState.load(db) else { return [] }
                return try RecentEntries(db, state).marks()
            }
        }
    }

    /// Goes back to a position that the relay's log has, too: everything after it, which the relay lost, becomes work that waits to be
    /// sent, under the ids that its transactions have. Rows stay as they are.
    ///
    /// What another replica has sent again by then is known by these ids when it is pulled, and is not brought twice (merge rule 39).
    ///
    /// - Parameter mark: one of `recentLogMarks()`.
    /// - Throws: `AnnalsError.relayRolledBack` where what came after that position is not kept here, or cannot be sent again. No row and no
    ///   work was changed then.
    package func follow(_ mark: LogMark, head: Position) async throws -> FollowedRelay {
        // A push under way waits in the outbox, too, and what was kept for a migration may have to go into the rows first.
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
        // Where the space's schema went back, too, this offers what the store has more.
        return FollowedRelay(status: try await prepareOutbox(), position: mark.position, transactions: transactions)
    }
}
