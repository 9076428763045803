package import AnnalsCore
package import AnnalsMerge
package import AnnalsRows
package import AnnalsWire

/// A transaction of the outbox, as a rebase uses it.
package struct OutboxTransaction {
    /// Its number in the outbox, in local order.
    package var sequence: Int64
    package var info: TransactionInfo
    package var changes: [TableChange]
    package var journal: [JournalEntry]
    package var decisions: UserDecisions
    /// The schema entry that it carries.
    package var schema: SchemaEntry?
    /// The whole rows before and after the transaction, by the index of the change. Only if a policy settles rows as a whole.
    var wholeRows: [Int: WholeRow] = [:]

    /// A transaction that was never in the outbox.
    package init(info: TransactionInfo, changes: [TableChange]) {
        sequence = 0
        self.info = info
        self.changes = changes
        journal = []
        decisions = UserDecisions()
    }

    /// The changes use the current tables and columns, also if these had other names when the outbox was filled.
    package init(_ row: Outbox.Row, _ content: TransactionParts, _ session: MergeSession) throws {
        sequence = row.sequence
        info = try content.info()
        var changes: [TableChange] = []
        var journal: [JournalEntry] = []
        var last: (layout: TableLayout, table: RowTable, inUse: LayoutInUse)?
        try content.forEachChange { layout, change in
            if try last?.layout != layout && session.ignores(layout.name) { return }
            let known = last?.layout == layout ? last : nil
            let table = try known?.table ?? session.table(first: layout.name)
            let inUse = try known?.inUse ?? session.layoutInUse(layout, in: table)
            last = (layout, table, inUse)
            let (mark, age) = (change.mark.map(inUse.translated), change.age)
            let change = inUse.isSame ? change.change : inUse.translated(change.change)
            // An update of columns that this store has removed since.
            if case .update(_, let columns) = change, columns.isEmpty { return }
            changes.append(TableChange(table: table.name, change: change, mark: mark, age: age))
        }
        let rest = try content.rest { entries, _ in journal += try entries.filter { try !session.ignores($0.table) } }
        decisions = UserDecisions(rest)
        schema = rest.schema
        self.changes = changes
        self.journal = journal
    }
}
