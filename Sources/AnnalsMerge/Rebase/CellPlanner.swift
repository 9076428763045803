import AnnalsCore

/// The columns of updates, and of moves, which are updates that change the key (merge rules 26 and 27).
///
/// Columns that are part of a foreign key wait until the parents' present keys are known. The others are merged first,
/// because references name parents by them.
struct CellPlanner {
    let state: RebaseState

    func mergeOwnColumns(_ index: Int) throws {
        guard let number = mergedRow(index) else { return }
        try RowPolicyPlanner(state: state).plan(index, number)
        guard state.outcomes[index].loss == nil else { return }
        let table = state.rows[number].table
        for column in state.outcomes[index].requested where !table.referenceColumns.contains(column.columnIndex) {
            try merge(index, number, column)
        }
    }

    /// The row whose columns the change sets, as long as both are applied.
    private func mergedRow(_ index: Int) -> Int? {
        guard state.outcomes[index].loss == nil, let number = state.outcomes[index].row, state.rows[number].after != nil else { return nil }
        // A new row has what was requested. A restored or joined row is merged into.
        return state.rows[number].isInserted ? nil : number
    }

    /// One column, by its policy. `column.new` names parents by their present keys.
    func merge(_ index: Int, _ number: Int, _ column: RequestedColumn) throws {
        let columnIndex = column.columnIndex
        guard !state.outcomes[index].isSettled, state.outcomes[index].losses[columnIndex] == nil,
            let stored = state.rows[number].after?[columnIndex]
        else { return }
        if let reason = givenUp(index, columnIndex, state.rows[number].table) {
            state.outcomes[index].losses[columnIndex] = reason
            return
        }
        if state.outcomes[index].isByRow {
            set(columnIndex, of: number, to: column.new, by: index)
            return
        }
        let policy = policy(number, columnIndex)
        let mark = state.writer(of: columnIndex, of: number)
        let outcome = try policy.settle(
            base: column.old, stored: stored, incoming: column.new, isContested: mark != nil,
            later: { mark.map { state.winner(ofChange: index, against: $0) } ?? .incoming },
            combine: { try combine(policy, number, column, stored) })
        switch outcome {
        case .unchanged: break
        case .combined(let value):
            set(columnIndex, of: number, to: value, by: index)
            state.outcomes[index].combined.insert(columnIndex)
        case .incoming: set(columnIndex, of: number, to: column.new, by: index)
        case .stored:
            state.outcomes[index].losses[columnIndex] = Reason(
                kind: state.outcomes[index].cellKind, policy: policy.nameOfDecision, mark: mark)
        }
    }

    private func set(_ columnIndex: Int, of number: Int, to value: Value, by index: Int) {
        guard state.rows[number].after?[columnIndex] != value else { return }
        state.rows[number].after?[columnIndex] = value
        state.rows[number].cause = Cause(index)
    }

    /// A key is no quantity: its columns are never combined.
    func policy(_ number: Int, _ columnIndex: Int) -> ColumnPolicy {
        let table = state.rows[number].table
        let policy = state.policies(of: table).policy(ofColumn: table.columns[columnIndex].name)
        return policy.isCombining && table.primaryKey.contains(columnIndex) ? .lastWriterWins : policy
    }

    /// The key of a row that moves is given up as a whole: both halves of a move are applied, or none.
    func givenUp(_ index: Int, _ columnIndex: Int, _ table: MergeTable) -> Reason? {
        let reasons = state.decisions.givenUp(index)
        if let reason = reasons[columnIndex] { return reason }
        guard table.primaryKey.contains(columnIndex) else { return nil }
        return table.primaryKey.lazy.compactMap { reasons[$0] }.first
    }

    private func combine(_ policy: ColumnPolicy, _ number: Int, _ column: RequestedColumn, _ stored: Value) throws -> Value? {
        let table = state.rows[number].table
        let combined = try state.context.policies.combine(
            policy, base: column.old, stored: stored, incoming: column.new, table: table.name, column: column.columnIndex,
            columns: table.columns.map(\.name), row: state.rows[number].after)
        return try combined.map { try state.source.asStored($0, in: table, columnIndex: column.columnIndex) }
    }
}

extension ColumnPolicy {
    /// The policy that decided for one side: what cannot be combined goes to the later writer.
    var nameOfDecision: String {
        isCombining ? ColumnPolicy.lastWriterWins.description : description
    }
}
