import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema

/// References are names too (merge rules 24, 31 and 32): they follow parents to their present keys, and what calls a parent that
/// is dead or was set aside does what the key declares, even if a stranger has that key now.
extension RebaseAttempt {
    /// Settles the references that the transaction sets in a row, and merges the columns that waited for that.
    package func settleReferences(ofRow number: Int) throws {
        guard rows[number].progress == .planned else { return }
        rows[number].progress = .running
        let table = rows[number].table
        if table.hasReferences {
            if let life = rows[number].life, rows[number].revives != nil, case .dead(let tombstone) = lineage[life].state {
                try settleParents(ofReturned: number, tombstone)
            }
            for index in askers(of: number) { try settleReferences(of: index, number) }
        }
        if rows[number].progress == .running { rows[number].progress = .settled }
    }

    /// The changes that ask something of a row, in the transaction's order.
    func askers(of number: Int) -> [Int] {
        if askersOfRows.isEmpty {
            for (index, verdict) in verdicts.enumerated() {
                if let row = verdict.row { askersOfRows[row, default: []].append(index) }
            }
        }
        return askersOfRows[number] ?? []
    }

    private func settleReferences(of index: Int, _ number: Int) throws {
        guard verdicts[index].loss == nil, !verdicts[index].isSettled, rows[number].after != nil else { return }
        if case .delete = transaction.changes[index].change { return }
        let table = rows[number].table
        var wanted = rows[number].after ?? []
        for column in verdicts[index].asked { wanted[column.column] = column.new }
        let isNew = rows[number].before == nil && rows[number].life == nil
        let own = isNew ? Set(wanted.indices) : Set(verdicts[index].asked.map(\.column))
        let asked = wanted
        for (key, reference) in table.references.enumerated() where reference.places.contains(where: own.contains) {
            try settleReference(index, number, key, asked: asked, wanted: &wanted)
            guard verdicts[index].loss == nil else { return }
        }
        try write(index, number, wanted, own)
    }

    /// Writes reference columns as they are called now; a new row simply has them.
    private func write(_ index: Int, _ number: Int, _ wanted: [Value], _ own: Set<Int>) throws {
        let table = rows[number].table
        for position in verdicts[index].asked.indices {
            let place = verdicts[index].asked[position].column
            guard verdicts[index].losses[place] == nil else { continue }
            verdicts[index].asked[position].new = wanted[place]
        }
        if rows[number].before == nil, rows[number].life == nil {
            rows[number].after = wanted
            try joinByReferenceKey(index, number)
            return
        }
        for column in verdicts[index].asked where table.referencePlaces.contains(column.column) {
            try mergeCell(index, number, column)
        }
        // Of a compound key also columns that the change left alone may be called otherwise now.
        for place in table.referencePlaces where !own.contains(place) {
            guard let stored = rows[number].after?[place], stored != wanted[place] else { continue }
            rows[number].after?[place] = wanted[place]
            rows[number].effects[place] = verdicts[index].nulled[place].map { .changed($0) } ?? .followed
            rows[number].cause = Cause(index)
        }
    }

    private func joinByReferenceKey(_ index: Int, _ number: Int) throws {
        let table = rows[number].table
        guard case .insert = transaction.changes[index].change, transaction.changes[index].mark == nil,
            table.definition.primaryKey.contains(where: table.referencePlaces.contains)
        else { return }
        try joinIfTaken(index, number)
        guard verdicts[index].isJoined, verdicts[index].loss == nil, let target = verdicts[index].row else { return }
        for column in verdicts[index].asked where table.referencePlaces.contains(column.column) {
            try mergeCell(index, target, column)
        }
    }

    /// One foreign key of a row: what its columns are to be, as the parent is called now.
    private func settleReference(_ index: Int, _ number: Int, _ key: Int, asked: [Value], wanted: inout [Value]) throws {
        let table = rows[number].table
        if decisions.contains(.loseReference(index, foreignKey: key)) {
            try lose(index, number, key, asked: asked, wanted: &wanted)
            return
        }
        guard let name = table.parentName(key, in: asked) else { return }
        switch try parent(named: name) {
        case .unchanged: return
        case .called(let parent): follow(table, key, parent, in: &wanted)
        case .lost: try lose(index, number, key, asked: asked, wanted: &wanted)
        case .dead(let life, let tombstone):
            let action = table.references[key].onDelete
            if action == .restrict || action == .noAction,
                let parent = try bringBack(life, tombstone, Cause(index, .revival(life)))
            {
                try settleIfCalledByReferences(parent, name.places)
                if let row = rows[parent].after { return follow(table, key, row, in: &wanted) }
            }
            try lose(index, number, key, asked: asked, wanted: &wanted)
        }
    }

    package func follow(_ table: RowTable, _ key: Int, _ parent: [Value], in row: inout [Value]) {
        guard let naming = table.parents[key] else { return }
        // A value that calls the parent already keeps its form: '7' may reference 7.
        if naming.index.name(of: parent) == naming.name(in: row) { return }
        for (place, parentPlace) in zip(naming.places, naming.index.places) { row[place] = parent[parentPlace] }
    }

    /// A reference to a parent that is dead or was set aside: SET NULL and SET DEFAULT do that; else an insert is set aside
    /// with it, and an update loses the columns.
    private func lose(_ index: Int, _ number: Int, _ key: Int, asked: [Value], wanted: inout [Value]) throws {
        let table = rows[number].table
        let reference = table.references[key]
        let reason = Reason(kind: .foreignKey, policy: Reason.declared)
        let isTried = decisions.contains(.loseReference(index, foreignKey: key)) && decisions.givenUp(index)[reference.places[0]] != nil
        if !isTried, let values = try valuesOnDelete(reference, table) {
            for (place, value) in zip(reference.places, values) {
                wanted[place] = value
                verdicts[index].nulled[place] = reason
            }
        } else if case .insert = transaction.changes[index].change, rows[number].before == nil {
            setInsertAside(index, reason)
        } else {
            for place in reference.places {
                verdicts[index].losses[place] = reason
                if let stored = rows[number].after?[place] { wanted[place] = stored }
            }
        }
    }

    /// What SET NULL or SET DEFAULT makes of a foreign key's columns; nil where it declares neither, or they may not be NULL.
    func valuesOnDelete(_ reference: ParentReference, _ table: RowTable) throws -> [Value]? {
        guard reference.onDelete == .setNull || reference.onDelete == .setDefault else { return nil }
        let values = try reference.places.map { try valueOnDelete(reference, table, $0) }
        for (place, value) in zip(reference.places, values) where value.isNull {
            if table.definition.columns[place].isNotNull || table.definition.primaryKey.contains(place) { return nil }
        }
        return values
    }
}
