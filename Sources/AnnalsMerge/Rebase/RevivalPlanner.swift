import AnnalsCore

/// Rows that are restored (merge rules 29 and 31): whole, from their tombstones. They are marked with the position of the
/// delete that is undone, so that other authors' changes and children find the row that they mean.
struct RevivalPlanner {
    let state: RebaseState

    // MARK: Updates of deleted rows

    func planUpdate(_ index: Int, _ rowID: RowIdentities.ID, _ tombstone: RowIdentities.Tombstone, in table: MergeTable) throws {
        if let reason = state.decisions.setAside(index) {
            state.outcomes[index].loss = reason
            return
        }
        let rule = state.policies(of: table).delete
        let isRestored =
            switch rule {
            case .lastWriterWins: state.winner(ofChange: index, against: tombstone.mark) == .incoming
            case .updateWins: true
            case .deleteWins, .manual: state.restored[rowID] != nil
            }
        if isRestored, let number = try restore(rowID, tombstone, Cause(index)) {
            state.outcomes[index].row = number
        } else {
            state.outcomes[index].loss = Reason(kind: .updateOfDeleted, policy: rule.rawValue, mark: tombstone.mark)
        }
    }

    // MARK: Rows that an earlier rebase restored

    /// The delete is older than the pulled entries, so only its position says who else means the same row.
    func planRevivedInsert(_ index: Int, _ table: MergeTable, _ row: [Value], _ position: Position, _ changed: [ColumnChange]) throws {
        state.outcomes[index].requested = changed.map(RequestedColumn.init)
        let name = table.keyName(of: row)
        let inserts = InsertPlanner(state: state)
        if let rowID = state.context.rowIdentities.revived(position, at: name) {
            for name in table.names(of: row) { state.requestedNames[name] = .identity(rowID) }
            try planUpdateOfRevived(index, table, rowID)
        } else if let reason = state.decisions.setAside(index) {
            inserts.add(index, table, row)
            inserts.setAside(index, reason)
        } else if try state.occupant(of: row, in: table) != nil {
            inserts.add(index, table, row)
            let rule = state.policies(of: table).delete
            inserts.setAside(index, Reason(kind: .updateOfDeleted, policy: rule.rawValue, mark: insertedBy(of: name)))
        } else {
            inserts.add(index, table, row)
        }
    }

    private func insertedBy(of name: CandidateKey) -> WriteMark? {
        if case .row(let id) = state.context.rowIdentities.occupant(of: name) { state.context.rowIdentities[id].insertedBy } else { nil }
    }

    /// Another author restored the same row. What is left is an update of the columns that this author changed.
    private func planUpdateOfRevived(_ index: Int, _ table: MergeTable, _ rowID: RowIdentities.ID) throws {
        switch try RowResolver(state: state).outcome(of: .row(rowID), in: table) {
        case .alive(let row, _):
            state.outcomes[index].row = state.rowNumber(table, row, rowID, Cause(index))
            state.outcomes[index].loss = state.decisions.setAside(index)
        case .dead(_, let tombstone):
            // Without columns of its own it was restored for a child, whose reference decides whether it is again.
            if !state.outcomes[index].requested.isEmpty { try planUpdate(index, rowID, tombstone, in: table) }
        case .merged, .setAside, .nothing:
            state.outcomes[index].loss = Reason(kind: .updateOfDeleted, policy: state.policies(of: table).delete.rawValue)
        }
    }

    // MARK: Restoring

    /// Puts a deleted row into play again, with what the same entry deleted by CASCADE. nil if it cannot be restored.
    func restore(_ rowID: RowIdentities.ID, _ tombstone: RowIdentities.Tombstone, _ cause: Cause) throws -> Int? {
        if let number = state.restored[rowID] { return number }
        let table = try state.source.table(named: tombstone.table)
        // It would be restored without what it had in columns that this store lacks.
        guard !state.source.lacksColumns(of: table) else { return nil }
        guard !state.decisions.contains(.leaveDead(rowID)), try state.occupant(of: tombstone.row, in: table) == nil else { return nil }
        var row = RebasedRow(table: table, before: nil, after: tombstone.row, cause: cause)
        row.rowID = rowID
        row.revives = tombstone.mark.position
        state.rows.append(row)
        let number = state.rows.count - 1
        state.restored[rowID] = number
        for (child, childTombstone) in try cascade(from: rowID, at: tombstone.mark.position) {
            _ = try restore(child, childTombstone, Cause(cause.change, .revival(child)))
        }
        return number
    }

    /// The deleted children that one entry deleted together with a parent, if their foreign keys declare CASCADE.
    private func cascade(
        from parent: RowIdentities.ID, at position: Position
    ) throws -> [(RowIdentities.ID, RowIdentities.Tombstone)] {
        let children = try state.cascades[position] ?? cascades(at: position)
        state.cascades[position] = children
        return (children[parent] ?? []).compactMap { child in
            if case .dead(let tombstone) = state.context.rowIdentities[child].state { (child, tombstone) } else { nil }
        }
    }

    private func cascades(at position: Position) throws -> [RowIdentities.ID: [RowIdentities.ID]] {
        let identities = state.context.rowIdentities
        var children: [RowIdentities.ID: [RowIdentities.ID]] = [:]
        for child in identities.ended(at: position) {
            guard case .dead(let tombstone) = identities[child].state, tombstone.mark.position == position else { continue }
            let references = try state.source.table(named: tombstone.table).references
            for (reference, parent) in zip(references, tombstone.parents) where reference.onDelete == .cascade {
                if let parent, case .row(let id) = identities.known(parent) { children[id, default: []].append(child) }
            }
        }
        return children
    }

    // MARK: Marks

    /// What other authors must know of a row. A restored row has the columns that its author changed, and their old
    /// values.
    func mark(of row: RebasedRow) -> RowMark? {
        guard let position = row.revives, let rowID = row.rowID, let after = row.after, let tombstone = state.tombstone(of: row) else {
            return row.mark
        }
        let number = state.restored[rowID]
        var columns: Set<Int> = []
        for outcome in state.outcomes where outcome.row == number && outcome.loss == nil {
            columns.formUnion(outcome.requested.map(\.columnIndex).filter { outcome.losses[$0] == nil })
        }
        return .revived(
            position, changed: columns.sorted().map { ColumnChange(column: $0, old: tombstone.row[$0], new: after[$0]) })
    }
}
