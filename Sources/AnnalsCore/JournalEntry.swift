/// One resolved conflict: the stored value, the incoming value, and the winner.
///
/// An entry is part of the rewritten transaction. So the journals of all replicas are equal at the same position.
public struct JournalEntry: Hashable, Sendable {
    public enum Kind: UInt8, Hashable, Sendable, CaseIterable {
        /// Two changes of one column or row.
        case update = 0
        /// An update of a row that the other side deleted.
        case updateOfDeleted = 1
        /// A delete of a row that the other side changed.
        case deleteOfUpdated = 2
        /// Two inserts of one key that became one row.
        case insert = 3
        /// Two inserts of one integer key. The incoming row got another number.
        case renumber = 4
        case unique = 5
        case foreignKey = 6
        /// NOT NULL, CHECK or a STRICT type.
        case check = 7
    }

    public enum Side: UInt8, Hashable, Sendable {
        case stored = 0
        case incoming = 1
    }

    public var kind: Kind
    public var table: String
    /// The key that the author used for the row.
    public var key: [Value]
    /// The columns in conflict. Empty if the conflict is about the whole row.
    public var columns: [String]
    public var policy: String
    /// One value for each column in conflict, or all values of the row. nil if there was no row.
    public var base: [Value]?
    public var stored: [Value]?
    public var incoming: [Value]?
    public var winner: Side
    /// The writer, time and position of the stored value. nil if a constraint alone decided.
    public var storedReplica: ReplicaID?
    public var storedTime: HybridTime?
    public var storedPosition: Position?
    /// When the author wrote the incoming value, if that is not the time of the incoming transaction.
    public var incomingTime: HybridTime?

    package init(
        kind: Kind, table: String, key: [Value], columns: [String] = [], policy: String, base: [Value]? = nil,
        stored: [Value]? = nil, incoming: [Value]? = nil, winner: Side, storedReplica: ReplicaID? = nil,
        storedTime: HybridTime? = nil, storedPosition: Position? = nil, incomingTime: HybridTime? = nil
    ) {
        self.kind = kind
        self.table = table
        self.key = key
        self.columns = columns
        self.policy = policy
        self.base = base
        self.stored = stored
        self.incoming = incoming
        self.winner = winner
        self.storedReplica = storedReplica
        self.storedTime = storedTime
        self.storedPosition = storedPosition
        self.incomingTime = incomingTime
    }
}

extension JournalEntry {
    /// Bytes of its values.
    package var byteCount: Int {
        [key, base ?? [], stored ?? [], incoming ?? []].joined().reduce(0) { $0 + $1.byteCount }
    }
}
