/// Who wrote a transaction, and when: what travels with its changes.
public struct TransactionInfo: Hashable, Sendable {
    public var id: TransactionID
    public var time: HybridTime
    public var author: String?
    public var contextName: String?
    public var origin: Origin

    /// Where the work came from at its author's store.
    public enum Origin: UInt8, Hashable, Sendable {
        /// A managed write.
        case local = 0
        /// Another program's writes, sealed later.
        case external = 1
        /// A schema change.
        case migration = 2
    }

    public init(id: TransactionID, time: HybridTime, author: String? = nil, contextName: String? = nil, origin: Origin = .local) {
        self.id = id
        self.time = time
        self.author = author
        self.contextName = contextName
        self.origin = origin
    }
}
