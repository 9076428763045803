import AnnalsCore
package import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// The position of sync in history. Transactions that are not pushed yet must not be purged.
package enum PushPlace {
    /// The last transaction before the oldest own transaction that the relay has not accepted; nil if the store is not joined.
    ///
    /// Outbox rows have the ids of their transactions in history. The search goes from the newest transaction back to the oldest of
    /// these.
    package static func number(_ db: Database, _ bounds: HistoryBounds) throws -> Int64? {
        guard try ReplicaState.load(db) != nil else { return nil }
        let own = [TransactionOrigin.local, .external, .migration].map { String($0.rawValue) }.joined(separator: ", ")
        let moved = try Meta(db).integer(.outboxed) ?? 0
        let unmoved = try Int64.fetchOne(
            db, sql: "SELECT min(number) FROM main.annals_transactions WHERE number > ? AND origin IN (\(own))", arguments: [moved])
        let outbox = try GRDB.Row.fetchOne(db, sql: "SELECT id FROM annals_outbox ORDER BY sequence LIMIT 1")
        guard let id: GRDB.DatabaseValue = outbox?["id"] else { return unmoved.map { $0 - 1 } ?? bounds.latest.number }
        let oldest = try Int64.fetchOne(
            db,
            sql: """
                SELECT number FROM main.annals_transactions
                WHERE number > ? AND id = ? AND origin IN (\(own)) ORDER BY number DESC LIMIT 1
                """,
            arguments: [bounds.oldest.number, id])
        return (oldest ?? bounds.oldest.number + 1) - 1
    }
}
