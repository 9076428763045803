package import AnnalsCore

/// Why an entry could not be applied. All of these leave the store as it was.
package enum MergeError: Error {
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
package struct Divergence: Sendable {
    package enum Kind: Sendable {
        case missingRow
        case otherValue(column: String, stored: Value, expected: Value)
        /// The row cannot be written, for instance because its key is taken.
        case refused(String)
    }

    package var table: String
    package var key: [Value]
    package var position: Position?
    package var kind: Kind

    package init(table: String, key: [Value], position: Position? = nil, kind: Kind) {
        self.table = table
        self.key = key
        self.position = position
        self.kind = kind
    }
}
