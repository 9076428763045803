package import AnnalsCore
package import AnnalsHistory
package import AnnalsMerge
package import AnnalsRows
import AnnalsSchema
import GRDB

/// Lays outbox transactions on top of what was pulled, oldest first: the one place where conflicts are settled.
///
/// Each transaction is tried in a savepoint (merge rule 30). A try plans every row that the transaction touches, by
/// what was decided so far; writes them; and does what foreign keys declare. What breaks a constraint adds a decision:
/// this change is set aside, these columns are given up, that parent stays dead. Then the try is undone and repeated.
/// Decisions are only added, so it ends: at worst the whole transaction is set aside, visibly, in the conflict journal
/// (law 5).
///
/// The parts of a try stand in the order of part F of Documentation/merge-rules.md: who is meant (`LayFate`), inserts, cells, deletes, rows that
/// come back, references, writing, uniqueness, what keys declare, names for those that follow, the journal.
package final class Rebase {
    package let session: MergeSession
    package let policies: MergePolicies
    /// Who lays on, and the relay's clock when it answered, in milliseconds since 1970: together with the
    /// transaction's time they say who is later.
    package let replica: ReplicaID
    package let relayTime: Int64
    package var lineage: RowLineage
    /// Per table the highest integer key that is used, was ever used, or is wanted by the outbox.
    package var highestKeys: [String: Int64]
    private var tables: [String: RowTable] = [:]
    private var rules: [ObjectIdentifier: MergePolicies.Table] = [:]

    package init(
        session: MergeSession, lineage: RowLineage, policies: MergePolicies = MergePolicies(), replica: ReplicaID, relayTime: Int64,
        highestKeys: [String: Int64]
    ) {
        self.session = session
        self.lineage = lineage
        self.policies = policies
        self.replica = replica
        self.relayTime = relayTime
        self.highestKeys = highestKeys
    }

    /// What became of one outbox transaction.
    package struct RebasedTransaction {
        package var rows: WriteSet
        /// What it carries now: what it carried before, as far as that still holds, and what was settled here.
        package var journal: [JournalEntry]
        /// How many of those were settled here.
        package var conflicts: Int
        /// Its rows that are called otherwise than it called them.
        package var renamed: [RenumberedRows.Renaming]
    }

    package func rebase(_ transaction: OutboxTransaction) throws -> RebasedTransaction {
        var decisions = Decisions()
        for _ in 0..<ApplyLimits.decisionRounds {
            let mark = session.historyMark()
            try session.db.execute(sql: "SAVEPOINT annals_rebase")
            let attempt = RebaseAttempt(self, transaction, decisions)
            let missing = try attempt.run()
            if missing.isEmpty {
                try session.db.execute(sql: "RELEASE annals_rebase")
                session.checks.reset()
                return try attempt.finish()
            }
            try session.db.execute(sql: "ROLLBACK TO annals_rebase; RELEASE annals_rebase")
            session.rewindHistory(to: mark)
            session.checks.reset()
            var isNew = false
            for decision in missing where decisions.add(decision) { isNew = true }
            if !isNew {
                let reason = Reason(kind: .check, policy: Reason.declared)
                guard decisions.add(.setAsideAll(reason)) else { throw MergeError.unsettled(table: transaction.changes.first?.table ?? "") }
            }
        }
        throw MergeError.unsettled(table: transaction.changes.first?.table ?? "")
    }

    // MARK: By table, asked for with every row

    package func table(_ name: String) throws -> RowTable {
        if let table = tables[name] { return table }
        let table = try session.table(named: name)
        tables[name] = table
        return table
    }

    package func rules(_ table: RowTable) -> MergePolicies.Table {
        if let rules = rules[ObjectIdentifier(table)] { return rules }
        let rules = policies[table.name]
        self.rules[ObjectIdentifier(table)] = rules
        return rules
    }
}
