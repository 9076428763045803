package import AnnalsCore

/// A stored row that has a value of a primary key or of a UNIQUE index that another row is to get.
package struct UniqueCollision {
    package var holder: [Value]
    /// The columns of the index. nil if it is over expressions or generated columns.
    package var columnIndexes: [Int]?
    package var isKey: Bool

    package init(holder: [Value], columnIndexes: [Int]?, isKey: Bool) {
        self.holder = holder
        self.columnIndexes = columnIndexes
        self.isKey = isKey
    }
}

/// UNIQUE (merge rule 33): which of two rows that want one tuple gives way, and how.
///
/// The row to which the transaction gave the tuple gives way. If the transaction gave it to both, the later change does.
/// A row that gives its value back may collide with the next row of a swap, which then gives back its own.
struct UniquenessPlanner {
    let state: RebaseState

    func settle(_ collision: UniqueCollision, _ number: Int) {
        let key = state.rows[number].table.keyName(of: collision.holder)
        let holder = state.presentKeys[key] ?? state.foundNames[key]
        switch (brings(number, collision), holder.map { brings($0, collision) } ?? false) {
        case (true, true):
            let later = holder.flatMap { changeToBlame($0) > changeToBlame(number) ? $0 : nil }
            giveWay(later ?? number, collision)
        case (false, true):
            if let holder { applyRule(holder, collision, to: state.rows[number].before) }
        default:
            let stored = holder.map { state.rows[$0].before } ?? collision.holder
            applyRule(number, collision, to: stored)
        }
    }

    /// Whether the transaction gave the row the tuple.
    private func brings(_ number: Int, _ collision: UniqueCollision) -> Bool {
        guard let before = state.rows[number].before, let after = state.rows[number].after else { return state.rows[number].before == nil }
        guard let columnIndexes = collision.columnIndexes else { return before != after }
        return columnIndexes.contains { before[$0] != after[$0] }
    }

    private func changeToBlame(_ number: Int) -> Int {
        ConstraintCauses(state: state).change(of: number) ?? state.rows[number].cause.change
    }

    /// The tuple is a stored row's: the table's rule decides.
    private func applyRule(_ number: Int, _ collision: UniqueCollision, to stored: [Value]?) {
        guard let change = ConstraintCauses(state: state).change(of: number), let stored else { return giveWay(number, collision) }
        let table = state.rows[number].table
        let name = table.keyName(of: stored)
        switch state.policies(of: table).unique {
        case .keepFirst: break
        case .keepLast:
            if !state.decisions.contains(.keep(change, name)), !state.decisions.contains(.evict(change, name)) {
                return state.need(.evict(change, name))
            }
        case .mergeRows:
            if !state.decisions.contains(.separate(change)), state.decisions.merge(change) == nil {
                return state.need(.merge(change, into: name))
            }
        }
        giveWay(number, collision)
    }

    /// keepFirst: an insert is set aside. An update gives up the columns of the index, then all.
    private func giveWay(_ number: Int, _ collision: UniqueCollision) {
        let reason = Reason(kind: .unique, policy: UniqueRule.keepFirst.rawValue)
        let causes = ConstraintCauses(state: state)
        guard let change = causes.change(of: number) else { return causes.undo(state.rows[number].cause, reason) }
        let requested = Set(state.outcomes[change].requested.map(\.columnIndex))
        var columns = (collision.columnIndexes ?? []).filter(requested.contains)
        let key = state.rows[number].table.primaryKey
        if columns.contains(where: key.contains) { columns += key.filter { requested.contains($0) && !columns.contains($0) } }
        let decision = Decisions.Decision.giveUp(change, columns: columns.sorted(), reason)
        if !state.rows[number].isInserted, !columns.isEmpty, !state.decisions.contains(decision) {
            state.need(decision)
        } else if state.rows[number].revives != nil, let rowID = state.rows[number].rowID,
            state.decisions.setAside(change) != nil || requested.isEmpty
        {
            state.need(.leaveDead(rowID))
        } else {
            state.need(.setAside(change, reason))
        }
    }

    // MARK: What was decided

    /// Brings rows into play that earlier attempts decided to set aside, or to merge.
    func bringStoredRowsIntoPlay() throws {
        for (change, name) in state.decisions.evicted where state.outcomes[change].loss == nil {
            let table = try state.source.table(named: name.table)
            guard let row = try state.source.row(named: name, in: table) else { continue }
            let cause = Cause(change, .eviction(name))
            let number = state.rowNumber(table, row, nil, cause)
            state.rows[number].after = nil
            state.rows[number].end = .setAside
            state.rows[number].mark = .setAside
            state.rows[number].cause = cause
            state.rows[number].removal = Reason(kind: .unique, policy: UniqueRule.keepLast.rawValue)
        }
        for index in state.outcomes.indices {
            guard let name = state.decisions.merge(index), let number = state.outcomes[index].row else { continue }
            let table = state.rows[number].table
            guard state.decisions.setAside(index) == nil, let row = try state.source.row(named: name, in: table) else { continue }
            merge(index, number, into: state.rowNumber(table, row, nil, Cause(index, .merge)))
        }
    }

    /// mergeRows: the stored row stays, and the row of the change is merged into it.
    private func merge(_ index: Int, _ number: Int, into target: Int) {
        guard target != number, state.rows[target].after != nil else { return }
        let reason = Reason(kind: .unique, policy: UniqueRule.mergeRows.rawValue)
        state.outcomes[index].loss = reason
        state.rows[number].after = nil
        state.rows[number].end = .merged(target)
        state.rows[number].cause = Cause(index, .merge)
        guard state.rows[number].before != nil, let stored = state.rows[target].before else { return }
        state.rows[number].mark = .merged(into: state.rows[target].table.key(of: stored))
        state.rows[number].removal = reason
    }
}
