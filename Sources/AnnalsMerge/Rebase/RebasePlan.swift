package import AnnalsCore

/// What one attempt writes, in this order. Rows that change a unique value are removed before any row is written, so that
/// rows may swap their values (merge rule 19).
package struct RebasePlan {
    package var deleted: [RowWrite] = []
    /// Rows that are removed first, and then written with their new values.
    package var displaced: [RowWrite] = []
    /// Rows that are inserted, or updated in place.
    package var written: [RowWrite] = []
}

package struct RowWrite {
    /// The number of the row in the attempt.
    package let number: Int
    package let table: MergeTable
    /// The stored row. nil for an insert.
    package let before: [Value]?
    /// The row as it is to be. nil for a delete.
    package let after: [Value]?
}

/// Why the store did not take a row.
package enum RowRefusal {
    /// A primary key or a UNIQUE index, with the rows that have the values. Empty if they were not found.
    case unique([UniqueCollision])
    /// Any other constraint.
    case check
}

/// What is left of a transaction after its rebase.
package struct RebaseResult {
    /// Deleted rows first, so that a key that is deleted and inserted is one update.
    package var rows: [RebasedChange]
    /// The entries of earlier rebases that still hold, and those of this rebase.
    package var journal: [JournalEntry]
    /// The number of entries of this rebase, without renumbered keys.
    package var conflicts: Int
    /// Its rows that have other keys than it gave them.
    package var renamed: [RenamedRow]
}

package struct RebasedChange {
    package var table: MergeTable
    package var old: [Value]?
    package var new: [Value]?
    package var mark: RowMark?
    /// How long before the transaction's time the row was changed last, in milliseconds.
    package var age: Int64
}

/// A row of the transaction that has another key now.
package struct RenamedRow {
    package var table: MergeTable
    package var old: [Value]
    package var new: [Value]
}

/// No decision lets a transaction apply.
package struct UnsettledTransaction: Error {
    package var table: String
}
