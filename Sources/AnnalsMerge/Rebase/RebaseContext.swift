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
    /// Cells with a writer on another replica that earlier transactions of the outbox changed in this rebase.
    private var ownCells: [RowIdentities.ID: Set<Int>] = [:]
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

    /// The writer on another replica of a cell's present value; nil if an earlier transaction of the outbox changed it.
    func presentWriter(of columnIndex: Int, of rowID: RowIdentities.ID) -> WriteMark? {
        ownCells[rowID]?.contains(columnIndex) == true ? nil : rowIdentities[rowID].writer(of: columnIndex)
    }

    /// To be called with each row that a rebased transaction changed.
    func noteChange(of rowID: RowIdentities.ID, from before: [Value], to after: [Value]) {
        for columnIndex in before.indices where before[columnIndex] != after[columnIndex] {
            if rowIdentities[rowID].writer(of: columnIndex) != nil { ownCells[rowID, default: []].insert(columnIndex) }
        }
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
