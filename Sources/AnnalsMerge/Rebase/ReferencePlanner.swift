import AnnalsCore

/// References name rows too (merge rules 24, 31 and 32). They follow parents to their present keys. A reference to a
/// parent that is deleted or set aside does what its foreign key declares, even if another row has that key now.
struct ReferencePlanner {
    let state: RebaseState

    /// Settles the references that the transaction sets in a row, and merges the columns that waited for that.
    func settle(row number: Int) throws {
        guard state.rows[number].referenceProgress == .planned else { return }
        state.rows[number].referenceProgress = .running
        if !state.rows[number].table.referenceColumns.isEmpty {
            if let tombstone = state.tombstone(of: state.rows[number]) { try settleParents(ofRestored: number, tombstone) }
            for index in state.changes(of: number) { try settle(change: index, number) }
        }
        if state.rows[number].referenceProgress == .running { state.rows[number].referenceProgress = .settled }
    }

    /// If references of a row are part of its key, the key is known only when they are settled.
    func settleIfNamedByReferences(_ number: Int, _ columnIndexes: [Int]) throws {
        guard columnIndexes.contains(where: state.rows[number].table.referenceColumns.contains) else { return }
        try settle(row: number)
    }

    // MARK: Changes

    private func settle(change index: Int, _ number: Int) throws {
        guard state.outcomes[index].loss == nil, !state.outcomes[index].isSettled, let after = state.rows[number].after,
            !state.isDelete(index)
        else { return }
        let table = state.rows[number].table
        var wanted = after
        for column in state.outcomes[index].requested { wanted[column.columnIndex] = column.new }
        let own = state.rows[number].isInserted ? Set(wanted.indices) : Set(state.outcomes[index].requested.map(\.columnIndex))
        let requested = wanted
        for (foreignKey, reference) in table.references.enumerated() where reference.usedColumnIndexes.contains(where: own.contains) {
            try settle(foreignKey, of: index, number, requested: requested, wanted: &wanted)
            guard state.outcomes[index].loss == nil else { return }
        }
        try write(index, number, wanted, own)
    }

    /// One foreign key of a row: what its columns are to be, as the parent is named now.
    private func settle(_ foreignKey: Int, of index: Int, _ number: Int, requested: [Value], wanted: inout [Value]) throws {
        let table = state.rows[number].table
        if state.decisions.contains(.loseReference(index, foreignKey: foreignKey)) {
            return try lose(foreignKey, of: index, number, wanted: &wanted)
        }
        guard let name = table.parentName(foreignKey, in: requested) else { return }
        switch try ParentResolver(state: state).parent(named: name) {
        case .unchanged: return
        case .alive(let parent): table.follow(foreignKey, parent, in: &wanted)
        case .setAside: try lose(foreignKey, of: index, number, wanted: &wanted)
        case .dead(let rowID, let tombstone):
            if table.references[foreignKey].onDelete == .refuse,
                let parent = try RevivalPlanner(state: state).restore(rowID, tombstone, Cause(index, .revival(rowID)))
            {
                try settleIfNamedByReferences(parent, name.columnIndexes)
                if let row = state.rows[parent].after { return table.follow(foreignKey, row, in: &wanted) }
            }
            try lose(foreignKey, of: index, number, wanted: &wanted)
        }
    }

    /// Writes the columns of references as parents are named now. A new row simply has them.
    private func write(_ index: Int, _ number: Int, _ wanted: [Value], _ own: Set<Int>) throws {
        let table = state.rows[number].table
        for position in state.outcomes[index].requested.indices {
            let columnIndex = state.outcomes[index].requested[position].columnIndex
            guard state.outcomes[index].losses[columnIndex] == nil else { continue }
            state.outcomes[index].requested[position].new = wanted[columnIndex]
        }
        if state.rows[number].isInserted {
            state.rows[number].after = wanted
            return try InsertPlanner(state: state).joinByReferenceKey(index, number)
        }
        for column in state.outcomes[index].requested where table.referenceColumns.contains(column.columnIndex) {
            try CellPlanner(state: state).merge(index, number, column)
        }
        // In a compound foreign key, columns that the change did not set may have other values now too.
        for columnIndex in table.referenceColumns where !own.contains(columnIndex) {
            guard let stored = state.rows[number].after?[columnIndex], stored != wanted[columnIndex] else { continue }
            state.rows[number].after?[columnIndex] = wanted[columnIndex]
            state.rows[number].effects[columnIndex] = state.outcomes[index].nulled[columnIndex].map { .changed($0) } ?? .followed
            state.rows[number].cause = Cause(index)
        }
    }

    /// A reference to a parent that is deleted or set aside. SET NULL and SET DEFAULT are done. Otherwise an insert is set
    /// aside with its parent, and an update loses the columns.
    private func lose(_ foreignKey: Int, of index: Int, _ number: Int, wanted: inout [Value]) throws {
        let table = state.rows[number].table
        let reference = table.references[foreignKey]
        let reason = Reason.declared(.foreignKey)
        let isTried =
            state.decisions.contains(.loseReference(index, foreignKey: foreignKey))
            && state.decisions.givenUp(index)[reference.columnIndexes[0]] != nil
        if !isTried, let values = try OnDeleteValues(source: state.source).values(reference, table) {
            for (columnIndex, value) in zip(reference.columnIndexes, values) {
                wanted[columnIndex] = value
                state.outcomes[index].nulled[columnIndex] = reason
            }
        } else if state.isInsert(index), state.rows[number].before == nil {
            InsertPlanner(state: state).setAside(index, reason)
        } else {
            for columnIndex in reference.columnIndexes {
                state.outcomes[index].losses[columnIndex] = reason
                if let stored = state.rows[number].after?[columnIndex] { wanted[columnIndex] = stored }
            }
        }
    }

    // MARK: Restored rows

    /// The references of a restored row name the parents that it had when it was deleted.
    private func settleParents(ofRestored number: Int, _ tombstone: RowIdentities.Tombstone) throws {
        let table = state.rows[number].table
        let own = Set(state.changes(of: number).flatMap { state.outcomes[$0].requested.map(\.columnIndex) })
        for (foreignKey, reference) in table.references.enumerated() where !reference.usedColumnIndexes.contains(where: own.contains) {
            guard let occupant = tombstone.parents[foreignKey], let name = table.parentName(foreignKey, in: tombstone.row) else { continue }
            switch try ParentResolver(state: state).parent(occupant, name) {
            case .unchanged: continue
            case .alive(let parent):
                var row = state.rows[number].after ?? tombstone.row
                table.follow(foreignKey, parent, in: &row)
                state.rows[number].after = row
            case .dead(let rowID, let parentTombstone):
                let cause = Cause(state.rows[number].cause.change, .revival(rowID))
                if reference.onDelete == .refuse, try RevivalPlanner(state: state).restore(rowID, parentTombstone, cause) != nil {
                    continue
                }
                try loseParent(ofRestored: number, foreignKey)
            case .setAside: try loseParent(ofRestored: number, foreignKey)
            }
        }
    }

    private func loseParent(ofRestored number: Int, _ foreignKey: Int) throws {
        let table = state.rows[number].table
        let reference = table.references[foreignKey]
        if let values = try OnDeleteValues(source: state.source).values(reference, table) {
            for (columnIndex, value) in zip(reference.columnIndexes, values) { state.rows[number].after?[columnIndex] = value }
        } else if let rowID = state.rows[number].rowID {
            state.need(.leaveDead(rowID))
        }
    }
}

extension MergeTable {
    /// Changes the columns of a foreign key so that they name this parent row.
    func follow(_ foreignKey: Int, _ parent: [Value], in row: inout [Value]) {
        guard let naming = references[foreignKey].parent else { return }
        // A value that names the parent already keeps its form: '7' may reference 7.
        if naming.index.name(of: parent) == naming.name(in: row) { return }
        for (columnIndex, parentColumn) in zip(naming.columnIndexes, naming.index.columnIndexes) { row[columnIndex] = parent[parentColumn] }
    }
}
