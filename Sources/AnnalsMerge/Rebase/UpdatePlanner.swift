import AnnalsCore

/// Updates and moves: which row is meant (merge rules 22 and 29). `CellPlanner` then merges the columns.
struct UpdatePlanner {
    let state: RebaseState

    func plan(_ index: Int, _ table: MergeTable, _ key: [Value], _ columns: [ColumnChange]) throws {
        state.outcomes[index].requested = columns.map(RequestedColumn.init)
        let name = table.keyName(key)
        switch try RowResolver(state: state).outcome(of: name, key: key, in: table) {
        case .alive(let row, let rowID):
            let number = state.rowNumber(table, row, rowID, Cause(index))
            state.outcomes[index].row = number
            state.outcomes[index].loss = state.decisions.setAside(index)
            noteRequestedNames(index, table, number, key)
        case .dead(let rowID, let tombstone):
            try RevivalPlanner(state: state).planUpdate(index, rowID, tombstone, in: table)
            if let number = state.outcomes[index].row { noteRequestedNames(index, table, number, key) }
        case .merged, .setAside, .nothing:
            let reason = Reason(kind: .updateOfDeleted, policy: state.policies(of: table).delete.rawValue)
            state.outcomes[index].loss = state.decisions.setAside(index) ?? reason
        }
    }

    /// The candidate keys that an update gives the row, for references in this transaction and later ones.
    private func noteRequestedNames(_ index: Int, _ table: MergeTable, _ number: Int, _ key: [Value]) {
        guard state.outcomes[index].requested.contains(where: { table.candidateKeyColumns.contains($0.columnIndex) }),
            var row = state.rows[number].after ?? state.rows[number].before
        else { return }
        for (columnIndex, value) in zip(table.primaryKey, key) { row[columnIndex] = value }
        for column in state.outcomes[index].requested { row[column.columnIndex] = column.new }
        state.request(table.names(of: row), for: number)
    }
}
