package import AnnalsCore

/// What one rebase knows beside the rows. It lasts from the first transaction of the outbox to the last one.
package final class RebaseContext {
    package private(set) var policies: MergePolicies
    /// The author of the transactions, and the relay's clock when it answered, in milliseconds since 1970. Together with
    /// a transaction's time they decide which side is later.
    package let replica: ReplicaID
    package let relayTime: Int64
    package var rowIdentities: RowIdentities
    /// For each table, by its name in the log: the highest integer key that is used, was ever used, or is wanted by the
    /// outbox.
    package var highestKeys: [String: Int64]
    private var policiesOfTables: [ObjectIdentifier: MergePolicies.Table] = [:]

    package init(
        rowIdentities: RowIdentities, policies: MergePolicies = MergePolicies(), replica: ReplicaID, relayTime: Int64,
        highestKeys: [String: Int64] = [:]
    ) {
        self.rowIdentities = rowIdentities
        self.policies = policies
        self.replica = replica
        self.relayTime = relayTime
        self.highestKeys = highestKeys
    }

    /// Later transactions are rebased under these policies.
    package func use(_ policies: MergePolicies) {
        self.policies = policies
        policiesOfTables = [:]
    }

    /// Looked up for each row, so the folded name is looked up only once.
    func policies(of table: MergeTable) -> MergePolicies.Table {
        if let known = policiesOfTables[ObjectIdentifier(table)] { return known }
        let found = policies[table.name]
        policiesOfTables[ObjectIdentifier(table)] = found
        return found
    }
}
