package import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema
import AnnalsWire
package import GRDB

/// Which transactions of the outbox a rebase undoes and lays anew.
///
/// Those that meet what was pulled, and each after one of them that meets it: the others commute with all of these, so they may
/// stay in the rows while the rest is undone, laid on what was pulled and put back before them in the outbox. An offline replica
/// with a long outbox so pays for its conflicts and not for its work.
///
/// That rests on the originals' footprints. It holds for what is laid anew as long as this touches no more than it did before,
/// removes no other rows, and relied on nothing that a later one took away, in ways that no footprint shows (merge rule 11): whoever
/// lays it anew sees to that, and begins again with the whole outbox from the first that meets something (merge rule 20) where it does not hold.
package struct RebaseSet {
    /// In local order.
    package var rows: [Outbox.Row]
    /// Some that come after the first of them stay as they are.
    var leavesSome: Bool

    package static let none = RebaseSet(rows: [], leavesSome: false)

    /// Every transaction, or all from one on.
    package static func all(_ db: Database, from first: Int64 = .min) throws -> RebaseSet {
        RebaseSet(rows: try Outbox.rows(db, from: first), leavesSome: false)
    }

    /// Those that `isMet`, and what builds on them.
    package static func needed(_ db: Database, from first: Int64, isMet: (Footprint) -> Bool) throws -> RebaseSet {
        let rows = try Outbox.rows(db, from: first)
        guard !rows.contains(where: { $0.footprint.everything }) else { return RebaseSet(rows: rows, leavesSome: false) }
        var undone = CertificationIndex(maximumHashes: .max / 4)
        var needed: [Outbox.Row] = []
        for row in rows {
            let builds = undone.conflict(of: row.footprint, base: .zero, replica: .relay) != nil
            guard builds || isMet(row.footprint) else { continue }
            needed.append(row)
            undone.record(row.footprint, replica: .nobody, position: undone.last.next)
        }
        // Where most is laid anew the attempt would cost more than it can save.
        guard needed.count <= rows.count / 2 else { return RebaseSet(rows: rows, leavesSome: false) }
        return RebaseSet(rows: needed, leavesSome: true)
    }
}

extension OutboxTransaction {
    /// Whether what was laid takes no row from its key but those that the transaction itself does.
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
