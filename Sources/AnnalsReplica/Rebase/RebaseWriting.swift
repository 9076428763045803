import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema
import GRDB

/// Writes what was planned (merge rule 19's two passes): first rows that go or change a key or a unique value are taken out, so
/// that rows may swap theirs, then rows are written. A row that a constraint refuses is left out, and what else breaks is
/// found in the same try.
extension RebaseAttempt {
    package func write() throws {
        var displaced: [(number: Int, rowid: Int64?)] = []
        for number in rows.indices {
            guard let before = rows[number].before, rows[number].after != before else { continue }
            let table = rows[number].table
            if let after = rows[number].after {
                guard table.uniquePlaces.contains(where: { before[$0] != after[$0] }) else { continue }
                displaced.append((number, try table.remove(table.key(of: before))))
            } else {
                try table.delete(before)
                noteWritten(number)
                session.checks.noteGone(table, before)
            }
        }
        for (number, rowid) in displaced { try put(number, isDisplaced: true, rowid: rowid) }
        let isDisplaced = Set(displaced.map(\.number))
        for number in rows.indices where rows[number].after != nil && !isDisplaced.contains(number) {
            try put(number, isDisplaced: false, rowid: nil)
        }
    }

    private func put(_ number: Int, isDisplaced: Bool, rowid: Int64?) throws {
        guard let after = rows[number].after else { return }
        let table = rows[number].table
        do {
            if let before = rows[number].before {
                if isDisplaced { try table.restore(before, as: after, rowid: rowid) } else { try table.update(before, to: after) }
                noteWritten(number)
                try session.checks.noteChanged(table, old: before, new: after)
            } else {
                try table.insert(after)
                noteWritten(number)
                try session.checks.noteNew(table, after)
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            try refuse(number, error)
        }
    }

    /// A constraint does not take the row.
    package func refuse(_ number: Int, _ error: DatabaseError) throws {
        switch error.extendedResultCode {
        case .SQLITE_CONSTRAINT_UNIQUE, .SQLITE_CONSTRAINT_PRIMARYKEY, .SQLITE_CONSTRAINT_ROWID:
            guard let after = rows[number].after else { return }
            let collisions = try UniqueHolders(session, rows[number].table).collisions(of: after)
            for collision in collisions { try settle(collision, number) }
            if collisions.isEmpty { charge(number, Reason(kind: .unique, policy: Reason.declared)) }
        default:
            charge(number, Reason(kind: .check, policy: Reason.declared))
        }
    }

    /// Merge rule 30: what brings a row into play pays for what it breaks.
    func charge(_ number: Int, _ reason: Reason) {
        let row = rows[number]
        if let change = payingChange(of: number) {
            lack(.setAside(change, reason))
        } else {
            charge(row.cause, reason)
        }
    }

    /// An effect that cannot be.
    func charge(_ cause: Cause, _ reason: Reason) {
        switch cause.via {
        case .eviction(let name): lack(.keep(cause.change, name))
        case .merge: lack(.separate(cause.change))
        case .revival(let life): lack(.leaveDead(life))
        case .change:
            let columns = movedColumns(cause.change)
            let decision = Decisions.Decision.giveUp(cause.change, columns: columns, reason)
            if !columns.isEmpty, !decisions.contains(decision) { lack(decision) } else { lack(.setAside(cause.change, reason)) }
        }
    }

    /// The change that asked for the row as it is; nil where it is an effect.
    func payingChange(of number: Int) -> Int? {
        let cause = rows[number].cause
        guard cause.via == .change, verdicts[cause.change].row == number, verdicts[cause.change].loss == nil else { return nil }
        if case .delete = transaction.changes[cause.change].change { return nil }
        return cause.change
    }

    /// The columns by which others may call the row that an update changes.
    private func movedColumns(_ change: Int) -> [Int] {
        guard case .update = transaction.changes[change].change, let number = verdicts[change].row else { return [] }
        let table = rows[number].table
        return verdicts[change].asked.map(\.column).filter(table.namePlaces.contains)
    }

    // MARK: Who is where

    func noteWritten(_ number: Int) {
        let table = rows[number].table
        let names = rows[number].after.map { table.isReferenced ? table.names(of: $0) : [table.keyName(of: $0)] } ?? []
        if let key = names.first { written[key] = number }
        guard table.isReferenced, let before = rows[number].before else { return }
        for name in table.names(of: before) where !names.contains(name) { left[name] = number }
    }
}
