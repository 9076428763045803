package import AnnalsCore

/// Plans how one outbox transaction is repeated on top of the pulled entries (merge rules 22 to 34). It reads rows, and
/// writes none.
///
/// All of an attempt is decided by the rows as they are found: which row each change means, what becomes of the change,
/// and the parents' present keys. The caller writes the plan in a savepoint, and reports refused rows and dangling
/// references. Each report adds a decision. A refused row does not end the attempt: what else breaks is found in the same
/// attempt, so that a bulk load with a thousand duplicates needs two attempts.
///
///     let planner = RebasePlanner(transaction, context, source)
///     repeat {
///         let plan = try planner.plan()
///         …write, and report…
///         if planner.isSettled { return try planner.finish() }
///         …undo…
///         try planner.decide()
///     }
package final class RebasePlanner {
    private let transaction: UnsentTransaction
    private let context: RebaseContext
    private let source: any RowSource
    private var decisions = Decisions()
    private var state: RebaseState

    package init(_ transaction: UnsentTransaction, _ context: RebaseContext, _ source: any RowSource) {
        self.transaction = transaction
        self.context = context
        self.source = source
        state = RebaseState(transaction, decisions, context, source)
    }

    /// Whether the present attempt needs no other decision.
    package var isSettled: Bool { state.needed.isEmpty }

    // MARK: An attempt

    /// Begins an attempt. If it is not settled afterwards, there is nothing to write.
    package func plan() throws -> RebasePlan {
        state = RebaseState(transaction, decisions, context, source)
        for index in transaction.changes.indices { try resolve(index) }
        try UniquenessPlanner(state: state).bringStoredRowsIntoPlay()
        try DeletePlanner(state: state).refuseWhatCameWithRefusedDeletes()
        for index in transaction.changes.indices { try CellPlanner(state: state).mergeOwnColumns(index) }
        for index in transaction.changes.indices { try InsertPlanner(state: state).number(index) }
        for index in transaction.changes.indices { try InsertPlanner(state: state).joinByOwnKey(index) }
        // Settling the references of a row can bring others into play.
        var number = 0
        while number < state.rows.count {
            try ReferencePlanner(state: state).settle(row: number)
            number += 1
        }
        state.forgetChangesOfRows()
        return isSettled ? writes() : RebasePlan()
    }

    /// Which row a change means, and what becomes of the change by itself.
    private func resolve(_ index: Int) throws {
        let table = try state.table(ofChange: index)
        let change = transaction.changes[index]
        switch (change.change, change.mark) {
        case (.insert(let row), .revived(let position, let changed)?):
            try RevivalPlanner(state: state).planRevivedInsert(index, table, row, position, changed)
        case (.insert(let row), _): InsertPlanner(state: state).plan(index, table, row)
        case (.update(let key, let columns), _): try UpdatePlanner(state: state).plan(index, table, key, columns)
        case (.delete(let old), _): try DeletePlanner(state: state).plan(index, table, old)
        }
    }

    private func writes() -> RebasePlan {
        var plan = RebasePlan()
        for number in state.rows.indices {
            let (table, before, after) = (state.rows[number].table, state.rows[number].before, state.rows[number].after)
            let write = RowWrite(number: number, table: table, before: before, after: after)
            switch (before, after) {
            case (nil, nil): continue
            case (nil, _?): plan.written.append(write)
            case (_?, nil): plan.deleted.append(write)
            case (let before?, let after?):
                if before == after {
                    wrote(number)
                } else if table.uniqueColumns.contains(where: { before[$0] != after[$0] }) {
                    plan.displaced.append(write)
                } else {
                    plan.written.append(write)
                }
            }
        }
        return plan
    }

    // MARK: What the caller reports

    /// The store took a row of the plan.
    package func wrote(_ number: Int) {
        WrittenNames(state: state).note(number)
    }

    /// The store refused a row of the plan.
    package func refused(_ number: Int, _ refusal: RowRefusal) {
        let causes = ConstraintCauses(state: state)
        switch refusal {
        case .unique(let collisions):
            for collision in collisions { UniquenessPlanner(state: state).settle(collision, number) }
            if collisions.isEmpty { causes.undo(row: number, .declared(.unique)) }
        case .check: causes.undo(row: number, .declared(.check))
        }
    }

    /// The foreign key of a stored row has no parent. Returns what is to be written for that, if anything.
    package func dangling(_ row: [Value], in table: MergeTable, foreignKey: Int) throws -> ForeignKeyEffect? {
        try ForeignKeyEffects(state: state).effect(on: row, in: table, foreignKey)
    }

    /// The keys that rows of the plan had and that the transaction gave to other rows. Children that the author had not seen may
    /// refer to them. Asked when all rows are written.
    package func reassignedKeys() -> [ReassignedKey] {
        ForeignKeyEffects(state: state).reassignedKeys()
    }

    /// What is to be written for a stored row that refers to a reassigned key, if anything.
    package func referring(_ row: [Value], in table: MergeTable, foreignKey: Int, to key: ReassignedKey) throws -> ForeignKeyEffect? {
        try ForeignKeyEffects(state: state).effect(on: row, in: table, foreignKey, to: key)
    }

    /// The store took the effect of a foreign key.
    package func performed(_ effect: ForeignKeyEffect) {
        ForeignKeyEffects(state: state).performed(effect)
    }

    /// The store refused the effect of a foreign key.
    package func refused(_ effect: ForeignKeyEffect, isUnique: Bool) {
        ConstraintCauses(state: state).undo(effect.cause, .declared(isUnique ? .unique : .check))
    }

    /// All rows are written, and no reference dangles.
    package func complete() throws {
        if isSettled, let reason = try RefusedValues(state: state).lossInWholeTable() { state.need(.setAsideAll(reason)) }
    }

    // MARK: Between attempts

    /// Adds the decisions that the attempt needed.
    ///
    /// - Throws: `UnsettledTransaction` if all of the transaction was set aside and it still does not apply.
    package func decide() throws {
        var isNew = false
        for decision in state.needed where decisions.add(decision) { isNew = true }
        guard !isNew else { return }
        guard decisions.add(.setAsideAll(.declared(.check))) else { throw unsettled }
    }

    /// The error of a transaction that takes too many attempts.
    package var unsettled: UnsettledTransaction { UnsettledTransaction(table: transaction.changes.first?.table ?? "") }

    // MARK: After the last attempt

    /// Gives what is left of the transaction, and notes in the context what the transactions after it must know.
    package func finish() throws -> RebaseResult {
        let settled = try RebaseJournal(state: state).entries()
        var changes: [RebasedChange] = []
        for (number, row) in state.rows.enumerated() where row.after == nil && row.before != nil {
            changes.append(RebasedChange(table: row.table, old: row.before, new: nil, mark: row.mark, age: state.age(ofRow: number)))
        }
        let revivals = RevivalPlanner(state: state)
        for (number, row) in state.rows.enumerated() where row.after != nil && row.before != row.after {
            changes.append(
                RebasedChange(
                    table: row.table, old: row.before, new: row.after, mark: revivals.mark(of: row), age: state.age(ofRow: number)))
            if let rowID = row.rowID, let before = row.before, let after = row.after {
                context.noteChange(of: rowID, from: before, to: after)
            }
        }
        let names = RebaseNames(state: state)
        names.note()
        context.highestKeys = state.highestKeys
        let earlier = try EarlierJournal(state: state).entriesThatHold()
        return RebaseResult(
            rows: changes, journal: earlier + settled, conflicts: settled.count { $0.kind != .renumber }, renamed: names.renamedRows())
    }
}
