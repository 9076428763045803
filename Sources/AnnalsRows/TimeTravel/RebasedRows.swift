import AnnalsHistory
import AnnalsSchema
import GRDB

/// The rows that rebases of this replica changed after a transaction.
///
/// A rebase undoes own work, applies the work of others and repeats the own work. So a row can have the value that a transaction wrote,
/// although others changed the row in between, and the old value of the transaction is not the one to return to. The transaction of
/// the rebase has the right one.
struct RebasedRows {
    /// Hashes, because there may be many rows. Two rows with one hash only cause a refusal.
    private var rows: Set<Int> = []

    /// - Parameter number: a transaction; rebases after it count.
    init(_ db: Database, _ changes: NetChanges, after number: Int64) throws {
        for rebase in try TransactionTable(db).numbers(of: .rebase, after: number) {
            for part in try changes.parts(of: rebase) {
                try changes.forEachRow(in: part) { change in
                    for hash in Self.hashes(change, part.entry) { rows.insert(hash) }
                }
            }
        }
    }

    func hold(_ change: NetChange, of entry: TrackedTables.Entry) -> Bool {
        !rows.isEmpty && Self.hashes(change, entry).contains(where: rows.contains)
    }

    private static func hashes(_ change: NetChange, _ entry: TrackedTables.Entry) -> [Int] {
        let rule = IdentityRule(entry.definition)
        return [change.old, change.new].compactMap { row in
            row.map { row in
                var hasher = Hasher()
                hasher.combine(entry.id)
                hasher.combine(rule.identity(of: row))
                return hasher.finalize()
            }
        }
    }
}
