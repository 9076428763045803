import AnnalsCore

/// Why an entry could not be applied. All of these leave the store as it was.
enum MergeError: Error {
    /// The rows are not what the log says they were.
    case diverged(Divergence)
    /// A body calls a table that its batch did not name.
    case unknownLayout(Int)
    /// A table or column of the entry that this store does not have yet.
    case unknownTable(String)
    case unknownColumn(table: String, column: String)
    /// A committed state would leave a child without its parent.
    /// `position`: of the entry that does so, where it is one of the log.
    case danglingReference(table: String, key: [Value], parent: String, position: Position? = nil)
    /// An outbox transaction that no decision could lay on top.
    case unsettled(table: String)
}

/// Where rows and log part: named exactly, so that it can be looked at.
struct Divergence: Sendable {
    enum Kind: Sendable {
        case missingRow
        case otherValue(column: String, stored: Value, expected: Value)
        /// The row cannot be written, for instance because its key is taken.
        case refused(String)
    }

    var table: String
    var key: [Value]
    var position: Position?
    var kind: Kind
}
