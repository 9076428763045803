/// How a conflict between a delete and an update of one row is resolved. Neither author had seen the other change.
package enum DeleteRule: String, Hashable, Sendable, CaseIterable {
    /// The later hybrid logical time wins. This is the default.
    case lastWriterWins
    case deleteWins
    /// The row stays. If it was deleted, it is restored with the old values of the delete and the update.
    case updateWins
    /// The stored state stays, and the conflict waits for a user's decision.
    case manual
}

/// How a conflict is resolved when an incoming change has a value of a UNIQUE index that a stored row already has.
package enum UniqueRule: String, Hashable, Sendable, CaseIterable {
    /// An incoming insert is set aside, and an incoming update loses the index's columns. This is the default.
    case keepFirst
    /// The stored row is set aside, unless its children prevent that.
    case keepLast
    /// Both become one row: the stored row stays, and the children of the other row refer to it.
    case mergeRows
}

/// How a conflict is resolved when two inserts have the same INTEGER PRIMARY KEY.
package enum KeyRule: String, Hashable, Sendable, CaseIterable {
    /// The incoming row gets the next number that was never used, and its children follow. This is the default.
    case renumber
    /// The same key means the same row.
    case mergeRows
}
