import AnnalsCore
package import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// The agent's place in history: what it has not pushed yet must not be purged.
package enum PushPlace {
    /// The last transaction before the first of this store's own that the space has not ordered yet; nil when the store is
    /// not joined.
    ///
    /// Outbox rows keep the id under which history has them. Looks back from history's end as far as the oldest of them.
    package static func number(_ db: Database, _ bounds: HistoryBounds) throws -> Int64? {
        guard try ReplicaState.load(db) != nil else { return nil }
        let transactions = TransactionTable(db)
        let unmoved = try transactions.oldestOwn(after: Meta(db).integer(.outboxed) ?? 0)
        guard let id = try Outbox.firstID(db) else { return unmoved.map { $0 - 1 } ?? bounds.latest.number }
        let oldest = try transactions.newestOwn(id, after: bounds.oldest.number)
        return (oldest ?? bounds.oldest.number + 1) - 1
    }
}
