import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema

/// The conflict journal (merge rule 34), computed from the rows before and after and from what the transaction asked for:
///
/// - (a) every value that it asked for and its row does not hold, and every delete that was refused;
/// - (b) every value that was stored and is no more, unless it asked for its removal having seen that value;
/// - (c) every delete of another author's that is taken back.
///
/// Combined values lose nothing, and a reference that calls the same parent by its present name is the same value.
extension RebaseAttempt {
    func journalEntries() throws -> [JournalEntry] {
        var entries: [JournalEntry] = []
        for index in verdicts.indices { entries += try refusedValues(index) }
        for number in rows.indices {
            entries += try overwrittenValues(number)
            entries += takenBackDelete(number)
        }
        return entries
    }

    /// Why a table that is settled as a whole lost something, so that all of the transaction is to be set aside.
    func lossInWholeTable() throws -> Reason? {
        guard decisions.reasonForAll == nil else { return nil }
        for index in verdicts.indices where rules(try rebase.table(transaction.changes[index].table)).isWhole {
            let lost = try refusedValues(index).first { $0.winner == .stored }
            if let lost { return Reason(kind: lost.kind, policy: "whole") }
        }
        return nil
    }

    // MARK: (a)

    private func refusedValues(_ index: Int) throws -> [JournalEntry] {
        let change = transaction.changes[index]
        let table = try rebase.table(change.table)
        let verdict = verdicts[index]
        let after = verdict.row.flatMap { rows[$0].after }
        switch change.change {
        case .delete(let old):
            guard let reason = verdict.loss, after != nil || verdict.row == nil else { return [] }
            return [entry(reason, table, table.key(of: old), base: old, stored: after, winner: .stored)]
        case .insert(let row):
            guard after != nil || change.mark != nil else {
                return [entry(reason(index, nil), table, table.key(of: row), incoming: row, winner: .stored)]
            }
            return renumbering(index, table, row) + refusedColumns(index, table, table.key(of: row), after)
        case .update(let key, _):
            return refusedColumns(index, table, key, after)
        }
    }

    private func renumbering(_ index: Int, _ table: RowTable, _ row: [Value]) -> [JournalEntry] {
        guard let (asked, given) = verdicts[index].renumbered, let place = table.definition.rowidAlias else { return [] }
        let reason = Reason(kind: .renumber, policy: KeyRule.renumber.rawValue)
        return [
            entry(reason, table, table.key(of: row), columns: [place], stored: [asked], incoming: [given], winner: .incoming)
        ]
    }

    private func refusedColumns(_ index: Int, _ table: RowTable, _ key: [Value], _ after: [Value]?) -> [JournalEntry] {
        let verdict = verdicts[index]
        let lost = verdict.asked.filter { column in
            guard !column.isImplied, let after else { return !column.isImplied }
            // A reference that was given up or nulled is called otherwise now than it was written.
            let isGivenUp = verdict.nulled[column.column] != nil || verdict.losses[column.column] != nil
            if isGivenUp, after[column.column] != column.written { return true }
            if isGivenUp || after[column.column] == column.new { return isRefusedDifference(index, column) }
            return !verdict.combined.contains(column.column)
        }
        return groups(lost) { reason(index, $0.column) }.map { reason, columns in
            let base = columns.compactMap(\.old)
            return entry(
                reason, table, key, columns: columns.map(\.column), base: base.count == columns.count ? base : nil,
                stored: after.map { after in columns.map { after[$0.column] } }, incoming: columns.map(\.written), winner: .stored)
        }
    }

    /// A column that combines was asked for a difference: that its value happens to be there does not mean that it was granted.
    private func isRefusedDifference(_ index: Int, _ column: AskedColumn) -> Bool {
        guard let number = verdicts[index].row, let old = column.old, rows[number].before?[column.column] != old else { return false }
        let isRefused = verdicts[index].loss != nil || verdicts[index].losses[column.column] != nil
        return isRefused && columnPolicy(number, column.column) == .sum
    }

    private func reason(_ index: Int, _ column: Int?) -> Reason {
        let verdict = verdicts[index]
        let row = verdict.row.map { rows[$0] }
        if let reason = verdict.loss { return reason }
        if let column {
            if let reason = verdict.losses[column] ?? verdict.nulled[column] { return reason }
            if case .changed(let reason)? = row?.effects[column] { return reason }
        }
        return row?.removal ?? Reason(kind: .foreignKey, policy: Reason.declared)
    }

    // MARK: (b)

    private func overwrittenValues(_ number: Int) throws -> [JournalEntry] {
        guard let before = rows[number].before, rows[number].after != before else { return [] }
        let row = rows[number]
        guard let after = row.after else { return removedRow(row, number, before) }
        var lost: [(column: AskedColumn, reason: Reason)] = []
        var key = row.table.key(of: before)
        for place in before.indices where before[place] != after[place] {
            switch row.effects[place] {
            case .followed?: continue
            case .changed(let reason)?: lost.append((AskedColumn(place, old: nil, new: after[place]), reason))
            case nil:
                guard let (index, column) = asker(of: number, place), !verdicts[index].combined.contains(place),
                    column.old != before[place]
                else { continue }
                if let meant = meantKey(index, row.table) { key = meant }
                lost.append((column, winningReason(index, number, place)))
            }
        }
        return groups(lost) { $0.reason }.map { reason, columns in
            let base = columns.compactMap(\.column.old)
            let places = columns.map(\.column.column)
            return entry(
                reason, row.table, key, columns: places, base: base.count == places.count ? base : nil,
                stored: places.map { before[$0] }, incoming: places.map { after[$0] }, winner: .incoming)
        }
    }

    private func removedRow(_ row: RebasedRow, _ number: Int, _ before: [Value]) -> [JournalEntry] {
        let key = row.table.key(of: before)
        let index = row.cause.change
        if row.removal == nil, row.cause.via == .change, case .delete(let old) = transaction.changes[index].change {
            if old == before { return [] }
            let mark = row.life.flatMap { lineage[$0].latestWriter }
            let reason = Reason(kind: .deleteOfUpdated, policy: rules(row.table).delete.rawValue, mark: mark)
            return [entry(reason, row.table, row.table.key(of: old), base: old, stored: before, winner: .incoming)]
        }
        let reason = row.removal ?? Reason(kind: .foreignKey, policy: Reason.declared)
        return [entry(reason, row.table, key, stored: before, winner: .incoming)]
    }

    /// The last change that asked for a column and has it.
    private func asker(of number: Int, _ place: Int) -> (Int, AskedColumn)? {
        for index in askers(of: number).reversed() where verdicts[index].loss == nil && verdicts[index].losses[place] == nil {
            if let column = verdicts[index].asked.last(where: { $0.column == place }) { return (index, column) }
        }
        return nil
    }

    private func winningReason(_ index: Int, _ number: Int, _ place: Int) -> Reason {
        let table = rows[number].table
        let mark = rows[number].life.flatMap { lineage[$0].writer(of: place) }
        let rules = rules(table)
        let column = policyName(rules.policy(ofColumn: table.definition.columns[place].name))
        let policy = verdicts[index].isByRow ? rules.row?.description ?? column : column
        return Reason(kind: cellKind(index), policy: policy, mark: mark)
    }

    private func meantKey(_ index: Int, _ table: RowTable) -> [Value]? {
        switch transaction.changes[index].change {
        case .insert(let row), .delete(let row): table.key(of: row)
        case .update(let key, _): key
        }
    }

    // MARK: (c)

    private func takenBackDelete(_ number: Int) -> [JournalEntry] {
        guard rows[number].revives != nil else { return [] }
        let row = rows[number]
        guard let after = row.after, let life = row.life, case .dead(let tombstone) = lineage[life].state else {
            return []
        }
        let askers = askers(of: number).filter { verdicts[$0].loss == nil && !verdicts[$0].asked.isEmpty }
        guard !askers.isEmpty else {
            let reason = Reason(kind: .foreignKey, policy: Reason.declared, mark: tombstone.mark)
            return [entry(reason, row.table, row.table.key(of: tombstone.row), base: tombstone.row, incoming: after, winner: .incoming)]
        }
        return askers.map { index in
            let asked = verdicts[index].asked
            let base = asked.compactMap(\.old)
            return entry(
                Reason(kind: .updateOfDeleted, policy: rules(row.table).delete.rawValue, mark: tombstone.mark), row.table,
                meantKey(index, row.table) ?? row.table.key(of: tombstone.row), columns: asked.map(\.column),
                base: base.count == asked.count ? base : nil, incoming: asked.map(\.written), winner: .incoming)
        }
    }
}
