package import AnnalsCore
package import AnnalsHistory
package import AnnalsMerge
package import AnnalsRows
import AnnalsSchema
import GRDB

/// Repeats outbox transactions on top of what was pulled, oldest first: the one place where conflicts are resolved.
///
/// `RebasePlanner` decides. This type opens a savepoint, writes the plan, reports what constraints refuse, and, if the
/// planner needs another decision, undoes the attempt and asks again (merge rule 30). Decisions are only added, so it
/// ends: at worst the whole transaction is set aside, visibly, in the conflict journal (law 5).
package final class Rebase {
    /// What it knows beside the rows. Others may add to its row identities between two transactions.
    package let context: RebaseContext
    private let session: MergeSession
    private let rows: StoredRows

    package init(
        session: MergeSession, rowIdentities: RowIdentities, policies: MergePolicies = MergePolicies(), replica: ReplicaID,
        relayTime: Int64,
        highestKeys: [String: Int64]
    ) {
        self.session = session
        rows = StoredRows(session)
        context = RebaseContext(
            rowIdentities: rowIdentities, policies: policies, replica: replica, relayTime: relayTime, highestKeys: highestKeys)
    }

    /// What became of one outbox transaction.
    package struct RebasedTransaction {
        package var rows: WriteSet
        /// What it carries now: what it carried before, as far as that still holds, and the conflicts of this rebase.
        package var journal: [JournalEntry]
        /// The number of conflicts of this rebase.
        package var conflicts: Int
        /// Its rows that have other keys than it gave them.
        package var renamed: [RenumberedRows.Renaming]
    }

    package func rebase(_ transaction: OutboxTransaction) throws -> RebasedTransaction {
        let unsent = UnsentTransaction(
            info: transaction.info, changes: transaction.changes, journal: transaction.journal, wholeRows: transaction.wholeRows)
        do {
            return try rebase(RebasePlanner(unsent, context, rows))
        } catch let error as UnsettledTransaction {
            throw MergeError.unsettled(table: error.table)
        }
    }

    private func rebase(_ planner: RebasePlanner) throws -> RebasedTransaction {
        session.checks.includesUndeclared = true
        defer { session.checks.includesUndeclared = false }
        for _ in 0..<ApplyLimits.decisionRounds {
            let mark = session.historyMark()
            try session.db.execute(sql: "SAVEPOINT annals_rebase")
            try RebaseWriter(session, rows, planner).attempt()
            if planner.isSettled {
                try session.db.execute(sql: "RELEASE annals_rebase")
                session.checks.reset()
                return try finished(planner.finish())
            }
            try session.db.execute(sql: "ROLLBACK TO annals_rebase; RELEASE annals_rebase")
            session.rewindHistory(to: mark)
            session.checks.reset()
            try planner.decide()
        }
        throw planner.unsettled
    }

    private func finished(_ result: RebaseResult) throws -> RebasedTransaction {
        var net = WriteSet()
        for change in result.rows {
            let table = try rows.rowTable(change.table)
            net.record(table, old: change.old, new: change.new, mark: change.mark, age: change.age)
            if let new = change.new { session.noteHighestKey(table, new) }
        }
        let renamed = result.renamed.map { row in
            RenumberedRows.Renaming(
                old: PersistentIdentifier(table: row.table.name, key: row.old),
                new: PersistentIdentifier(table: row.table.name, key: row.new))
        }
        return RebasedTransaction(rows: net, journal: result.journal, conflicts: result.conflicts, renamed: renamed)
    }
}
