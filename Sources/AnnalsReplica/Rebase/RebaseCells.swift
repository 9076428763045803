import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema

/// Updates, and moves, which are updates that change the key (merge rules 26 and 27).
///
/// Columns that are part of a foreign key wait until the parents' present names are known; the others are merged first,
/// because parents are called by them.
extension RebaseAttempt {
    func mergeOwnColumns(_ index: Int) throws {
        guard let number = mergedRow(index) else { return }
        try settleByRow(index, number)
        guard verdicts[index].loss == nil else { return }
        let table = rows[number].table
        for column in verdicts[index].asked where !table.referencePlaces.contains(column.column) {
            try mergeCell(index, number, column)
        }
    }

    /// The row whose columns the change sets, as long as both stand.
    func mergedRow(_ index: Int) -> Int? {
        guard verdicts[index].loss == nil, let number = verdicts[index].row, rows[number].after != nil else { return nil }
        // A new row holds what it asks for; one that came back, or was joined, is merged into.
        return rows[number].before == nil && rows[number].life == nil ? nil : number
    }

    /// One column, by its policy; `column.new` calls parents by their present names.
    func mergeCell(_ index: Int, _ number: Int, _ column: AskedColumn) throws {
        let place = column.column
        guard !verdicts[index].isSettled, verdicts[index].losses[place] == nil, let stored = rows[number].after?[place] else { return }
        if let reason = givenUp(index, place, rows[number].table) {
            verdicts[index].losses[place] = reason
            return
        }
        if verdicts[index].isByRow {
            set(place, of: number, to: column.new, by: index)
            return
        }
        let policy = columnPolicy(number, place)
        let mark = rows[number].life.flatMap { lineage[$0].writer(of: place) }
        let outcome = try policy.settle(
            base: column.old, stored: stored, incoming: column.new, isContested: mark != nil,
            later: { mark.map { winner(against: $0) } ?? .incoming }, combine: { try combine(policy, number, column, stored) })
        switch outcome {
        case .unchanged: break
        case .combined(let value):
            set(place, of: number, to: value, by: index)
            verdicts[index].combined.insert(place)
        case .incoming: set(place, of: number, to: column.new, by: index)
        case .stored:
            verdicts[index].losses[place] = Reason(kind: cellKind(index), policy: policyName(policy), mark: mark)
        }
    }

    private func set(_ place: Int, of number: Int, to value: Value, by index: Int) {
        guard rows[number].after?[place] != value else { return }
        rows[number].after?[place] = value
        rows[number].cause = Cause(index)
    }

    /// A key is no quantity: its columns are never combined.
    func columnPolicy(_ number: Int, _ place: Int) -> ColumnPolicy {
        let table = rows[number].table
        let policy = rules(table).policy(ofColumn: table.definition.columns[place].name)
        return policy.isCombining && table.definition.primaryKey.contains(place) ? .lastWriterWins : policy
    }

    /// The key of a row that moves is given up as a whole: both halves of a move stand or fall together.
    func givenUp(_ index: Int, _ place: Int, _ table: RowTable) -> Reason? {
        let reasons = decisions.givenUp(index)
        if let reason = reasons[place] { return reason }
        let key = table.definition.primaryKey
        guard key.contains(place) else { return nil }
        return key.lazy.compactMap { reasons[$0] }.first
    }

    private func combine(_ policy: ColumnPolicy, _ number: Int, _ column: AskedColumn, _ stored: Value) throws -> Value? {
        let definition = rows[number].table.definition
        let combined = try rebase.policies.combine(
            policy, base: column.old, stored: stored, incoming: column.new, table: definition.name, column: column.column,
            columns: definition.columns.map(\.name), row: rows[number].after)
        return try combined.map { try session.asStored($0, in: definition.columns[column.column]) }
    }

    /// The policy by which a column was settled after all: what is not combinable goes to the later writer.
    func policyName(_ policy: ColumnPolicy) -> String {
        policy.isCombining ? ColumnPolicy.lastWriterWins.description : policy.description
    }

    func cellKind(_ index: Int) -> JournalEntry.Kind {
        verdicts[index].isJoined ? .insert : .update
    }
}
