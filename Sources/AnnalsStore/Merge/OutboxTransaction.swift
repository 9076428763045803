import AnnalsCore
import AnnalsWire

/// A local transaction that the space has not ordered yet, as a rebase works on it.
struct OutboxTransaction {
    /// Its place in the outbox, in local order.
    var sequence: Int64
    var info: TransactionInfo
    var changes: [TableChange]
    var journal: [JournalEntry]
    var decisions: HumanDecisions
    /// By the number of a change: its row as the author found and left it, where a policy settles rows as a whole.
    var wholeRows: [Int: WholeRow] = [:]

    struct WholeRow {
        var before: [Value]
        var after: [Value]
    }

    /// One that was never in the outbox.
    init(info: TransactionInfo, changes: [TableChange]) {
        sequence = 0
        self.info = info
        self.changes = changes
        journal = []
        decisions = HumanDecisions()
    }

    init(_ row: Outbox.Row, _ content: TransactionParts) throws {
        sequence = row.sequence
        info = try content.info()
        var changes: [TableChange] = []
        var journal: [JournalEntry] = []
        try content.forEachChange { layout, change in
            changes.append(TableChange(table: layout.name, change: change.change, mark: change.mark))
        }
        decisions = HumanDecisions(try content.rest { entries, _ in journal += entries })
        self.changes = changes
        self.journal = journal
    }
}

/// One row's change with its table, as the merge rules see it.
struct TableChange {
    var table: String
    var change: RowChange
    var mark: RowMark?
}
