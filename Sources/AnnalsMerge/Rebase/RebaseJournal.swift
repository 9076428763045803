import AnnalsCore

/// The conflict journal of a transaction (merge rule 34), computed from the rows before and after and from what the
/// transaction requested:
///
/// - (a) each value that it requested and its row does not have, and each delete that was refused;
/// - (b) each value that was stored and is not stored now, unless its author had seen that value;
/// - (c) each delete of another author that is undone.
///
/// Combined values lose nothing. A reference that names the same parent by its present key is the same value.
struct RebaseJournal {
    let state: RebaseState

    func entries() throws -> [JournalEntry] {
        var entries: [JournalEntry] = []
        for index in state.outcomes.indices { entries += try RefusedValues(state: state).entries(index) }
        for number in state.rows.indices {
            entries += overwrittenValues(number)
            entries += undoneDelete(number)
        }
        return entries
    }

    // MARK: (b)

    private func overwrittenValues(_ number: Int) -> [JournalEntry] {
        guard let before = state.rows[number].before, state.rows[number].after != before else { return [] }
        let row = state.rows[number]
        guard let after = row.after else { return removedRow(row, before) }
        var lost: [(column: RequestedColumn, reason: Reason)] = []
        var (key, time) = (row.table.key(of: before), state.time(ofChange: row.cause.change))
        for columnIndex in before.indices where before[columnIndex] != after[columnIndex] {
            switch row.effects[columnIndex] {
            case .followed?: continue
            case .changed(let reason)?: lost.append((RequestedColumn(columnIndex, old: nil, new: after[columnIndex]), reason))
            case nil:
                guard let (index, column) = requester(of: number, columnIndex),
                    !state.outcomes[index].combined.contains(columnIndex), column.old != before[columnIndex]
                else { continue }
                (key, time) = (requestedKey(index, row.table), state.time(ofChange: index))
                lost.append((column, winningReason(index, number, columnIndex)))
            }
        }
        return JournalForm.groups(lost) { $0.reason }.map { reason, columns in
            let base = columns.compactMap(\.column.old)
            let columnIndexes = columns.map(\.column.columnIndex)
            return JournalForm.entry(
                reason, row.table, key, columns: columnIndexes, base: base.count == columns.count ? base : nil,
                stored: columnIndexes.map { before[$0] }, incoming: columnIndexes.map { after[$0] }, winner: .incoming, at: time)
        }
    }

    private func removedRow(_ row: RebasedRow, _ before: [Value]) -> [JournalEntry] {
        let time = state.time(ofChange: row.cause.change)
        if row.removal == nil, row.cause.via == .change, case .delete(let old) = state.transaction.changes[row.cause.change].change {
            if old == before { return [] }
            let mark = row.rowID.flatMap { state.context.rowIdentities[$0].latestWriter }
            let reason = Reason(kind: .deleteOfUpdated, policy: state.policies(of: row.table).delete.rawValue, mark: mark)
            return [JournalForm.entry(reason, row.table, row.table.key(of: old), base: old, stored: before, winner: .incoming, at: time)]
        }
        let reason = row.removal ?? .declared(.foreignKey)
        return [JournalForm.entry(reason, row.table, row.table.key(of: before), stored: before, winner: .incoming, at: time)]
    }

    /// The last change that requested a column and got it.
    private func requester(of number: Int, _ columnIndex: Int) -> (Int, RequestedColumn)? {
        for index in state.changes(of: number).reversed()
        where state.outcomes[index].loss == nil && state.outcomes[index].losses[columnIndex] == nil {
            if let column = state.outcomes[index].requested.last(where: { $0.columnIndex == columnIndex }) { return (index, column) }
        }
        return nil
    }

    private func winningReason(_ index: Int, _ number: Int, _ columnIndex: Int) -> Reason {
        let table = state.rows[number].table
        let policies = state.policies(of: table)
        let column = policies.policy(ofColumn: table.columns[columnIndex].name).nameOfDecision
        let policy = state.outcomes[index].isByRow ? policies.row?.description ?? column : column
        return Reason(kind: state.outcomes[index].cellKind, policy: policy, mark: state.writer(of: columnIndex, of: number))
    }

    /// The key by which a change names its row.
    private func requestedKey(_ index: Int, _ table: MergeTable) -> [Value] {
        switch state.transaction.changes[index].change {
        case .insert(let row), .delete(let row): table.key(of: row)
        case .update(let key, _): key
        }
    }

    // MARK: (c)

    private func undoneDelete(_ number: Int) -> [JournalEntry] {
        guard state.rows[number].revives != nil else { return [] }
        let row = state.rows[number]
        guard let after = row.after, let tombstone = state.tombstone(of: row) else { return [] }
        let changes = state.changes(of: number).filter { state.outcomes[$0].loss == nil && !state.outcomes[$0].requested.isEmpty }
        guard !changes.isEmpty else {
            let key = row.table.key(of: tombstone.row)
            let reason = Reason.declared(.foreignKey, mark: tombstone.mark)
            return [JournalForm.entry(reason, row.table, key, base: tombstone.row, incoming: after, winner: .incoming, at: nil)]
        }
        let reason = Reason(kind: .updateOfDeleted, policy: state.policies(of: row.table).delete.rawValue, mark: tombstone.mark)
        return changes.map { index in
            let requested = state.outcomes[index].requested
            let base = requested.compactMap(\.old)
            return JournalForm.entry(
                reason, row.table, requestedKey(index, row.table), columns: requested.map(\.columnIndex),
                base: base.count == requested.count ? base : nil, incoming: requested.map(\.written), winner: .incoming,
                at: state.time(ofChange: index))
        }
    }
}

/// The form of journal entries. They travel, so they have the names of the log.
enum JournalForm {
    /// Columns in conflict have an entry each, so that each can be restored. What was lost together stays together.
    static func groups<Column>(_ columns: [Column], by reason: (Column) -> Reason) -> [(Reason, [Column])] {
        var groups: [(Reason, [Column])] = []
        for column in columns {
            let reason = reason(column)
            let isSingle = reason.kind == .update || reason.kind == .insert
            if !isSingle, let index = groups.firstIndex(where: { $0.0 == reason }) {
                groups[index].1.append(column)
            } else {
                groups.append((reason, [column]))
            }
        }
        return groups
    }

    static func entry(
        _ reason: Reason, _ table: MergeTable, _ key: [Value], columns: [Int] = [], base: [Value]? = nil, stored: [Value]? = nil,
        incoming: [Value]? = nil, winner: JournalEntry.Side, at time: HybridTime?
    ) -> JournalEntry {
        JournalEntry(
            kind: reason.kind, table: table.canonicalName, key: key, columns: columns.map { table.columns[$0].canonicalName },
            policy: reason.policy, base: base, stored: stored, incoming: incoming, winner: winner, storedReplica: reason.mark?.replica,
            storedTime: reason.mark?.time, storedPosition: reason.mark?.position, incomingTime: time)
    }
}
