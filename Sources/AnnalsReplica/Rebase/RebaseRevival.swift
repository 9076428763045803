import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema

/// Rows that come back (merge rules 29 and 31): whole from their tombstones, marked with the position of the delete that is
/// taken back, so that other authors' children find the life that they mean.
extension RebaseAttempt {
    func meetUpdateOfDead(_ index: Int, _ table: RowTable, _ life: RowLineage.ID, _ tombstone: RowLineage.Tombstone) throws {
        if let reason = decisions.setAside(index) {
            verdicts[index].loss = reason
            return
        }
        let rule = rules(table).delete
        let isBack =
            switch rule {
            case .lastWriterWins: winner(against: tombstone.mark) == .incoming
            case .updateWins: true
            case .deleteWins, .manual: returned[life] != nil
            }
        if isBack, let number = try bringBack(life, tombstone, Cause(index)) {
            verdicts[index].row = number
        } else {
            verdicts[index].loss = Reason(kind: .updateOfDeleted, policy: rule.rawValue, mark: tombstone.mark)
        }
    }

    /// A row that this transaction brought back in an earlier rebase. The delete lies before the pulled entries, so only
    /// its position tells who else means the same life.
    func meetReturning(_ index: Int, _ table: RowTable, _ row: [Value], _ position: Position, _ changed: [ColumnChange]) throws {
        verdicts[index].asked = changed.map { AskedColumn($0.column, old: $0.old, new: $0.new) }
        let name = table.keyName(of: row)
        if let life = lineage.revived(position, at: name) {
            for name in table.names(of: row) { asked[name] = .life(life) }
            try meetReturned(index, table, life)
        } else if let reason = decisions.setAside(index) {
            addNew(index, table, row)
            setInsertAside(index, reason)
        } else if try occupant(of: row, in: table) != nil {
            addNew(index, table, row)
            setInsertAside(index, Reason(kind: .updateOfDeleted, policy: rules(table).delete.rawValue, mark: birth(of: name)))
        } else {
            addNew(index, table, row)
        }
    }

    private func birth(of name: CandidateKey) -> WriteMark? {
        if case .life(let id) = lineage.occupant(of: name) { lineage[id].birth } else { nil }
    }

    /// Somebody else brought the same life back: what is left is an update of the columns that this author changed.
    private func meetReturned(_ index: Int, _ table: RowTable, _ life: RowLineage.ID) throws {
        switch try fate(of: .life(life), in: table) {
        case .alive(let row, _):
            verdicts[index].row = rowNumber(table, row, life, Cause(index))
            verdicts[index].loss = decisions.setAside(index)
        case .dead(_, let tombstone):
            // Without columns of its own it came back for a child, whose reference says whether it does again.
            if !verdicts[index].asked.isEmpty { try meetUpdateOfDead(index, table, life, tombstone) }
        case .merged, .setAside, .nothing:
            verdicts[index].loss = Reason(kind: .updateOfDeleted, policy: rules(table).delete.rawValue)
        }
    }

    /// Puts a dead row into play again, with what the same entry deleted by CASCADE; nil where it cannot come back.
    func bringBack(_ life: RowLineage.ID, _ tombstone: RowLineage.Tombstone, _ cause: Cause) throws -> Int? {
        if let number = returned[life] { return number }
        let table = try rebase.table(tombstone.table)
        // It would come back without what it had in columns that this store lacks.
        guard !(session.kept?.missingSchema.touches(table.first.name) ?? false) else { return nil }
        guard !decisions.contains(.leaveDead(life)), try occupant(of: tombstone.row, in: table) == nil else { return nil }
        var row = RebasedRow(table: table, before: nil, after: tombstone.row, cause: cause)
        row.life = life
        row.revives = tombstone.mark.position
        rows.append(row)
        let number = rows.count - 1
        returned[life] = number
        for (child, childTombstone) in try cascade(from: life, at: tombstone.mark.position) {
            _ = try bringBack(child, childTombstone, Cause(cause.change, .revival(child)))
        }
        return number
    }

    /// The dead children that one entry deleted together with a parent, as far as their keys say CASCADE.
    private func cascade(from parent: RowLineage.ID, at position: Position) throws -> [(RowLineage.ID, RowLineage.Tombstone)] {
        if cascades[position] == nil {
            var children: [RowLineage.ID: [RowLineage.ID]] = [:]
            for child in lineage.ended(at: position) {
                guard case .dead(let tombstone) = lineage[child].state, tombstone.mark.position == position else { continue }
                let keys = try rebase.table(tombstone.table).references
                for (key, parent) in zip(keys, tombstone.parents) where key.onDelete == .cascade {
                    if let parent, case .life(let id) = lineage.known(parent) { children[id, default: []].append(child) }
                }
            }
            cascades[position] = children
        }
        return (cascades[position]?[parent] ?? []).compactMap { child in
            if case .dead(let tombstone) = lineage[child].state { (child, tombstone) } else { nil }
        }
    }

    /// The mark of a row: on one that comes back, the columns that its author changed and their old values.
    package func mark(of row: RebasedRow) throws -> RowMark? {
        guard let position = row.revives, let life = row.life, let after = row.after, case .dead(let tombstone) = lineage[life].state else {
            return row.mark
        }
        let number = returned[life]
        var columns: Set<Int> = []
        for verdict in verdicts where verdict.row == number && verdict.loss == nil {
            columns.formUnion(verdict.asked.map(\.column).filter { verdict.losses[$0] == nil })
        }
        return .revived(
            position,
            changed: columns.sorted().map { ColumnChange(column: $0, old: tombstone.row[$0], new: after[$0]) })
    }
}
