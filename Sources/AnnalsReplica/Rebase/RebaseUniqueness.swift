import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema

/// UNIQUE (merge rule 33): who pays when two rows want one tuple, and how.
///
/// The row that the transaction gave the tuple pays; where it gave it to both, the later change does. A row that gives its
/// value back may meet the next row of a swap, which then gives back its own.
extension RebaseAttempt {
    package func settle(_ collision: UniqueHolders.Collision, _ number: Int) throws {
        let table = rows[number].table
        let holder = written[table.keyName(of: collision.holder)] ?? found[table.keyName(of: collision.holder)]
        let isBrought = brings(number, collision)
        let holderBrings = holder.map { brings($0, collision) } ?? false
        switch (isBrought, holderBrings) {
        case (true, true):
            let payer = holder.flatMap { payingIndex($0) > payingIndex(number) ? $0 : nil } ?? number
            pay(payer, collision)
        case (false, true):
            if let holder { try payByRule(holder, collision, to: rows[number].before) }
        default:
            let stored = holder.map { rows[$0].before } ?? collision.holder
            try payByRule(number, collision, to: stored)
        }
    }

    /// Whether the row has the tuple only since the transaction.
    private func brings(_ number: Int, _ collision: UniqueHolders.Collision) -> Bool {
        guard let before = rows[number].before, let after = rows[number].after else { return rows[number].before == nil }
        guard let places = collision.places else { return before != after }
        return places.contains { before[$0] != after[$0] }
    }

    private func payingIndex(_ number: Int) -> Int {
        payingChange(of: number) ?? rows[number].cause.change
    }

    /// The tuple is a stored row's: the table's rule decides.
    private func payByRule(_ number: Int, _ collision: UniqueHolders.Collision, to stored: [Value]?) throws {
        guard let change = payingChange(of: number), let stored else { return pay(number, collision) }
        let table = rows[number].table
        let name = table.keyName(of: stored)
        switch rules(table).unique {
        case .keepFirst: break
        case .keepLast:
            if !decisions.contains(.keep(change, name)), !decisions.contains(.evict(change, name)) {
                return lack(.evict(change, name))
            }
        case .mergeRows:
            if !decisions.contains(.separate(change)), decisions.merge(change) == nil {
                return lack(.merge(change, into: name))
            }
        }
        pay(number, collision)
    }

    /// keepFirst: an insert is set aside, an update gives up the index's columns, then all.
    private func pay(_ number: Int, _ collision: UniqueHolders.Collision) {
        let reason = Reason(kind: .unique, policy: UniqueRule.keepFirst.rawValue)
        guard let change = payingChange(of: number) else { return charge(rows[number].cause, reason) }
        let asked = Set(verdicts[change].asked.map(\.column))
        var columns = (collision.places ?? []).filter(asked.contains)
        let key = rows[number].table.definition.primaryKey
        if columns.contains(where: key.contains) { columns += key.filter { asked.contains($0) && !columns.contains($0) } }
        let decision = Decisions.Decision.giveUp(change, columns: columns.sorted(), reason)
        let canGiveUp = rows[number].before != nil || rows[number].life != nil
        if canGiveUp, !columns.isEmpty, !decisions.contains(decision) {
            lack(decision)
        } else if rows[number].revives != nil, let life = rows[number].life, decisions.setAside(change) != nil || asked.isEmpty {
            lack(.leaveDead(life))
        } else {
            lack(.setAside(change, reason))
        }
    }

    /// mergeRows: the stored row stands, and the change's row becomes one with it.
    package func merge(_ index: Int, _ number: Int, into target: Int) throws {
        guard target != number, rows[target].after != nil else { return }
        let reason = Reason(kind: .unique, policy: UniqueRule.mergeRows.rawValue)
        verdicts[index].loss = reason
        rows[number].after = nil
        rows[number].end = .merged(target)
        rows[number].cause = Cause(index, .merge)
        guard rows[number].before != nil, let stored = rows[target].before else { return }
        rows[number].mark = .merged(into: rows[target].table.key(of: stored))
        rows[number].removal = reason
    }
}
