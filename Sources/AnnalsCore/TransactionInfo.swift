/// The author and time of a transaction, and other facts that are stored with its changes.
package struct TransactionInfo: Hashable, Sendable {
    package var id: TransactionID
    package var time: HybridTime
    package var author: String?
    /// The name of the replica on which the transaction was written; nil before it is in the outbox.
    package var replicaName: String?
    package var contextName: String?
    package var origin: Origin

    /// The origin of a transaction at its author's store.
    package enum Origin: UInt8, Hashable, Sendable {
        /// A write through Annals.
        case local = 0
        /// Writes of another program, recorded later.
        case external = 1
        /// A schema change.
        case migration = 2
        /// A write through Annals that gives rows back earlier values: a revert, a restore or a resolved conflict. If two replicas insert
        /// the same deleted row again, the rows are one.
        case undo = 3
    }

    package init(
        id: TransactionID, time: HybridTime, author: String? = nil, replicaName: String? = nil, contextName: String? = nil,
        origin: Origin = .local
    ) {
        self.id = id
        self.time = time
        self.author = author
        self.replicaName = replicaName
        self.contextName = contextName
        self.origin = origin
    }
}
