package import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema
import AnnalsWire
package import GRDB

/// The outbox transactions that a rebase undoes and repeats.
///
/// These are the transactions that conflict with pulled entries, and each later transaction that conflicts with one of them. All
/// others commute with these. So they stay in the rows while the rest is undone and repeated on the pulled entries. The cost of a
/// rebase therefore depends on the number of conflicts and not on the length of the outbox.
///
/// This rests on the original footprints. It is correct if a repeated transaction changes no more than before, removes no other
/// rows, and did not depend, in a way that no footprint shows, on something that a remaining transaction removed (merge rule 11).
/// `PageApplier` checks this. If it does not hold, the rebase starts again with the whole outbox from the first conflict on (merge
/// rule 20).
package struct RebaseSet {
    /// In local order.
    package var rows: [Outbox.Row]
    /// Some transactions after the first of `rows` stay as they are.
    var leavesSome: Bool

    package static let none = RebaseSet(rows: [], leavesSome: false)

    /// All transactions, or all from one on.
    package static func all(_ db: Database, from first: Int64 = .min) throws -> RebaseSet {
        RebaseSet(rows: try Outbox.rows(db, from: first), leavesSome: false)
    }

    /// The transactions for which `isConflicting` is true, and those that conflict with an earlier one of them.
    package static func needed(_ db: Database, from first: Int64, isConflicting: (Footprint) -> Bool) throws -> RebaseSet {
        let rows = try Outbox.rows(db, from: first)
        guard !rows.contains(where: { $0.footprint.everything }) else { return RebaseSet(rows: rows, leavesSome: false) }
        var undone = CertificationIndex(maximumHashes: .max / 4)
        var needed: [Outbox.Row] = []
        for row in rows {
            let builds = undone.conflict(of: row.footprint, base: .zero, replica: .relay) != nil
            guard builds || isConflicting(row.footprint) else { continue }
            needed.append(row)
            undone.record(row.footprint, replica: .nobody, position: undone.last.next)
        }
        // If most transactions must be repeated, a partial rebase costs more than it saves.
        guard needed.count <= rows.count / 2 else { return RebaseSet(rows: rows, leavesSome: false) }
        return RebaseSet(rows: needed, leavesSome: true)
    }
}

extension OutboxTransaction {
    /// Whether the repeated transaction removes from their keys only rows that the original removed too.
    func takesAway(allOf rebased: Rebase.RebasedTransaction, _ session: MergeSession) throws -> Bool {
        let gone = rebased.rows.effective(tableOrder: [:]).compactMap { row -> RowReference? in
            guard let key = row.old.map(row.table.key), key != row.new.map(row.table.key) else { return nil }
            return RowReference(row.table.name, key)
        }
        guard !gone.isEmpty else { return true }
        var own: Set<RowReference> = []
        for change in changes {
            let table = try session.table(named: change.table)
            switch change.change {
            case .insert: continue
            case .delete(let old): own.insert(RowReference(table.name, table.key(of: old)))
            case .update(let key, _): if change.movesRow(of: table) { own.insert(RowReference(table.name, key)) }
            }
        }
        return gone.allSatisfy(own.contains)
    }
}

extension TableChange {
    fileprivate func movesRow(of table: RowTable) -> Bool {
        guard case .update(_, let columns) = change else { return false }
        return columns.contains { table.definition.primaryKey.contains($0.column) }
    }
}
