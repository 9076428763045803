import AnnalsCore

/// Law 5, merge rule 34: after a rebase, every value that a transaction wrote is in its row or in the journal. The same applies to
/// every value that was in a row before and is not there now, unless the author had seen the value and removed it.
struct LossChecks {
    let schema: Schema
    let rebase: Rebase

    func run() throws(Violation) {
        var rows = rebase.start
        var names = NameBook(schema: schema)
        // The author's changes so far.
        var asked: [Change] = []
        for entry in rebase.pulled {
            names.note(others: entry.changes)
            guard let body = rebase.known[entry.info.id] else { continue }
            noteRenumbered(entry.journal.filter { !body.journal.contains($0) }, &names)
            names.note(asked: body.changes, done: [])
            asked += body.changes
        }
        var blurred: Set<String> = []
        for rewrite in rebase.rewrites {
            noteRenumbered(rewrite.journal, &names)
            noteDefaultedKeys(rewrite, &names)
            let before = rows
            try rows.apply(rewrite.changes, schema)
            asked += rewrite.before.changes
            let called = names
            names.note(asked: rewrite.before.changes, done: rewrite.changes)
            blurred.formUnion(rewrite.blurredTables)
            names.noteUnclear(rewrite.blurredTables)
            for change in rewrite.before.changes where !blurred.contains(change.table) && !isWithdrawn(change, asked) {
                try checkAsked(change, rewrite, rows, called, names)
            }
            guard rewrite.isExact else { continue }
            for change in rewrite.changes { try checkLost(change, before, rewrite, asked, names) }
        }
    }

    private func noteRenumbered(_ journal: [JournalEntry], _ names: inout NameBook) {
        for line in journal where line.kind == .renumber {
            guard let table = schema.table(line.table), let now = line.incoming else { continue }
            names.note(table, line.key.map { Cell($0) }, isNow: now.map { Cell($0) })
        }
    }

    /// The key of an inserted row changes if a part of the key is a reference and the journal has the result of this reference. Then
    /// the row is a new one, or the one that had the key.
    private func noteDefaultedKeys(_ rewrite: Rebase.Rewrite, _ names: inout NameBook) {
        for change in rewrite.before.changes {
            guard let table = schema.table(change.table), case .insert(let row) = change.kind else { continue }
            let key = table.key.map { row[$0] }
            var now = key
            for line in rewrite.journal where line.kind == .foreignKey && line.winner == .stored && line.key.map({ Cell($0) }) == key {
                for (part, columnIndex) in table.key.enumerated() where line.columns.contains(table.columns[columnIndex].name) {
                    if let stored = value(line, table, columnIndex, in: \.stored) { now[part] = stored }
                }
            }
            if now != key { names.note(table, key, isNow: now) }
        }
    }

    /// A delete of a row that its author inserted before deletes that row under its current key, and not the row that has the old
    /// key now. If the author moved another row to the old key, that row is kept.
    private func isWithdrawn(_ change: Change, _ asked: [Change]) -> Bool {
        guard let table = schema.table(change.table), case .delete(let row) = change.kind else { return false }
        return asked.contains { earlier in
            guard earlier.table == change.table else { return false }
            switch earlier.kind {
            case .insert(let inserted): return table.key(of: inserted) == table.key(of: row)
            case .update(_, let cells):
                return cells.contains { cell in
                    let collation = table.columns[cell.column].collation
                    return table.key.contains(cell.column) && collation.folded(cell.new) == collation.folded(row[cell.column])
                }
            case .delete: return false
            }
        }
    }

    // MARK: (a) The author's values

    /// `called` has the author's names of rows before this transaction, and `names` those after it.
    private func checkAsked(
        _ change: Change, _ rewrite: Rebase.Rewrite, _ rows: Rows, _ called: NameBook, _ names: NameBook
    ) throws(Violation) {
        guard let table = schema.table(change.table) else { return }
        switch change.kind {
        case .insert(let row):
            let key = table.key.map { row[$0] }
            let keys = names.candidates(table, key)
            for (columnIndex, value) in row.enumerated() where change.revived?.contains(where: { $0.column == columnIndex }) ?? true {
                try check(table, keys, columnIndex, value, change, rewrite, rows, names)
            }
        case .update(let key, let cells):
            var keys = called.candidates(table, key) + names.candidates(table, key)
            var moved = key
            for cell in cells { if let part = table.key.firstIndex(of: cell.column) { moved[part] = cell.new } }
            keys += names.candidates(table, moved)
            for cell in cells { try check(table, keys, cell.column, cell.new, change, rewrite, rows, names) }
        case .delete(let row):
            let key = table.key.map { row[$0] }
            if called.isGone(table, key) || rows.row(table, key) == nil { return }
            if rewrite.journal.contains(where: { $0.table == table.name && $0.winner == .stored }) { return }
            throw lost("delete", rewrite, "\(change.text): the row is there, and the journal does not say why")
        }
    }

    private func check(
        _ table: Table, _ keys: [[Cell]], _ columnIndex: Int, _ value: Cell, _ change: Change, _ rewrite: Rebase.Rewrite, _ rows: Rows,
        _ names: NameBook
    ) throws(Violation) {
        // Combined values are not lost.
        if !table.key.contains(columnIndex), rebase.policies.combines(table, columnIndex) { return }
        for key in keys {
            guard let row = rows.rows(of: table.name)[key] else { continue }
            if row[columnIndex] == value || isRenamed(table, columnIndex, value, now: row[columnIndex], names) { return }
        }
        let isNoted = rewrite.journal.contains { line in
            if line.kind == .renumber, self.value(line, table, columnIndex, in: \.stored) == value { return true }
            return self.value(line, table, columnIndex, in: \.incoming).map {
                $0 == value || isRenamed(table, columnIndex, value, now: $0, names)
            }
                ?? false
        }
        if isNoted { return }
        throw lost(
            table.key.contains(columnIndex) ? "key" : "asked", rewrite,
            "\(change.text): \(table.columns[columnIndex].name) = \(value.literal) is neither in the row nor in the journal")
    }

    /// A reference follows its parent, and so does a key that is a reference.
    private func isRenamed(_ table: Table, _ columnIndex: Int, _ value: Cell, now: Cell, _ names: NameBook) -> Bool {
        table.references.contains { reference in
            guard let part = reference.columns.firstIndex(of: columnIndex), let parent = schema.table(reference.parent) else {
                return false
            }
            if names.isUnclear(parent) { return true }
            let folded = reference.collations[part].folded(now)
            // The reference has its parent's spelling.
            if reference.collations[part].folded(value) == folded { return true }
            // The other parts of the parent's key are unknown here, so any row that was renamed to this part is accepted.
            return names.renamed(parent, part, value).contains(folded)
        }
    }

    // MARK: (b) The values before

    private func checkLost(
        _ change: Change, _ rows: Rows, _ rewrite: Rebase.Rewrite, _ asked: [Change], _ names: NameBook
    ) throws(Violation) {
        guard let table = schema.table(change.table) else { return }
        var lost: [(columnIndex: Int, old: Cell, new: Cell?)] = []
        let key: [Cell]
        switch change.kind {
        case .insert:
            return
        case .delete(let row):
            key = table.key.map { row[$0] }
            lost = row.enumerated().map { ($0, $1, nil) }
        case .update(let old, let cells):
            key = old
            lost = cells.map { ($0.column, $0.old, $0.new) }
        }
        for (columnIndex, old, new) in lost where !old.isNull {
            if hasSeen(table, key, columnIndex, old, asked, names) || rebase.policies.combines(table, columnIndex) { continue }
            if let new, isRenamed(table, columnIndex, old, now: new, names) { continue }
            if rewrite.journal.contains(where: { value($0, table, columnIndex, in: \.stored) == old }) { continue }
            throw self.lost(
                "stored", rewrite,
                "\(change.text): \(table.columns[columnIndex].name) = \(old.literal) is gone, unseen and not in the journal")
        }
    }

    /// Whether the author removed exactly this value, here or in an earlier transaction that was dropped.
    private func hasSeen(
        _ table: Table, _ key: [Cell], _ columnIndex: Int, _ value: Cell, _ asked: [Change], _ names: NameBook
    ) -> Bool {
        let folded = names.candidates(table, key)
        // The key may have changed because the row was renumbered before.
        func isMeant(_ key: [Cell]) -> Bool { names.candidates(table, key).contains { folded.contains($0) } }
        return asked.contains { change in
            guard change.table == table.name else { return false }
            switch change.kind {
            case .insert: return change.revived?.contains { $0.column == columnIndex && $0.old == value } ?? false
            case .delete(let row):
                return row[columnIndex] == value || isRenamed(table, columnIndex, row[columnIndex], now: value, names)
                    || (table.key.contains(columnIndex) && isMeant(table.key.map { row[$0] }))
            case .update(let key, let cells):
                return cells.contains { $0.column == columnIndex && ($0.old == value || (table.key.contains(columnIndex) && isMeant(key))) }
            }
        }
    }

    // MARK: The journal

    /// The value that a journal entry has for one column; nil if it has none.
    private func value(
        _ line: JournalEntry, _ table: Table, _ columnIndex: Int, in side: KeyPath<JournalEntry, [Value]?>
    ) -> Cell? {
        guard line.table == table.name, let values = line[keyPath: side] else { return nil }
        let number = line.columns.isEmpty ? columnIndex : line.columns.firstIndex(of: table.columns[columnIndex].name)
        guard let number, values.indices.contains(number) else { return nil }
        return Cell(values[number])
    }

    private func lost(_ what: String, _ rewrite: Rebase.Rewrite, _ text: String) -> Violation {
        let after = rewrite.changes.map(\.text)
        let journal = rewrite.journal.map { "\($0.kind) \($0.table) \($0.columns) \($0.winner) wins" }
        return Violation("law 5 (\(what))", "\(text); left of the transaction: \(after), journal: \(journal)")
    }
}

extension Change {
    var isDelete: Bool {
        if case .delete = kind { true } else { false }
    }
}
