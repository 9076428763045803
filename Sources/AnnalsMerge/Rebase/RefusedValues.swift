import AnnalsCore

/// What a change requested and its row does not have: part (a) of the conflict journal (merge rule 34).
struct RefusedValues {
    let state: RebaseState

    func entries(_ index: Int) throws -> [JournalEntry] {
        let change = state.transaction.changes[index]
        let table = try state.table(ofChange: index)
        let outcome = state.outcomes[index]
        let after = outcome.row.flatMap { state.rows[$0].after }
        switch change.change {
        case .delete(let old):
            guard let reason = outcome.loss, after != nil || outcome.row == nil else { return [] }
            return [
                JournalForm.entry(
                    reason, table, table.key(of: old), base: old, stored: after, winner: .stored, at: state.time(ofChange: index))
            ]
        case .insert(let row):
            guard after != nil || change.mark != nil else {
                let key = table.key(of: row)
                return [
                    JournalForm.entry(reason(index, nil), table, key, incoming: row, winner: .stored, at: state.time(ofChange: index))
                ]
            }
            return renumbering(index, table, row) + columns(index, table, table.key(of: row), after)
        case .update(let key, _):
            return columns(index, table, key, after)
        }
    }

    /// Why a table whose transactions apply completely or not at all lost something. Then all of the transaction is set
    /// aside.
    func lossInWholeTable() throws -> Reason? {
        guard state.decisions.reasonForAll == nil else { return nil }
        for index in state.outcomes.indices where state.policies(of: try state.table(ofChange: index)).isWhole {
            let lost = try entries(index).first { $0.winner == .stored }
            if let lost { return Reason(kind: lost.kind, policy: "whole") }
        }
        return nil
    }

    private func renumbering(_ index: Int, _ table: MergeTable, _ row: [Value]) -> [JournalEntry] {
        guard let (requested, given) = state.outcomes[index].renumbered, let columnIndex = table.rowidAlias else { return [] }
        let reason = Reason(kind: .renumber, policy: KeyRule.renumber.rawValue)
        let entry = JournalForm.entry(
            reason, table, table.key(of: row), columns: [columnIndex], stored: [requested], incoming: [given], winner: .incoming,
            at: state.time(ofChange: index))
        return [entry]
    }

    private func columns(_ index: Int, _ table: MergeTable, _ key: [Value], _ after: [Value]?) -> [JournalEntry] {
        let outcome = state.outcomes[index]
        let lost = outcome.requested.filter { isLost($0, outcome, after) }
        return JournalForm.groups(lost) { reason(index, $0.columnIndex) }.map { reason, columns in
            let base = columns.compactMap(\.old)
            return JournalForm.entry(
                detailed(reason, outcome, columns), table, key, columns: columns.map(\.columnIndex),
                base: base.count == columns.count ? base : nil,
                stored: after.map { after in columns.map { after[$0.columnIndex] } }, incoming: columns.map(\.written), winner: .stored,
                at: state.time(ofChange: index))
        }
    }

    /// A constraint that refuses a combined value names the policy that combined it. It and a transaction that is set aside as a whole
    /// name the writer of the value that stays.
    private func detailed(_ reason: Reason, _ outcome: ChangeOutcome, _ columns: [RequestedColumn]) -> Reason {
        let isCheck = reason == .declared(.check)
        guard isCheck || reason == state.decisions.reasonForAll, let number = outcome.row else { return reason }
        let policies = Set(columns.map { CellPlanner(state: state).policy(number, $0.columnIndex) }.filter(\.isCombining))
        let rowID = state.rows[number].rowID
        let marks = columns.compactMap { column in rowID.flatMap { state.context.presentWriter(of: column.columnIndex, of: $0) } }
        let policy = isCheck && policies.count == 1 ? policies.first?.description : nil
        return Reason(kind: reason.kind, policy: policy ?? reason.policy, mark: reason.mark ?? marks.max { $0.position < $1.position })
    }

    private func isLost(_ column: RequestedColumn, _ outcome: ChangeOutcome, _ after: [Value]?) -> Bool {
        let columnIndex = column.columnIndex
        guard !column.isImplied, let after else { return !column.isImplied }
        // A reference that was given up or nulled differs from what its author wrote.
        let isGivenUp = outcome.nulled[columnIndex] != nil || outcome.losses[columnIndex] != nil
        if isGivenUp, after[columnIndex] != column.written { return true }
        if isGivenUp || after[columnIndex] == column.new { return isRefusedDifference(column, outcome) }
        return !outcome.combined.contains(columnIndex)
    }

    /// A column that combines was requested to change by a difference. If its value happens to be the requested one, the
    /// difference may be refused all the same.
    private func isRefusedDifference(_ column: RequestedColumn, _ outcome: ChangeOutcome) -> Bool {
        guard let number = outcome.row, let old = column.old, state.rows[number].before?[column.columnIndex] != old else { return false }
        let isRefused = outcome.loss != nil || outcome.losses[column.columnIndex] != nil
        return isRefused && CellPlanner(state: state).policy(number, column.columnIndex) == .sum
    }

    private func reason(_ index: Int, _ columnIndex: Int?) -> Reason {
        let outcome = state.outcomes[index]
        let row = outcome.row.map { state.rows[$0] }
        if let reason = outcome.loss { return reason }
        if let columnIndex {
            if let reason = outcome.losses[columnIndex] ?? outcome.nulled[columnIndex] { return reason }
            if case .changed(let reason)? = row?.effects[columnIndex] { return reason }
        }
        return row?.removal ?? .declared(.foreignKey)
    }
}
