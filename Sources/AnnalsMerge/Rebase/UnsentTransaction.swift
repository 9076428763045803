package import AnnalsCore

/// A transaction of the outbox, as the planner rebases it.
package struct UnsentTransaction {
    package var info: TransactionInfo
    package var changes: [TableChange]
    /// The journal entries of its earlier rebases.
    package var journal: [JournalEntry]
    /// The whole row of a change, by the index of the change, if a policy resolves the row as a whole.
    package var wholeRows: [Int: WholeRow]

    package init(info: TransactionInfo, changes: [TableChange], journal: [JournalEntry] = [], wholeRows: [Int: WholeRow] = [:]) {
        self.info = info
        self.changes = changes
        self.journal = journal
        self.wholeRows = wholeRows
    }
}

/// One row's change with its table, as the merge rules see it.
package struct TableChange {
    package var table: String
    package var change: RowChange
    package var mark: RowMark?
    /// How long before the transaction's time the row was written last, in milliseconds.
    package var age: Int64

    package init(table: String, change: RowChange, mark: RowMark? = nil, age: Int64 = 0) {
        self.table = table
        self.change = change
        self.mark = mark
        self.age = age
    }
}

/// A row as the author of a transaction found and left it.
package struct WholeRow {
    package var before: [Value]
    package var after: [Value]

    package init(before: [Value], after: [Value]) {
        self.before = before
        self.after = after
    }
}
