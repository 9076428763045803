import AnnalsCore

/// What a row that violates a constraint costs: the change that requested it is set aside, or its cause is undone (merge
/// rules 30 and 33).
struct ConstraintCauses {
    let state: RebaseState

    /// Whatever brought the row into play is undone.
    func undo(row number: Int, _ reason: Reason) {
        if let change = change(of: number) {
            state.need(.setAside(change, reason))
        } else {
            undo(state.rows[number].cause, reason)
        }
    }

    /// An effect that a constraint does not permit.
    func undo(_ cause: Cause, _ reason: Reason) {
        switch cause.via {
        case .eviction(let name): state.need(.keep(cause.change, name))
        case .merge: state.need(.separate(cause.change))
        case .revival(let rowID): state.need(.leaveDead(rowID))
        case .change:
            let columns = namingColumns(cause.change)
            let decision = Decisions.Decision.giveUp(cause.change, columns: columns, reason)
            let canGiveUp = !columns.isEmpty && !state.decisions.contains(decision)
            state.need(canGiveUp ? decision : .setAside(cause.change, reason))
        }
    }

    /// The change that requested the row as it is. nil if the row is an effect.
    func change(of number: Int) -> Int? {
        let cause = state.rows[number].cause
        guard cause.via == .change, state.outcomes[cause.change].row == number, state.outcomes[cause.change].loss == nil,
            !state.isDelete(cause.change)
        else { return nil }
        return cause.change
    }

    /// The columns by which other rows may refer to the row that an update changes.
    private func namingColumns(_ change: Int) -> [Int] {
        guard case .update = state.transaction.changes[change].change, let number = state.outcomes[change].row else { return [] }
        let table = state.rows[number].table
        return state.outcomes[change].requested.map(\.columnIndex).filter(table.candidateKeyColumns.contains)
    }
}
