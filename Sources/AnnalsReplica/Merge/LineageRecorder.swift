package import AnnalsCore
package import AnnalsMerge
package import AnnalsRows

/// Gathers what the pulled entries did to rows, entry by entry, while they are applied.
package final class LineageRecorder {
    package private(set) var lineage = RowLineage()
    /// Work of the outbox that the pulled entries hold too.
    var duplicates = DuplicateTransactions([])
    private var changes: [NotedChange] = []

    package init(duplicates: DuplicateTransactions = DuplicateTransactions([])) {
        self.duplicates = duplicates
    }

    package func note(_ table: RowTable, _ old: [Value]?, _ new: [Value]?, _ mark: RowMark?) {
        var into: CandidateKey?
        if case .merged(let key)? = mark { into = table.keyName(key) }
        var (old, new) = (old.map(table.side), new.map(table.side))
        // Columns changed that this store lacks: who wrote the row last must be known all the same.
        if let before = old, let after = new, before.row == after.row {
            old?.row = before.row + [.null]
            new?.row = after.row + [.integer(1)]
        }
        changes.append(NotedChange(old: old, new: new, mark: mark, mergedInto: into))
    }

    package func endEntry(by writer: WriteMark) {
        lineage.note(changes, by: writer)
        changes.removeAll()
    }

    /// Notes where the rows of an entry's transaction are, which the outbox holds too. The entry has ended.
    func noteKnownWork(_ id: TransactionID, journal: [JournalEntry], _ session: MergeSession) throws {
        try duplicates.note(id, journal: journal, lineage, session)
    }
}

/// Gathers rows as an outbox transaction found and left them, while it is undone.
final class WholeRows {
    private let policies: MergePolicies
    private var rows: [RowReference: WholeRow] = [:]

    init(_ policies: MergePolicies) {
        self.policies = policies
    }

    /// Undoing goes from the row as it was left to the row as it was found.
    package func note(_ table: RowTable, _ left: [Value]?, _ found: [Value]?, _ mark: RowMark?) {
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
