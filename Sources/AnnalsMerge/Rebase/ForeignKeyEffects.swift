package import AnnalsCore

/// What a foreign key declares for a child that the author of the transaction had not seen.
package struct ForeignKeyEffect {
    package let table: MergeTable
    /// The child as it is stored.
    package let row: [Value]
    /// The child as it is to be. nil if it is deleted.
    package let new: [Value]?
    let cause: Cause
    /// Why the child is changed. nil if it follows its parent.
    let reason: Reason?
}

/// A candidate key that a row had before the transaction, and that another row has after it.
package struct ReassignedKey {
    package let name: CandidateKey
    package let table: MergeTable
    /// The row that had the key, as it was found.
    package let row: [Value]
    let number: Int
}

/// What foreign keys declare for rows that the author had not seen (merge rules 27 and 31). Children of a parent that has
/// another key now follow it. Children of a parent that is gone do what ON DELETE declares, as part of the transaction.
struct ForeignKeyEffects {
    let state: RebaseState

    /// The effect on a child without its parent. nil if a decision is needed instead, or if the transaction did not cause
    /// it.
    func effect(on row: [Value], in table: MergeTable, _ foreignKey: Int) throws -> ForeignKeyEffect? {
        let reference = table.references[foreignKey]
        let columnIndexes = reference.usedColumnIndexes
        if let number = state.presentKeys[table.keyName(of: row)],
            state.rows[number].before.map({ before in columnIndexes.contains { before[$0] != row[$0] } }) ?? true
        {
            // A program may write a reference without a parent if the schema does not declare it.
            if reference.isDeclared { giveUpReference(of: number, foreignKey) }
            return nil
        }
        // A reference that was broken before the transaction is not its effect.
        guard let name = table.parentName(foreignKey, in: row), let parent = state.formerNames[name] else { return nil }
        guard reference.isDeclared || !hasAuthorLeft(row, in: table, columnIndexes, without: parent) else { return nil }
        return try effect(on: row, in: table, foreignKey, parent: parent)
    }

    /// Whether the author itself took the parent away from a child that it had seen. SQLite did not prevent it, and it stays so.
    private func hasAuthorLeft(_ row: [Value], in table: MergeTable, _ columnIndexes: [Int], without parent: Int) -> Bool {
        guard state.rows[parent].cause.via == .change else { return false }
        return !hasOtherWriter(row, in: table, columnIndexes)
    }

    /// Whether another author wrote one of these columns after the base of the transaction.
    private func hasOtherWriter(_ row: [Value], in table: MergeTable, _ columnIndexes: [Int]) -> Bool {
        let name = table.keyName(of: row)
        guard let rowID = state.presentKeys[name].flatMap({ state.rows[$0].rowID }) ?? state.rowID(of: name) else { return false }
        return columnIndexes.contains { state.context.rowIdentities[rowID].writer(of: $0) != nil }
    }

    // MARK: Keys that another row has now

    /// In the order of the rows in play.
    func reassignedKeys() -> [ReassignedKey] {
        guard !state.formerNames.isEmpty else { return [] }
        var given: Set<CandidateKey> = []
        for row in state.rows where row.table.isReferenced && row.before != row.after {
            if let after = row.after { given.formUnion(row.table.names(of: after)) }
        }
        return state.rows.indices.flatMap { number in
            let row = state.rows[number]
            guard row.table.isReferenced, let before = row.before, before != row.after else { return [ReassignedKey]() }
            return row.table.names(of: before).filter { state.formerNames[$0] == number && given.contains($0) }
                .map { ReassignedKey(name: $0, table: row.table, row: before, number: number) }
        }
    }

    /// The reference has a parent, but not the one that its author meant. nil if the transaction set the reference, or if no other
    /// author wrote it after the transaction's base: then the transaction's author had seen it, and left it.
    func effect(on row: [Value], in table: MergeTable, _ foreignKey: Int, to key: ReassignedKey) throws -> ForeignKeyEffect? {
        guard table.parentName(foreignKey, in: row) == key.name else { return nil }
        let columnIndexes = table.references[foreignKey].usedColumnIndexes
        if let number = state.presentKeys[table.keyName(of: row)] {
            guard let before = state.rows[number].before, columnIndexes.allSatisfy({ before[$0] == row[$0] }) else { return nil }
        }
        guard hasOtherWriter(row, in: table, columnIndexes) else { return nil }
        return try effect(on: row, in: table, foreignKey, parent: key.number)
    }

    /// The transaction set the reference. It does what the foreign key declares, then loses the columns, then all.
    private func giveUpReference(of number: Int, _ foreignKey: Int) {
        let reason = Reason.declared(.foreignKey)
        let causes = ConstraintCauses(state: state)
        guard let change = causes.change(of: number) else {
            if state.rows[number].revives != nil, let rowID = state.rows[number].rowID { return state.need(.leaveDead(rowID)) }
            return causes.undo(state.rows[number].cause, reason)
        }
        let columnIndexes = state.rows[number].table.references[foreignKey].columnIndexes
        let lose = Decisions.Decision.loseReference(change, foreignKey: foreignKey)
        let giveUp = Decisions.Decision.giveUp(change, columns: columnIndexes, reason)
        if !state.decisions.contains(lose) {
            state.need(lose)
        } else if state.rows[number].before != nil, !state.decisions.contains(giveUp) {
            state.need(giveUp)
        } else {
            state.need(.setAside(change, reason))
        }
    }

    /// The transaction took the parent away from a child that it did not touch, or touched elsewhere.
    private func effect(on row: [Value], in table: MergeTable, _ foreignKey: Int, parent: Int) throws -> ForeignKeyEffect? {
        let reference = table.references[foreignKey]
        let reason = Reason.declared(.foreignKey)
        let cause = state.rows[parent].cause
        if let parentRow = state.rows[state.resolved(parent)].after {
            var new = row
            table.follow(foreignKey, parentRow, in: &new)
            return ForeignKeyEffect(table: table, row: row, new: new, cause: cause, reason: nil)
        }
        switch reference.onDelete {
        case .cascade: return ForeignKeyEffect(table: table, row: row, new: nil, cause: cause, reason: reason)
        case .setNull, .setDefault:
            if let values = try OnDeleteValues(source: state.source).values(reference, table) {
                var new = row
                for (columnIndex, value) in zip(reference.columnIndexes, values) { new[columnIndex] = value }
                // The default may name the very parent that is deleted.
                if table.parentName(foreignKey, in: new) != table.parentName(foreignKey, in: row) {
                    return ForeignKeyEffect(table: table, row: row, new: new, cause: cause, reason: reason)
                }
            }
        case .refuse: break
        }
        refuseRemoval(of: parent, reason)
        return nil
    }

    private func refuseRemoval(of parent: Int, _ reason: Reason) {
        let cause = state.rows[parent].cause
        if cause.via == .change {
            state.need(.setAside(cause.change, reason))
        } else {
            ConstraintCauses(state: state).undo(cause, reason)
        }
    }

    // MARK: Effects that were written

    func performed(_ effect: ForeignKeyEffect) {
        let (table, row) = (effect.table, effect.row)
        let number = numberInPlay(row, table, effect.cause)
        if let new = effect.new {
            for columnIndex in new.indices where row[columnIndex] != new[columnIndex] {
                state.rows[number].effects[columnIndex] = effect.reason.map { .changed($0) } ?? .followed
            }
        } else {
            state.rows[number].removal = effect.reason
        }
        state.presentKeys[table.keyName(of: row)] = nil
        state.rows[number].after = effect.new
        state.rows[number].cause = effect.cause
        WrittenNames(state: state).note(number)
        // A key that the row had in between may be what its own children name it by.
        for name in table.names(of: row) { state.formerNames[name] = number }
        if let new = effect.new {
            for name in table.names(of: new) { state.formerNames[name] = nil }
        }
    }

    private func numberInPlay(_ row: [Value], _ table: MergeTable, _ cause: Cause) -> Int {
        let name = table.keyName(of: row)
        if let number = state.presentKeys[name] { return number }
        let number = state.rowNumber(table, row, nil, cause)
        state.presentKeys[name] = number
        return number
    }
}

/// Which row in play has which key, and which had it, as rows are written.
struct WrittenNames {
    let state: RebaseState

    func note(_ number: Int) {
        let table = state.rows[number].table
        let names = state.rows[number].after.map { table.isReferenced ? table.names(of: $0) : [table.keyName(of: $0)] } ?? []
        if let key = names.first { state.presentKeys[key] = number }
        guard table.isReferenced, let before = state.rows[number].before else { return }
        for name in table.names(of: before) where !names.contains(name) { state.formerNames[name] = number }
    }
}
