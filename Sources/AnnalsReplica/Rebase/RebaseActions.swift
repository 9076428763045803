import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema
import GRDB

/// What foreign keys declare for rows that the transaction's author had not seen (merge rules 27 and 31): children of a parent
/// that is called otherwise now follow it, children of one that is gone do what ON DELETE says, as part of the transaction.
extension RebaseAttempt {
    func doWhatKeysDeclare() throws {
        for _ in 0..<ApplyLimits.effectRounds {
            let dangling = try session.checks.takeDangling()
            guard !dangling.isEmpty else { return }
            for reference in dangling { try settle(reference) }
            guard missing.isEmpty else { return }
        }
        throw MergeError.unsettled(table: transaction.changes.first?.table ?? "")
    }

    private func settle(_ dangling: ReferenceChecks.Dangling) throws {
        let table = try rebase.table(dangling.child.table)
        let reference = table.references[dangling.foreignKey]
        guard let row = try table.row(dangling.child.key), try !session.parentExists(table, reference, row) else { return }
        let number = written[table.keyName(of: row)]
        if let number, rows[number].before.map({ before in reference.places.contains { before[$0] != row[$0] } }) ?? true {
            return payForReference(number, dangling.foreignKey, reference)
        }
        // What nothing in play brought about was there before.
        guard let name = table.parentName(dangling.foreignKey, in: row), let parent = left[name] else { return }
        try act(on: row, in: table, dangling.foreignKey, parent)
    }

    /// The transaction set the reference: its row does what the key declares, then loses the columns, then all.
    private func payForReference(_ number: Int, _ key: Int, _ reference: ParentReference) {
        let reason = Reason(kind: .foreignKey, policy: Reason.declared)
        guard let change = payingChange(of: number) else {
            if rows[number].revives != nil, let life = rows[number].life { return lack(.leaveDead(life)) }
            return charge(rows[number].cause, reason)
        }
        let lose = Decisions.Decision.loseReference(change, foreignKey: key)
        let giveUp = Decisions.Decision.giveUp(change, columns: reference.places, reason)
        if !decisions.contains(lose) {
            lack(lose)
        } else if rows[number].before != nil, !decisions.contains(giveUp) {
            lack(giveUp)
        } else {
            lack(.setAside(change, reason))
        }
    }

    /// A child that the transaction did not touch, or touched elsewhere, whose parent the transaction took away.
    private func act(on row: [Value], in table: RowTable, _ key: Int, _ parent: Int) throws {
        let reference = table.references[key]
        let reason = Reason(kind: .foreignKey, policy: Reason.declared)
        var target = parent
        while let next = rows[target].substitute { target = next }
        if let parentRow = rows[target].after {
            var new = row
            follow(table, key, parentRow, in: &new)
            return try change(row, to: new, in: table, rows[parent].cause) { _ in .followed }
        }
        switch reference.onDelete {
        case .cascade: try remove(row, in: table, rows[parent].cause, reason)
        case .setNull, .setDefault:
            guard let values = try valuesOnDelete(reference, table) else { return refuseRemoval(of: parent, reason) }
            var new = row
            for (place, value) in zip(reference.places, values) { new[place] = value }
            // The default calls the very parent that goes.
            guard table.parentName(key, in: new) != table.parentName(key, in: row) else { return refuseRemoval(of: parent, reason) }
            try change(row, to: new, in: table, rows[parent].cause) { _ in .changed(reason) }
        case .restrict, .noAction: refuseRemoval(of: parent, reason)
        }
    }

    private func refuseRemoval(of parent: Int, _ reason: Reason) {
        let cause = rows[parent].cause
        if cause.via == .change { lack(.setAside(cause.change, reason)) } else { charge(cause, reason) }
    }

    // MARK: Effects

    private func numberInPlay(_ row: [Value], _ table: RowTable, _ cause: Cause) -> Int {
        let name = table.keyName(of: row)
        if let number = written[name] { return number }
        let number = rowNumber(table, row, nil, cause)
        written[name] = number
        return number
    }

    private func remove(_ row: [Value], in table: RowTable, _ cause: Cause, _ reason: Reason) throws {
        let number = numberInPlay(row, table, cause)
        try table.delete(row)
        session.checks.noteGone(table, row)
        written[table.keyName(of: row)] = nil
        rows[number].after = nil
        rows[number].cause = cause
        rows[number].removal = reason
        noteWritten(number)
        // A name that it had in between may be what its own children call it.
        for name in table.names(of: row) { left[name] = number }
    }

    private func change(
        _ row: [Value], to new: [Value], in table: RowTable, _ cause: Cause, _ effect: (Int) -> RebasedRow.Effect
    ) throws {
        let number = numberInPlay(row, table, cause)
        do {
            if table.uniquePlaces.contains(where: { row[$0] != new[$0] }) {
                let rowid = try table.remove(table.key(of: row))
                try table.restore(row, as: new, rowid: rowid)
            } else {
                try table.update(row, to: new)
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            return charge(cause, Reason(kind: constraintKind(error), policy: Reason.declared))
        }
        for place in new.indices where row[place] != new[place] { rows[number].effects[place] = effect(place) }
        written[table.keyName(of: row)] = nil
        rows[number].after = new
        rows[number].cause = cause
        for name in table.names(of: row) { left[name] = number }
        noteWritten(number)
        for name in table.names(of: new) { left[name] = nil }
        // All of its references: another one may dangle, and was looked for under the key that the row had.
        try session.checks.noteNew(table, new)
        try session.checks.noteChanged(table, old: row, new: new)
    }

    private func constraintKind(_ error: DatabaseError) -> JournalEntry.Kind {
        switch error.extendedResultCode {
        case .SQLITE_CONSTRAINT_UNIQUE, .SQLITE_CONSTRAINT_PRIMARYKEY, .SQLITE_CONSTRAINT_ROWID: .unique
        default: .check
        }
    }
}
