import AnnalsCore

/// Deletes (merge rule 28), and what came with a delete that is refused (merge rule 31).
struct DeletePlanner {
    let state: RebaseState

    func plan(_ index: Int, _ table: MergeTable, _ old: [Value]) throws {
        let key = table.key(of: old)
        switch try RowResolver(state: state).outcome(of: table.keyName(key), key: key, in: table) {
        case .alive(let row, let rowID):
            let number = state.rowNumber(table, row, rowID, Cause(index))
            state.outcomes[index].row = number
            if let reason = state.decisions.setAside(index) ?? refusal(index, table, state.rows[number].rowID) {
                state.outcomes[index].loss = reason
                return
            }
            state.rows[number].after = nil
            state.rows[number].mark = state.transaction.changes[index].mark
            state.rows[number].cause = Cause(index)
        case .merged:
            state.outcomes[index].loss = Reason(kind: .deleteOfUpdated, policy: UniqueRule.mergeRows.rawValue)
        case .dead, .setAside, .nothing:
            // The row is gone, as requested.
            return
        }
    }

    /// Why a delete of a row that others changed is refused. nil if it is not.
    private func refusal(_ index: Int, _ table: MergeTable, _ rowID: RowIdentities.ID?) -> Reason? {
        guard let mark = rowID.flatMap({ state.context.rowIdentities[$0].latestWriter }) else { return nil }
        let rule = state.policies(of: table).delete
        let isRefused =
            switch rule {
            case .lastWriterWins: state.winner(ofChange: index, against: mark) == .stored
            case .deleteWins: false
            case .updateWins, .manual: true
            }
        return isRefused ? Reason(kind: .deleteOfUpdated, policy: rule.rawValue, mark: mark) : nil
    }

    // MARK: What came with a delete

    /// If the delete of a parent is refused, the deletes by CASCADE and the SET NULLs that came with it are refused too.
    func refuseWhatCameWithRefusedDeletes() throws {
        var refused: [CandidateKey] = []
        for index in state.outcomes.indices where state.isDelete(index) && state.outcomes[index].loss != nil {
            refused += try oldNames(index)
        }
        guard !refused.isEmpty else { return }
        let companions = try companions()
        while let name = refused.popLast() {
            for companion in companions[name] ?? [] {
                let index = companion.change
                switch state.transaction.changes[index].change {
                case .delete where companion.action == .cascade && state.outcomes[index].loss == nil:
                    guard let number = state.outcomes[index].row else { continue }
                    state.outcomes[index].loss = .declared(.foreignKey)
                    state.rows[number].after = state.rows[number].before
                    state.rows[number].mark = nil
                    refused += try oldNames(index)
                case .update where companion.action != .cascade:
                    for columnIndex in companion.columnIndexes { state.outcomes[index].losses[columnIndex] = .declared(.foreignKey) }
                default: continue
                }
            }
        }
    }

    /// A change that may have come with the delete of a parent.
    private struct Companion {
        var change: Int
        var action: MergeTable.DeleteAction
        var columnIndexes: [Int]
    }

    private func oldNames(_ index: Int) throws -> [CandidateKey] {
        guard case .delete(let old) = state.transaction.changes[index].change else { return [] }
        return try state.table(ofChange: index).names(of: old)
    }

    /// Deletes and updates that ON DELETE may have caused, by the candidate key of the parent that the row had.
    private func companions() throws -> [CandidateKey: [Companion]] {
        var companions: [CandidateKey: [Companion]] = [:]
        for index in state.transaction.changes.indices {
            let table = try state.table(ofChange: index)
            for (number, reference) in table.references.enumerated() {
                guard let name = try formerParent(index, table, number, reference) else { continue }
                companions[name, default: []].append(
                    Companion(change: index, action: reference.onDelete, columnIndexes: reference.columnIndexes))
            }
        }
        return companions
    }

    /// The parent that a change takes its row away from, as the declared action would.
    private func formerParent(
        _ index: Int, _ table: MergeTable, _ number: Int, _ reference: MergeTable.Reference
    ) throws -> CandidateKey? {
        switch state.transaction.changes[index].change {
        case .insert: return nil
        case .delete(let old): return table.parentName(number, in: old)
        case .update(_, let columns):
            let changed = Dictionary(columns.map { ($0.column, $0) }, uniquingKeysWith: { first, _ in first })
            guard reference.onDelete == .setNull || reference.onDelete == .setDefault,
                let row = state.outcomes[index].row.flatMap({ state.rows[$0].before }),
                reference.columnIndexes.contains(where: { changed[$0] != nil })
            else { return nil }
            let actions = OnDeleteValues(source: state.source)
            var old = row
            for columnIndex in reference.columnIndexes {
                let column = changed[columnIndex]
                guard try (column?.new ?? row[columnIndex]) == actions.value(reference, table, columnIndex) else { return nil }
                old[columnIndex] = column?.old ?? row[columnIndex]
            }
            return table.parentName(number, in: old)
        }
    }
}

/// What SET NULL and SET DEFAULT make of the columns of a foreign key.
struct OnDeleteValues {
    let source: any RowSource

    func value(_ reference: MergeTable.Reference, _ table: MergeTable, _ columnIndex: Int) throws -> Value {
        reference.onDelete == .setDefault ? try source.defaultValue(of: columnIndex, in: table) : .null
    }

    /// The values of all its columns. nil if it declares neither, or if they may not be NULL.
    func values(_ reference: MergeTable.Reference, _ table: MergeTable) throws -> [Value]? {
        guard reference.onDelete == .setNull || reference.onDelete == .setDefault else { return nil }
        let values = try reference.columnIndexes.map { try value(reference, table, $0) }
        for (columnIndex, value) in zip(reference.columnIndexes, values) where value.isNull {
            if table.columns[columnIndex].isNotNull || table.primaryKey.contains(columnIndex) { return nil }
        }
        return values
    }
}
