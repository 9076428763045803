import AnnalsCore

/// The journal entries of earlier rebases (merge rule 34). Those are dropped whose lost value is the row's again.
struct EarlierJournal {
    let state: RebaseState

    func entriesThatHold() throws -> [JournalEntry] {
        try state.transaction.journal.filter { try !isUndone($0) }
    }

    private func isUndone(_ entry: JournalEntry) throws -> Bool {
        guard entry.winner == .incoming, entry.kind != .renumber else { return false }
        let table = try state.source.table(canonicalName: entry.table)
        guard entry.key.count == table.primaryKey.count else { return false }
        let outcome = try RowResolver(state: state).outcome(of: table.keyName(entry.key), key: entry.key, in: table)
        guard case .alive(let row, _) = outcome else {
            // A delete that was undone, and is done after all.
            return entry.stored == nil
        }
        guard let loser = entry.stored else { return false }
        if entry.columns.isEmpty { return row == loser }
        return zip(entry.columns, loser).allSatisfy { name, value in
            table.columnIndex(ofCanonical: name).map { row[$0] == value } ?? false
        }
    }
}
