/// An entry of a space's log that a replica cannot apply: its position, its author, and the rule that it breaks.
///
/// It contains names of tables and columns, but no value of a row.
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
        /// The bytes of its batch are corrupt.
        case damagedBatch = "damaged-batch"
        /// A transaction differs from the digest in its batch.
        case wrongDigest = "wrong-digest"
        /// The replica that the batch names as author did not sign the batch.
        case badSignature = "bad-signature"
        /// The batch is not sealed although the space is, or its seal is broken.
        case badSeal = "bad-seal"
        /// The replica does not have the key that sealed the batch.
        case missingKey = "missing-key"
        case badSchema = "bad-schema"
        /// The entry changes something that its footprint does not contain. So the relay could not compare it with
        /// other entries.
        case badFootprint = "bad-footprint"
        /// The entry contains a value that the format does not allow.
        case badValue = "bad-value"
    }

    public var position: Position
    public var rule: Rule
    /// nil if the header of the batch cannot be read.
    public var author: ReplicaID?
    /// The name that the author gave itself in one of its entries.
    public var authorName: String?
    public var transaction: TransactionID?
    /// The digest of the entry, as its batch states it.
    public var digest: Digest?
    public var table: String?
    /// The names of the table's key columns.
    public var keyColumns: [String]
    /// The column with a different value.
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
