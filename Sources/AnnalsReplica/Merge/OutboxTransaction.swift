package import AnnalsCore
package import AnnalsMerge
package import AnnalsRows
package import AnnalsWire

/// A local transaction that the space has not ordered yet, as a rebase works on it.
package struct OutboxTransaction {
    /// Its place in the outbox, in local order.
    package var sequence: Int64
    package var info: TransactionInfo
    package var changes: [TableChange]
    package var journal: [JournalEntry]
    package var decisions: UserDecisions
    /// What it adds to the space's schema.
    package var schema: SchemaEntry?
    /// By the number of a change: its row as the author found and left it, where a policy settles rows as a whole.
    var wholeRows: [Int: WholeRow] = [:]

    /// One that was never in the outbox.
    package init(info: TransactionInfo, changes: [TableChange]) {
        sequence = 0
        self.info = info
        self.changes = changes
        journal = []
        decisions = UserDecisions()
    }

    /// Changes are in the tables and columns as they are called now, whichever they had when the outbox was filled.
    package init(_ row: Outbox.Row, _ content: TransactionParts, _ session: MergeSession) throws {
        sequence = row.sequence
        info = try content.info()
        var changes: [TableChange] = []
        var journal: [JournalEntry] = []
        var last: (layout: TableLayout, table: RowTable, inUse: LayoutInUse)?
        try content.forEachChange { layout, change in
            let known = last?.layout == layout ? last : nil
            let table = try known?.table ?? session.table(first: layout.name)
            let inUse = try known?.inUse ?? session.layoutInUse(layout, in: table)
            last = (layout, table, inUse)
            let (change, mark) = (inUse.isSame ? change.change : inUse.translated(change.change), change.mark.map(inUse.translated))
            changes.append(TableChange(table: table.name, change: change, mark: mark))
        }
        let rest = try content.rest { entries, _ in journal += entries }
        decisions = UserDecisions(rest)
        schema = rest.schema
        self.changes = changes
        self.journal = journal
    }
}
