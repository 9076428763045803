/// Identifies an entry of the conflict journal. The id is the same on every replica.
public struct ConflictID: Hashable, Sendable {
    /// The replica that resolved the conflict.
    public var replica: ReplicaID
    /// The transaction that carries the journal entry.
    public var transaction: TransactionID
    /// The index of the entry among the journal entries of that transaction, from 0.
    public var index: Int

    package init(replica: ReplicaID, transaction: TransactionID, index: Int) {
        self.replica = replica
        self.transaction = transaction
        self.index = index
    }
}

/// A user's decision about an entry of the conflict journal. It is in the log, in the transaction that writes the
/// chosen values.
package struct ConflictResolution: Hashable, Sendable {
    package enum Choice: UInt8, Hashable, Sendable {
        case stored = 0
        case incoming = 1
        /// Values that the user entered.
        case values = 2
    }

    package var conflict: ConflictID
    package var choice: Choice

    package init(conflict: ConflictID, choice: Choice) {
        self.conflict = conflict
        self.choice = choice
    }
}
