import AnnalsCore
import AnnalsWire

/// A local transaction that the space has not ordered yet, as a rebase works on it.
struct OutboxTransaction {
    /// Its place in the outbox, in local order.
    var sequence: Int64
    var info: TransactionInfo
    var changes: [TableChange]
    var journal: [JournalEntry]
}

/// One row's change with its table, as the merge rules see it.
struct TableChange {
    var table: String
    var change: RowChange
    var mark: RowMark?
}
