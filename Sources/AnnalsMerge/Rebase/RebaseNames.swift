import AnnalsCore

/// What later transactions of the rebase must know (merge rule 23). Nothing of it is kept afterwards: then the outbox has
/// the present keys.
struct RebaseNames {
    let state: RebaseState

    func note() {
        var rebased: [RebasedRowNames] = []
        for number in state.rows.indices {
            let row = state.rows[number]
            if row.requestedNames.isEmpty, let before = row.before, let after = row.after, row.table.haveSameNames(before, after) {
                continue
            }
            let before = row.before.map(row.table.image)
            let after = row.after.map(row.table.image)
            guard !row.requestedNames.isEmpty || before?.names != after?.names || before?.key != after?.key else { continue }
            rebased.append(
                RebasedRowNames(before: before, after: after, rowID: row.rowID, asked: row.requestedNames, end: end(of: number)))
        }
        for (name, requested) in state.requestedNames {
            if case .identity(let rowID) = requested { state.context.rowIdentities.call(rowID, by: [name]) }
        }
        state.context.rowIdentities.note(rebased)
    }

    private func end(of number: Int) -> RowIdentities.State {
        switch state.rows[number].end {
        case .gone, .joined: return .gone
        case .setAside: return .setAside
        case .merged: break
        }
        let target = state.rows[state.resolved(number)]
        guard let row = target.before ?? target.after else { return .gone }
        return .merged(into: .row(target.rowID ?? state.context.rowIdentities.rowID(of: target.table.image(of: row))))
    }

    /// Inserted rows that have another key than the transaction gave them.
    func renamedRows() -> [RenamedRow] {
        state.outcomes.indices.compactMap { index in
            guard case .insert(let requested) = state.transaction.changes[index].change, let number = state.outcomes[index].row else {
                return nil
            }
            let row = state.rows[state.resolved(number)]
            guard let after = row.after else { return nil }
            let (old, new) = (row.table.key(of: requested), row.table.key(of: after))
            return old == new ? nil : RenamedRow(table: row.table, old: old, new: new)
        }
    }
}
