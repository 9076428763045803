import AnnalsCore

/// Policies of rows (merge rule 26). They apply if another replica wrote any cell of the row and the author had not seen
/// that.
struct RowPolicyPlanner {
    let state: RebaseState

    func plan(_ index: Int, _ number: Int) throws {
        guard let policy = state.policies(of: state.rows[number].table).row, let rowID = state.rows[number].rowID,
            let mark = state.context.rowIdentities[rowID].latestWriter
        else { return }
        state.outcomes[index].isByRow = true
        let reason = Reason(kind: state.outcomes[index].cellKind, policy: policy.description, mark: mark)
        switch policy {
        case .rollback, .manual: state.outcomes[index].loss = reason
        case .overwrite: requestWholeRow(index, number)
        case .custom(let name): try resolve(index, number, reason, by: state.context.policies.resolvers[name])
        }
    }

    private func requestWholeRow(_ index: Int, _ number: Int) {
        guard let whole = state.transaction.wholeRows[index] else { return }
        let key = state.rows[number].table.primaryKey
        let requested = Set(state.outcomes[index].requested.map(\.columnIndex))
        // The columns that the author did not change, as found. Its key has only what the author requested.
        state.outcomes[index].requested += whole.after.indices.filter { !requested.contains($0) && !key.contains($0) }
            .map { RequestedColumn($0, old: whole.before[$0], new: whole.after[$0], isImplied: true) }
    }

    private func resolve(_ index: Int, _ number: Int, _ reason: Reason, by resolver: MergePolicies.RowResolver?) throws {
        let table = state.rows[number].table
        guard let resolver, let stored = state.rows[number].after else {
            state.outcomes[index].loss = reason
            return
        }
        let requested = state.outcomes[index].requested
        var incoming = state.transaction.wholeRows[index]?.after ?? stored
        for column in requested { incoming[column.columnIndex] = column.new }
        let conflict = RowConflict(
            table: table.name, columns: table.columns.map(\.name), changed: requested.map(\.columnIndex).sorted(),
            base: state.transaction.wholeRows[index]?.before, stored: stored, incoming: incoming)
        switch try resolver(conflict) {
        case .unresolved:
            state.outcomes[index].loss = Reason(kind: reason.kind, policy: RowPolicy.manual.description, mark: reason.mark)
        case .keepStored: state.outcomes[index].loss = reason
        case .keepIncoming: requestWholeRow(index, number)
        case .values(let values): try write(values, index, number, reason)
        case .delete:
            state.outcomes[index].loss = reason
            state.rows[number].after = nil
            state.rows[number].cause = Cause(index)
            state.rows[number].removal = reason
        }
    }

    /// The values of a custom policy are written as they are. What the change requested otherwise is lost.
    private func write(_ values: [String: Value], _ index: Int, _ number: Int, _ reason: Reason) throws {
        let table = state.rows[number].table
        let cells = CellPlanner(state: state)
        state.outcomes[index].isSettled = true
        state.rows[number].cause = Cause(index)
        for (name, value) in values {
            guard let columnIndex = table.columnIndex(of: name), !table.primaryKey.contains(columnIndex),
                cells.givenUp(index, columnIndex, table) == nil
            else { continue }
            state.rows[number].after?[columnIndex] = try state.source.asStored(value, in: table, columnIndex: columnIndex)
            state.rows[number].effects[columnIndex] = .changed(reason)
        }
        for column in state.outcomes[index].requested {
            state.outcomes[index].losses[column.columnIndex] = cells.givenUp(index, column.columnIndex, table) ?? reason
        }
    }
}
