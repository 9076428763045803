/// One conflict as it was settled: what was there, what was wanted, who won.
///
/// Entries travel inside the rewritten transaction, so every replica's journal at a position is the same.
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
        /// Two inserts of one integer key; the incoming row took another number.
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
    /// The key under which the author meant the row.
    public var key: [Value]
    /// The columns in dispute; empty when it is the whole row.
    public var columns: [String]
    public var policy: String
    /// One value per column in dispute, or the whole row's; nil where there was no row.
    public var base: [Value]?
    public var stored: [Value]?
    public var incoming: [Value]?
    public var winner: Side
    /// Who wrote the stored value, when, and at which position; nil where the constraint itself decided.
    public var storedReplica: ReplicaID?
    public var storedTime: HybridTime?
    public var storedPosition: Position?

    package init(
        kind: Kind, table: String, key: [Value], columns: [String] = [], policy: String, base: [Value]? = nil,
        stored: [Value]? = nil, incoming: [Value]? = nil, winner: Side, storedReplica: ReplicaID? = nil,
        storedTime: HybridTime? = nil, storedPosition: Position? = nil
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
    }
}

extension JournalEntry {
    /// Bytes of its values.
    package var byteCount: Int {
        [key, base ?? [], stored ?? [], incoming ?? []].joined().reduce(0) { $0 + $1.byteCount }
    }
}
