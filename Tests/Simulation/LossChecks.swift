import AnnalsCore

/// Law 5, rule 34: after a rebase every value that a transaction asked for is in its row or in the journal, and so is
/// every value that was there before and is no more, unless its author had seen it go.
struct LossChecks {
    let schema: Schema
    let rebase: Rebase

    func run() throws(Violation) {
        var rows = rebase.start
        var names = NameBook(schema: schema)
        for entry in rebase.pulled { names.note(entry.changes) }
        for rewrite in rebase.rewrites {
            for line in rewrite.journal where line.kind == .renumber {
                guard let table = schema.table(line.table), let now = line.incoming else { continue }
                names.note(table, line.key.map { Cell($0) }, isNow: now.map { Cell($0) })
            }
            let before = rows
            try rows.apply(rewrite.changes, schema)
            names.note(rewrite.before.changes.filter { !$0.isDelete })
            names.note(rewrite.changes.filter { !$0.isDelete })
            for change in rewrite.before.changes { try checkAsked(change, rewrite, rows, names) }
            guard rewrite.isExact else { continue }
            for difference in before.differences(to: rows) { try checkLost(difference, rewrite, names) }
        }
    }

    // MARK: (a) What was asked for

    private func checkAsked(_ change: Change, _ rewrite: Rebase.Rewrite, _ rows: Rows, _ names: NameBook) throws(Violation) {
        guard let table = schema.table(change.table) else { return }
        switch change.kind {
        case .insert(let row):
            let keys = names.candidates(table, table.key.map { row[$0] })
            for (place, value) in row.enumerated() { try check(table, keys, place, value, change, rewrite, rows, names) }
        case .update(let key, let cells):
            var keys = names.candidates(table, key)
            var moved = key
            for cell in cells { if let part = table.key.firstIndex(of: cell.column) { moved[part] = cell.new } }
            keys += names.candidates(table, moved)
            for cell in cells { try check(table, keys, cell.column, cell.new, change, rewrite, rows, names) }
        case .delete(let row):
            let key = table.key.map { row[$0] }
            if names.isGone(table, key) || rows.row(table, key) == nil { return }
            if rewrite.journal.contains(where: { $0.table == table.name && $0.winner == .stored }) { return }
            throw lost(rewrite, "\(change.text): the row is there, and the journal does not say why")
        }
    }

    private func check(
        _ table: Table, _ keys: [[Cell]], _ place: Int, _ value: Cell, _ change: Change, _ rewrite: Rebase.Rewrite, _ rows: Rows,
        _ names: NameBook
    ) throws(Violation) {
        for key in keys {
            guard let row = rows.rows(of: table.name)[key] else { continue }
            if row[place] == value || isRenamed(table, place, value, now: row[place], names) { return }
        }
        if rewrite.journal.contains(where: { holds($0, table, place, value, in: \.incoming) }) { return }
        throw lost(rewrite, "\(change.text): \(table.columns[place].name) = \(value.literal) is neither in the row nor in the journal")
    }

    /// A reference follows its parent, and a key that is a reference does too.
    private func isRenamed(_ table: Table, _ place: Int, _ value: Cell, now: Cell, _ names: NameBook) -> Bool {
        table.references.contains { reference in
            guard let part = reference.columns.firstIndex(of: place), let parent = schema.table(reference.parent) else { return false }
            // The other parts of the parent's key are not at hand; whoever was renamed to this part will do.
            return names.renamed(parent, part, value).contains(reference.collations[part].folded(now))
        }
    }

    // MARK: (b) What was there

    private func checkLost(_ difference: Difference, _ rewrite: Rebase.Rewrite, _ names: NameBook) throws(Violation) {
        guard let table = schema.table(difference.table), let old = difference.old else { return }
        for (place, value) in old.enumerated() {
            if let new = difference.new, new[place] == value { continue }
            if value.isNull { continue }
            if hasSeen(table, difference.key, place, value, rewrite, names) { continue }
            if let new = difference.new, isRenamed(table, place, value, now: new[place], names) { continue }
            if rewrite.journal.contains(where: { holds($0, table, place, value, in: \.stored) }) { continue }
            throw lost(rewrite, "\(difference.text): \(table.columns[place].name) = \(value.literal) is gone, unseen and not in the journal")
        }
    }

    /// Whether the author asked for this very value's end.
    private func hasSeen(
        _ table: Table, _ key: [Cell], _ place: Int, _ value: Cell, _ rewrite: Rebase.Rewrite, _ names: NameBook
    ) -> Bool {
        rewrite.before.changes.contains { change in
            guard change.table == table.name else { return false }
            switch change.kind {
            case .insert: return false
            case .delete(let row):
                // The key may be another by now, because the row was renumbered before.
                let isMeant = table.key.contains(place) && names.candidates(table, table.key.map { row[$0] }).contains(key)
                return row[place] == value || isMeant
            // Whoever moves a row takes along all that is in it.
            case .update(_, let cells):
                return cells.contains { $0.column == place && $0.old == value } || cells.contains { table.key.contains($0.column) }
            }
        }
    }

    // MARK: The journal

    private func holds(
        _ line: JournalEntry, _ table: Table, _ place: Int, _ value: Cell, in side: KeyPath<JournalEntry, [Value]?>
    ) -> Bool {
        guard line.table == table.name, let values = line[keyPath: side] else { return false }
        if line.columns.isEmpty { return values.indices.contains(place) && Cell(values[place]) == value }
        guard let number = line.columns.firstIndex(of: table.columns[place].name), values.indices.contains(number) else { return false }
        return Cell(values[number]) == value
    }

    private func lost(_ rewrite: Rebase.Rewrite, _ text: String) -> Violation {
        let after = rewrite.changes.map(\.text)
        let journal = rewrite.journal.map { "\($0.kind) \($0.table) \($0.columns) \($0.winner) wins" }
        return Violation("law 5", "\(text); left of the transaction: \(after), journal: \(journal)")
    }
}

extension Change {
    var isDelete: Bool {
        if case .delete = kind { true } else { false }
    }
}
