import AnnalsCore
import AnnalsMerge
import GRDB

/// Foreign keys while laying on: references are names too, and what dangles is settled by the key's declared action.
extension LayAttempt {
    // MARK: Who is meant

    /// Where the row is that the transaction calls by this key: the life that was there when it was written.
    func fate(_ meant: RowReference) throws -> Fate {
        var row = meant
        let table = try layOn.table(meant.table)
        switch names[meant] {
        case .setAside?:
            return .setAside
        case .now(let key)?:
            if let stored = try table.row(key) { return .alive(key: key, row: stored) }
            row.key = key
        case nil:
            if let stored = try table.row(row.key), !layOn.marks.isAnotherLife(row) {
                return .alive(key: table.key(of: stored), row: stored)
            }
        }
        var followed: Set<RowReference> = []
        while let tombstone = layOn.marks.deaths[row], followed.insert(row).inserted {
            switch tombstone.link {
            case .dead: return .dead(tombstone)
            case .merged, .setAside: return .setAside
            case .moved(let key):
                row.key = key
                if let stored = try table.row(key) { return .alive(key: key, row: stored) }
            }
        }
        return .nothing
    }

    // MARK: References of a row that is written

    /// The row with its references to renamed parents followed, and those to dead ones settled.
    ///
    /// `changed` are the columns that the transaction sets; nil for a whole row.
    func resolveReferences(_ index: Int, _ table: RowTable, _ wanted: [Value], changed: Set<Int>?) throws -> [Value] {
        guard table.hasReferences else { return wanted }
        var row = wanted
        let decided = decisions.of(index)
        for (number, key) in table.references.enumerated() {
            if let changed, !key.places.contains(where: changed.contains) { continue }
            if decided.contains(.nullReference(number)) {
                setNull(table, key, in: &row, wanted: wanted)
                continue
            }
            guard let parent = try parentReference(key, in: wanted), try isInDoubt(parent) else { continue }
            switch try fate(parent) {
            case .alive(let now, _):
                try follow(key, to: now, in: &row)
            case .dead, .setAside:
                try settleLost(index, table, number, key, in: &row, wanted: wanted)
            case .nothing:
                continue
            }
        }
        return row
    }

    /// The parent row that a foreign key calls, when it references the parent's primary key and is not NULL.
    private func parentReference(_ key: ParentReference, in row: [Value]) throws -> RowReference? {
        guard !key.places.contains(where: { row[$0].isNull }), let parent = try? layOn.table(key.parentTable) else { return nil }
        let order = parent.definition.primaryKey.map { place in
            key.parentColumns.firstIndex { parent.definition.place(of: $0) == place }
        }
        guard order.count == key.parentColumns.count, !order.contains(nil) else { return nil }
        return RowReference(parent.name, order.compactMap { $0.map { row[key.places[$0]] } })
    }

    private func isInDoubt(_ row: RowReference) throws -> Bool {
        names[row] != nil || layOn.marks.deaths[row] != nil
    }

    private func follow(_ key: ParentReference, to parentKey: [Value], in row: inout [Value]) throws {
        let parent = try layOn.table(key.parentTable)
        for (part, place) in parent.definition.primaryKey.enumerated() {
            guard let column = key.parentColumns.firstIndex(where: { parent.definition.place(of: $0) == place }) else { continue }
            row[key.places[column]] = parentKey[part]
        }
    }

    private func settleLost(
        _ index: Int, _ table: RowTable, _ number: Int, _ key: ParentReference, in row: inout [Value], wanted: [Value]
    ) throws {
        if key.onDelete == .setNull, key.places.allSatisfy({ !table.definition.columns[$0].isNotNull }) {
            setNull(table, key, in: &row, wanted: wanted)
        } else if case .update = transaction.changes[index].change, !decisions.of(index).contains(.dropReference(number)) {
            throw decide(index, .dropReference(number))
        } else {
            throw decide(index, .setAside(.foreignKey))
        }
    }

    private func setNull(_ table: RowTable, _ key: ParentReference, in row: inout [Value], wanted: [Value]) {
        for place in key.places { row[place] = .null }
        note(
            .foreignKey, RowReference(table.name, table.key(of: wanted)), columns: key.places.map { table.definition.columns[$0].name },
            base: nil, stored: key.places.map { _ in .null }, incoming: key.places.map { wanted[$0] }, winner: .stored)
    }

    // MARK: What dangles at the end

    /// Does what the keys declare to children whose parent is gone, as part of the transaction, until nothing dangles.
    func settleReferences() throws {
        for _ in 0..<ApplyLimits.decisionRounds {
            let dangling = try layOn.session.checks.dangling()
            guard !dangling.isEmpty else { return }
            for reference in dangling { try settle(reference) }
        }
        throw MergeError.unsettled(table: "")
    }

    private func settle(_ dangling: ReferenceChecks.Dangling) throws {
        let table = try layOn.table(dangling.child.table)
        let key = table.references[dangling.foreignKey]
        guard let row = try table.row(dangling.child.key) else { return }
        if let cause = causes[dangling.child] {
            throw decide(cause, childDecision(cause, table, dangling.foreignKey, key))
        }
        guard let (cause, parent) = try removedParent(key, row) else {
            throw MergeError.danglingReference(table: table.name, key: dangling.child.key, parent: key.parentTable)
        }
        if let target = moved[parent] {
            var new = row
            try follow(key, to: target, in: &new)
            try effect(cause, table, old: row, new: new)
            return
        }
        switch key.onDelete {
        case .cascade:
            try table.delete(row)
            layOn.session.checks.noteGone(table, row)
            rows.record(table, old: row, new: nil)
            causes[dangling.child] = cause
            note(.foreignKey, dangling.child, base: row, stored: row, incoming: nil, winner: .incoming)
        case .setNull where key.places.allSatisfy { !table.definition.columns[$0].isNotNull }:
            var new = row
            for place in key.places { new[place] = .null }
            let columns = key.places.map { table.definition.columns[$0].name }
            let lost = key.places.map { row[$0] }
            note(
                .foreignKey, dangling.child, columns: columns, base: lost, stored: lost, incoming: lost.map { _ in .null },
                winner: .incoming)
            try effect(cause, table, old: row, new: new)
        default:
            throw try refuseDelete(cause, parent)
        }
    }

    private func childDecision(_ cause: Int, _ table: RowTable, _ number: Int, _ key: ParentReference) -> Decisions.Kind {
        let nullable = key.places.allSatisfy { !table.definition.columns[$0].isNotNull && !table.definition.primaryKey.contains($0) }
        let decided = decisions.of(cause)
        if key.onDelete == .setNull, nullable, !decided.contains(.nullReference(number)) { return .nullReference(number) }
        if case .update = transaction.changes[cause].change, !decided.contains(.dropReference(number)) { return .dropReference(number) }
        return .setAside(.foreignKey)
    }

    /// Which change took away the parent that a row references.
    private func removedParent(_ key: ParentReference, _ row: [Value]) throws -> (cause: Int, parent: RowReference)? {
        if let parent = try parentReference(key, in: row) {
            if let cause = causes[parent] { return (cause, parent) }
            if let target = moved[parent], let cause = causes[RowReference(parent.table, target)] { return (cause, parent) }
        }
        let parent = try layOn.table(key.parentTable)
        let tuple = key.places.map { row[$0] }
        for entry in rows.effective(tableOrder: [:]) where entry.table.name == parent.name {
            guard let old = entry.old else { continue }
            let columns = key.parentColumns.compactMap { parent.definition.place(of: $0) }
            guard columns.map({ old[$0] }) == tuple else { continue }
            let reference = RowReference(parent.name, parent.key(of: entry.new ?? old))
            if let cause = causes[reference] { return (cause, RowReference(parent.name, parent.key(of: old))) }
        }
        return nil
    }

    private func effect(_ cause: Int, _ table: RowTable, old: [Value], new: [Value]) throws {
        do {
            if table.key(of: old) == table.key(of: new) {
                try table.update(old, to: new)
            } else {
                let rowid = try table.remove(table.key(of: old))
                try table.restore(old, as: new, rowid: rowid)
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw decide(cause, .setAside(constraintKind(error)))
        }
        try written(cause, table, old: old, new: new)
    }

    /// A delete whose unseen children forbid it; what it took along by CASCADE or SET NULL shares its fate.
    private func refuseDelete(_ cause: Int, _ parent: RowReference) throws -> BrokenTry {
        let refused = try refusedDeletes().union([parent])
        for (index, change) in transaction.changes.enumerated() where index != cause && decisions.setAside(index) == nil {
            let table = try layOn.table(change.table)
            for key in table.references {
                guard let before = rowBefore(change.change, count: table.columnCount),
                    let meant = try parentReference(key, in: before), refused.contains(meant)
                else { continue }
                if case .delete = change.change, key.onDelete == .cascade { return decide(index, .setAside(.foreignKey)) }
                if case .update(_, let columns) = change.change, key.onDelete == .setNull,
                    columns.allSatisfy({ key.places.contains($0.column) && $0.new.isNull })
                {
                    return decide(index, .setAside(.foreignKey))
                }
            }
        }
        return decide(cause, .setAside(.foreignKey))
    }

    /// Rows whose delete has been refused so far.
    private func refusedDeletes() throws -> Set<RowReference> {
        var rows: Set<RowReference> = []
        for (index, change) in transaction.changes.enumerated() {
            guard case .delete(let old) = change.change, decisions.setAside(index) == .foreignKey else { continue }
            rows.insert(RowReference(change.table, try layOn.table(change.table).key(of: old)))
        }
        return rows
    }

    /// The old row as far as the change itself knows it; other columns are NULL.
    private func rowBefore(_ change: RowChange, count: Int) -> [Value]? {
        switch change {
        case .delete(let old): return old
        case .insert: return nil
        case .update(_, let columns):
            var row = [Value](repeating: .null, count: count)
            for column in columns { row[column.column] = column.old }
            return row
        }
    }
}
