/// An entry of a space's log that a replica cannot apply: where it is, who wrote it, and which rule it breaks.
///
/// It holds names of tables and columns and no value of a row.
public struct RefusedEntry: Sendable, Hashable {
    public enum Rule: String, Sendable, CaseIterable {
        case check = "CHECK"
        case foreignKey = "foreign-key"
        case unique = "UNIQUE"
        case notNull = "NOT-NULL"
        /// Another constraint, such as the type of a column in a STRICT table.
        case constraint
        /// The entry changes or deletes a row that does not exist.
        case missingRow = "missing-row"
        /// The old value in the entry differs from the stored one.
        case otherValue = "other-value"
        /// The bytes of its batch are damaged.
        case damagedBatch = "damaged-batch"
        /// A transaction differs from the digest in its batch.
        case wrongDigest = "wrong-digest"
        /// The replica that the batch names did not sign it.
        case badSignature = "bad-signature"
        /// It is not sealed in a sealed space, or its seal is broken.
        case badSeal = "bad-seal"
        /// The replica lacks the key that it is sealed under.
        case missingKey = "missing-key"
        case badSchema = "bad-schema"
        /// It changes what its footprint does not name, so the relay could not compare it with the entries of others.
        case badFootprint = "bad-footprint"
        /// It holds a value that the format does not allow.
        case badValue = "bad-value"
    }

    public var position: Position
    public var rule: Rule
    /// nil where the head of the batch cannot be read.
    public var author: ReplicaID?
    /// What the author calls itself, where an entry of its own says so.
    public var authorName: String?
    public var transaction: TransactionID?
    /// Of the entry, as its batch states it.
    public var digest: Digest?
    public var table: String?
    /// The names of the table's key columns.
    public var keyColumns: [String]
    /// The column that differs.
    public var column: String?

    public init(
        position: Position, rule: Rule, author: ReplicaID? = nil, authorName: String? = nil, transaction: TransactionID? = nil,
        digest: Digest? = nil, table: String? = nil, keyColumns: [String] = [], column: String? = nil
    ) {
        self.position = position
        self.rule = rule
        self.author = author
        self.authorName = authorName
        self.transaction = transaction
        self.digest = digest
        self.table = table
        self.keyColumns = keyColumns
        self.column = column
    }
}
