/// What becomes of a delete and an update of one row, neither of which had seen the other.
package enum DeleteRule: String, Hashable, Sendable, CaseIterable {
    /// The later hybrid logical time. The default.
    case lastWriterWins
    case deleteWins
    /// The row stays, or comes back whole from the delete's old values plus the update.
    case updateWins
    /// Stored stands, and the conflict waits for a person.
    case manual
}

/// What becomes of a value of a UNIQUE index that a row of the log holds and an incoming change brings.
package enum UniqueRule: String, Hashable, Sendable, CaseIterable {
    /// The incoming insert is set aside, an incoming update loses the index's columns. The default.
    case keepFirst
    /// The stored row is set aside, unless its children forbid that.
    case keepLast
    /// One row: the stored one stands, and the other's children refer to it from then on.
    case mergeRows
}

/// What becomes of an INTEGER PRIMARY KEY that two inserts took.
package enum KeyRule: String, Hashable, Sendable, CaseIterable {
    /// The incoming row takes the next number that was never used, and what refers to it follows. The default.
    case renumber
    /// The same key means the same row.
    case mergeRows
}
