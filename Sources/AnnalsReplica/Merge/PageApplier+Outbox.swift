import AnnalsCore
import AnnalsMerge
import AnnalsRows
import AnnalsSchema

extension PageApplier {
    /// Repeats transactions that left children without parents, so that the actions of the foreign keys are done.
    @discardableResult
    package func settleReferences() throws -> Summary {
        guard let first = try UnsettledReferences.first(db) else { return Summary() }
        return try repeatOutbox(from: first)
    }

    /// Repeats the outbox from the serializable transaction on, which is withdrawn thereby.
    package func withdraw() throws {
        if let first = try Outbox.serializable(db) { _ = try repeatOutbox(from: first) }
    }

    private func repeatOutbox(from first: Int64) throws -> Summary {
        var summary = Summary()
        var pull = self
        pull.policies = try MergePolicies(PolicyTable.load(db, for: session.registry), over: policies)
        try PendingSchemaEntries.moveFirst(db)
        let choice = try RebaseSet.all(db, from: first)
        try loosen()
        let transactions = try pull.undo(choice)
        try pull.rebase(choice, transactions, known: [], RowIdentityRecorder(), relayTime: now.milliseconds)
        summary.rebased = choice.rows.count
        try session.untrackedChildren.settle()
        try HighestKeys.save(db, session.highestKeys)
        return summary
    }
}
