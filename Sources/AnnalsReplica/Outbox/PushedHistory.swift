import AnnalsCore
package import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// The part of history that the relay has, or that is not sent to it. Later transactions must not be purged.
package enum PushedHistory {
    /// The last transaction before the oldest own transaction that the relay has not accepted; nil if the store is not joined.
    ///
    /// Outbox rows have the ids of their transactions in history. The search goes from the newest transaction back to the oldest of
    /// these.
    package static func end(_ db: Database, _ bounds: HistoryBounds) throws -> Int64? {
        guard try ReplicaState.load(db) != nil else { return nil }
        let transactions = TransactionTable(db)
        let unmoved = try transactions.oldestOwn(after: Meta(db).integer(.outboxed) ?? 0)
        guard let id = try Outbox.firstID(db) else { return unmoved.map { $0 - 1 } ?? bounds.latest.number }
        let oldest = try transactions.newestOwn(id, after: bounds.oldest.number)
        return (oldest ?? bounds.oldest.number + 1) - 1
    }
}
