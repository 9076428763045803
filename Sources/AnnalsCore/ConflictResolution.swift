/// What a line of the conflict journal is called on every replica.
public struct ConflictID: Hashable, Sendable {
    /// Who settled the conflict.
    public var replica: ReplicaID
    /// The transaction that carries the line.
    public var transaction: TransactionID
    /// Its place among that transaction's lines, from 0.
    public var index: Int

    package init(replica: ReplicaID, transaction: TransactionID, index: Int) {
        self.replica = replica
        self.transaction = transaction
        self.index = index
    }
}

/// A person's decision about a line of the conflict journal. It travels in the log, in the transaction that writes the
/// decided values.
package struct ConflictResolution: Hashable, Sendable {
    package enum Choice: UInt8, Hashable, Sendable {
        case stored = 0
        case incoming = 1
        /// Values of the person's own.
        case values = 2
    }

    package var conflict: ConflictID
    package var choice: Choice

    package init(conflict: ConflictID, choice: Choice) {
        self.conflict = conflict
        self.choice = choice
    }
}
