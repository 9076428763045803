import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema
import GRDB

/// Writes what the planner planned, and reports what constraints refuse. A refused row is left out, so that what else
/// breaks is found in the same attempt.
struct RebaseWriter {
    private let session: MergeSession
    private let rows: StoredRows
    private let planner: RebasePlanner

    init(_ session: MergeSession, _ rows: StoredRows, _ planner: RebasePlanner) {
        self.session = session
        self.rows = rows
        self.planner = planner
    }

    /// Whatever the planner lacked a decision for, it says afterwards.
    func attempt() throws {
        let plan = try planner.plan()
        guard planner.isSettled else { return }
        try write(plan)
        guard planner.isSettled else { return }
        try performForeignKeyEffects()
        try planner.complete()
    }

    // MARK: The plan

    private func write(_ plan: RebasePlan) throws {
        session.untrackedChildren.beginStep()
        for row in plan.deleted {
            guard let before = row.before else { continue }
            let table = try rows.rowTable(row.table)
            try table.delete(before)
            planner.wrote(row.number)
            session.checks.noteGone(table, before)
        }
        var rowids: [Int64?] = []
        for row in plan.displaced {
            let table = try rows.rowTable(row.table)
            rowids.append(try row.before.flatMap { try table.remove(table.key(of: $0)) })
        }
        for (row, rowid) in zip(plan.displaced, rowids) { try put(row, isDisplaced: true, rowid: rowid) }
        for row in plan.written { try put(row, isDisplaced: false, rowid: nil) }
    }

    private func put(_ row: RowWrite, isDisplaced: Bool, rowid: Int64?) throws {
        guard let after = row.after else { return }
        let table = try rows.rowTable(row.table)
        do {
            if let before = row.before {
                if isDisplaced { try table.restore(before, as: after, rowid: rowid) } else { try table.update(before, to: after) }
                planner.wrote(row.number)
                try session.checks.noteChanged(table, old: before, new: after)
            } else {
                try table.insert(after)
                planner.wrote(row.number)
                try session.checks.noteNew(table, after)
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            let isUnique = error.violatesUniqueness
            planner.refused(row.number, isUnique ? .unique(try UniqueHolders(session, table).collisions(of: after)) : .check)
        }
    }

    // MARK: Foreign keys

    /// What foreign keys declare for rows that the author had not seen (merge rules 27 and 31).
    private func performForeignKeyEffects() throws {
        try followReassignedKeys()
        guard planner.isSettled else { return }
        for _ in 0..<ApplyLimits.effectRounds {
            let dangling = try session.checks.takeDangling()
            guard !dangling.isEmpty else { return }
            for reference in dangling { try settle(reference) }
            guard planner.isSettled else { return }
        }
        throw planner.unsettled
    }

    /// A child that refers to a key which another row has now. All are found before one is written: a child that follows its
    /// parent may refer to another reassigned key afterwards.
    private func followReassignedKeys() throws {
        var found: [(key: ReassignedKey, child: RowTable, foreignKey: Int, row: [Value])] = []
        for key in planner.reassignedKeys() {
            for (child, foreignKey) in session.children(of: key.table.name)
            where child.mergeTable.references[foreignKey].parent?.index.columnIndexes == key.name.columnIndexes {
                for row in try session.children(child, child.references[foreignKey], of: key.row, in: key.table.name) {
                    if let stored = try child.row(row) { found.append((key, child, foreignKey, stored)) }
                }
            }
        }
        for (key, child, foreignKey, row) in found {
            // The effect of another reference may have changed the child.
            guard let row = try child.row(child.key(of: row)) else { continue }
            if let effect = try planner.referring(row, in: child.mergeTable, foreignKey: foreignKey, to: key) {
                try perform(effect, on: row, in: child)
            }
        }
    }

    private func settle(_ dangling: ReferenceChecks.Dangling) throws {
        let table = try session.table(named: dangling.child.table)
        let reference = table.references[dangling.foreignKey]
        // An effect that was performed meanwhile may have changed the child or restored the parent's key.
        guard let row = try table.row(dangling.child.key), try !session.parentExists(table, reference, row) else { return }
        if let effect = try planner.dangling(row, in: table.mergeTable, foreignKey: dangling.foreignKey) {
            try perform(effect, on: row, in: table)
        }
    }

    private func perform(_ effect: ForeignKeyEffect, on row: [Value], in table: RowTable) throws {
        session.untrackedChildren.beginStep()
        if let new = effect.new {
            try change(row, to: new, in: table, effect)
        } else {
            try table.delete(row)
            session.checks.noteGone(table, row)
            planner.performed(effect)
        }
    }

    private func change(_ row: [Value], to new: [Value], in table: RowTable, _ effect: ForeignKeyEffect) throws {
        do {
            if table.uniqueColumnIndexes.contains(where: { row[$0] != new[$0] }) {
                let rowid = try table.remove(table.key(of: row))
                try table.restore(row, as: new, rowid: rowid)
            } else {
                try table.update(row, to: new)
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            return planner.refused(effect, isUnique: error.violatesUniqueness)
        }
        planner.performed(effect)
        // All of its references: another one may dangle, and was looked for under the key that the row had.
        try session.checks.noteNew(table, new)
        try session.checks.noteChanged(table, old: row, new: new)
    }
}

extension DatabaseError {
    var violatesUniqueness: Bool {
        switch extendedResultCode {
        case .SQLITE_CONSTRAINT_UNIQUE, .SQLITE_CONSTRAINT_PRIMARYKEY, .SQLITE_CONSTRAINT_ROWID: true
        default: false
        }
    }
}
