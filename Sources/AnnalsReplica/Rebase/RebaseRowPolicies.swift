import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema

/// Policies of rows (merge rule 26): they apply if anything of the row was written by others meanwhile.
extension RebaseAttempt {
    func settleByRow(_ index: Int, _ number: Int) throws {
        let table = rows[number].table
        guard let policy = rules(table).row, let life = rows[number].life, let mark = lineage[life].latestWriter else { return }
        verdicts[index].isByRow = true
        let reason = Reason(kind: cellKind(index), policy: policy.description, mark: mark)
        switch policy {
        case .rollback, .manual: verdicts[index].loss = reason
        case .overwrite: askForWholeRow(index, number)
        case .custom(let name): try settle(index, number, reason, by: rebase.policies.resolvers[name])
        }
    }

    private func askForWholeRow(_ index: Int, _ number: Int) {
        guard let whole = transaction.wholeRows[index] else { return }
        let key = rows[number].table.definition.primaryKey
        let asked = Set(verdicts[index].asked.map(\.column))
        // The columns that it did not change, as it found them; its key is called by what it asks for alone.
        verdicts[index].asked += whole.after.indices.filter { !asked.contains($0) && !key.contains($0) }
            .map { AskedColumn($0, old: whole.before[$0], new: whole.after[$0], isImplied: true) }
    }

    private func settle(_ index: Int, _ number: Int, _ reason: Reason, by resolver: MergePolicies.RowResolver?) throws {
        let table = rows[number].table
        guard let resolver, let stored = rows[number].after else {
            verdicts[index].loss = reason
            return
        }
        var incoming = transaction.wholeRows[index]?.after ?? stored
        for column in verdicts[index].asked { incoming[column.column] = column.new }
        let conflict = RowConflict(
            table: table.name, columns: table.definition.columns.map(\.name), changed: verdicts[index].asked.map(\.column).sorted(),
            base: transaction.wholeRows[index]?.before, stored: stored, incoming: incoming)
        switch try resolver(conflict) {
        case .unresolved: verdicts[index].loss = Reason(kind: reason.kind, policy: RowPolicy.manual.description, mark: reason.mark)
        case .keepStored: verdicts[index].loss = reason
        case .keepIncoming: askForWholeRow(index, number)
        case .values(let values): try write(values, index, number, reason)
        case .delete:
            verdicts[index].loss = reason
            rows[number].after = nil
            rows[number].cause = Cause(index)
            rows[number].removal = reason
        }
    }

    /// What a custom policy made of the row stands as it is; what the change asked for otherwise is lost.
    private func write(_ values: [String: Value], _ index: Int, _ number: Int, _ reason: Reason) throws {
        let table = rows[number].table
        verdicts[index].isSettled = true
        rows[number].cause = Cause(index)
        for (name, value) in values {
            guard let place = table.definition.place(of: name), !table.definition.primaryKey.contains(place),
                givenUp(index, place, table) == nil
            else { continue }
            rows[number].after?[place] = try session.asStored(value, in: table.definition.columns[place])
            rows[number].effects[place] = .changed(reason)
        }
        for column in verdicts[index].asked {
            verdicts[index].losses[column.column] = givenUp(index, column.column, table) ?? reason
        }
    }
}
