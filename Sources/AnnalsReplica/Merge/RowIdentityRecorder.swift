package import AnnalsCore
package import AnnalsMerge
package import AnnalsRows

/// Records how the pulled entries change rows, entry by entry, while they are applied.
package final class RowIdentityRecorder {
    package private(set) var identities = RowIdentities()
    /// Outbox transactions that the pulled entries hold too.
    var duplicates = DuplicateTransactions([])
    /// Conflicts about which the pulled entries hold a decision.
    private(set) var decided: Set<ConflictID> = []
    /// Those of them that had another decision, which does not stand any more.
    private(set) var replaced: Set<ConflictID> = []
    private var changes: [NotedChange] = []

    package init(duplicates: DuplicateTransactions = DuplicateTransactions([])) {
        self.duplicates = duplicates
    }

    func note(_ decisions: [ConflictResolution], _ replaced: [ConflictID]) {
        decided.formUnion(decisions.map(\.conflict))
        self.replaced.formUnion(replaced)
    }

    /// Decisions of the outbox that stand, because they are later in the log.
    func noteKept(_ decisions: [ConflictResolution]) { replaced.subtract(decisions.map(\.conflict)) }

    package func note(_ table: RowTable, _ old: [Value]?, _ new: [Value]?, _ mark: RowMark?, _ age: Int64 = 0) {
        var into: CandidateKey?
        if case .merged(let key)? = mark { into = table.keyName(key) }
        var (old, new) = (old.map(table.side), new.map(table.side))
        // Only columns that this store lacks changed. An extra column makes the images differ, so that the row gets a write mark.
        if let before = old, let after = new, before.row == after.row {
            old?.row = before.row + [.null]
            new?.row = after.row + [.integer(1)]
        }
        changes.append(NotedChange(old: old, new: new, mark: mark, mergedInto: into, age: age))
    }

    package func endEntry(by writer: WriteMark) {
        identities.note(changes, by: writer)
        changes.removeAll()
    }

    /// Records where the rows of a duplicate transaction are. To be called after the entry ended.
    func noteKnownWork(_ id: TransactionID, journal: [JournalEntry], _ session: MergeSession) throws {
        try duplicates.note(id, journal: journal, identities, session)
    }
}

/// Records the whole rows before and after an outbox transaction, while it is undone.
final class WholeRows {
    private let policies: MergePolicies
    private var rows: [RowReference: WholeRow] = [:]

    init(_ policies: MergePolicies) {
        self.policies = policies
    }

    /// Undoing replaces the row after the transaction (`left`) with the row before it (`found`).
    package func note(_ table: RowTable, _ left: [Value]?, _ found: [Value]?, _ mark: RowMark?, _ age: Int64 = 0) {
        guard let left, let found, policies[table.name].needsWholeRows else { return }
        rows[RowReference(table.name, table.key(of: found))] = WholeRow(before: found, after: left)
    }

    func byChange(of transaction: OutboxTransaction, _ session: MergeSession) throws -> [Int: WholeRow] {
        guard !rows.isEmpty else { return [:] }
        var byChange: [Int: WholeRow] = [:]
        for (index, change) in transaction.changes.enumerated() {
            guard case .update(let key, _) = change.change else { continue }
            byChange[index] = rows[RowReference(try session.table(named: change.table).name, key)]
        }
        return byChange
    }
}
