import AnnalsCore

/// Inserts (merge rule 25). A free key is used. An integer key that is taken gives way to the next number. Any other key
/// that is taken means one row.
struct InsertPlanner {
    let state: RebaseState

    func plan(_ index: Int, _ table: MergeTable, _ row: [Value]) {
        state.outcomes[index].requested = row.indices.map { RequestedColumn($0, old: nil, new: row[$0]) }
        add(index, table, row)
    }

    /// Puts a new row into play. A row that is set aside comes into play too, because others may refer to it.
    func add(_ index: Int, _ table: MergeTable, _ row: [Value]) {
        var entry = RebasedRow(table: table, before: nil, after: row, cause: Cause(index))
        entry.mark = state.transaction.changes[index].mark
        state.rows.append(entry)
        let number = state.rows.count - 1
        state.outcomes[index].row = number
        state.request(table.names(of: row), for: number)
        if let reason = state.decisions.setAside(index) { setAside(index, reason) }
    }

    func setAside(_ index: Int, _ reason: Reason) {
        state.outcomes[index].loss = reason
        guard let number = state.outcomes[index].row else { return }
        state.rows[number].after = nil
        state.rows[number].end = .setAside
    }

    // MARK: Integer keys

    /// Gives a row another number if its number is taken.
    func number(_ index: Int) throws {
        guard let number = state.plainInsert(index) else { return }
        let table = state.rows[number].table
        guard state.policies(of: table).key == .renumber, let columnIndex = table.rowidAlias,
            !table.referenceColumns.contains(columnIndex), var row = state.rows[number].after, let wanted = row[columnIndex].integer
        else { return }
        // A stored row that is set aside in the transaction's favour is another row still: its number is not free.
        let isSetAside = state.foundNames[table.keyName(of: row)].map { state.rows[$0].end == .setAside } ?? false
        guard try isSetAside || state.occupant(of: row, in: table) != nil else { return }
        if !isSetAside, state.transaction.info.origin == .undo, isInsertedByUndo(table.keyName(of: row)) {
            return try joinIfTaken(index, number)
        }
        var tries = 0
        repeat {
            row[columnIndex] = .integer(try unusedKey(index, table, wanted, tries))
            tries += 1
        } while try state.source.row(named: table.keyName(of: row), in: table) != nil
        state.outcomes[index].renumbered = (.integer(wanted), row[columnIndex])
        state.outcomes[index].requested[columnIndex].new = row[columnIndex]
        state.rows[number].after = row
    }

    /// Whether another replica's undo inserted the row that has a key. Both have restored the row that had the key before.
    private func isInsertedByUndo(_ name: CandidateKey) -> Bool {
        guard case .row(let id) = state.context.rowIdentities.occupant(of: name) else { return false }
        return state.context.rowIdentities[id].insertedBy?.isUndo ?? false
    }

    /// The next number that no row ever had. If a row had the last number of all, which any writer may give it, it is one
    /// of the upper half of the numbers, by digest. So no row gives way for want of a number.
    private func unusedKey(_ index: Int, _ table: MergeTable, _ wanted: Int64, _ tries: Int) throws -> Int64 {
        let highest = max(state.highestKeys[table.canonicalName] ?? 0, wanted)
        if highest < .max {
            state.highestKeys[table.canonicalName] = highest + 1
            return highest + 1
        }
        guard tries < MergeLimits.scatteredKeys else { throw UnsettledTransaction(table: table.name) }
        let seed = "number \(state.transaction.info.id) \(index) \(tries)"
        let digest = Digest.sha256(Array(seed.utf8)[...])
        return digest.bytes.prefix(8).reduce(0) { $0 << 8 | Int64($1) } & .max | 1 << 62
    }

    // MARK: Other keys

    /// Makes an insert one with the row that has its key, if the key is no reference.
    func joinByOwnKey(_ index: Int) throws {
        guard let number = state.plainInsert(index) else { return }
        let table = state.rows[number].table
        guard !table.primaryKey.contains(where: table.referenceColumns.contains) else { return }
        try joinIfTaken(index, number)
    }

    /// The same if the key has a reference, once the reference is settled.
    func joinByReferenceKey(_ index: Int, _ number: Int) throws {
        let table = state.rows[number].table
        guard state.isInsert(index), state.transaction.changes[index].mark == nil,
            table.primaryKey.contains(where: table.referenceColumns.contains)
        else { return }
        try joinIfTaken(index, number)
        guard state.outcomes[index].isJoined, state.outcomes[index].loss == nil, let target = state.outcomes[index].row else { return }
        for column in state.outcomes[index].requested where table.referenceColumns.contains(column.columnIndex) {
            try CellPlanner(state: state).merge(index, target, column)
        }
    }

    /// The insert becomes an update of all columns without old values.
    private func joinIfTaken(_ index: Int, _ number: Int) throws {
        let table = state.rows[number].table
        guard let row = state.rows[number].after, let stored = try state.occupant(of: row, in: table) else { return }
        let target = state.rowNumber(table, stored, nil, Cause(index))
        guard target != number else { return }
        state.rows[number].after = nil
        state.rows[number].end = .joined(target)
        state.request(state.rows[number].requestedNames, for: target)
        state.rows[number].requestedNames = []
        state.outcomes[index].row = target
        state.outcomes[index].isJoined = true
        // Its key too, which may be spelled otherwise under the index's collation.
        state.outcomes[index].requested = state.outcomes[index].requested.map {
            RequestedColumn($0.columnIndex, old: nil, new: row[$0.columnIndex], written: $0.written)
        }
        try CellPlanner(state: state).mergeOwnColumns(index)
    }
}
