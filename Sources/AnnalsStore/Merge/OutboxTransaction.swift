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

    init(_ row: Outbox.Row, layouts: [Int: TableLayout]) throws {
        var reader = try BodyReader(bytes: row.body)
        sequence = row.sequence
        info = reader.info
        changes = []
        for (reference, sectionChanges) in try decodeChanges(row.body) {
            guard let layout = layouts[reference] else { throw MergeError.unknownLayout(reference) }
            changes += sectionChanges.map { TableChange(table: layout.name, change: $0.change, mark: $0.mark) }
        }
        let rest = try reader.rest()
        journal = rest.journal
        decisions = HumanDecisions(rest)
    }
}

/// One row's change with its table, as the merge rules see it.
struct TableChange {
    var table: String
    var change: RowChange
    var mark: RowMark?
}
