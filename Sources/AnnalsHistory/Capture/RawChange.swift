package import AnnalsCore

/// One change of one row, as a trigger wrote it.
///
/// Several raw changes can concern one row within a transaction, and SQLite promises no order among triggers. `NetChangeFolder`
/// computes the transaction's net change of the row.
package struct RawChange: Hashable, Sendable {
    /// The id in annals_changes_ID.
    package var id: Int64
    /// All stored columns before the change; nil for an insert.
    package var old: [Value]?
    /// All stored columns after the change; nil for a delete.
    package var new: [Value]?
    /// Indices of large values that an update did not change and left out. Both rows have NULL there. Key columns are never left
    /// out.
    package var leftOut: [Int] = []
    /// The rowid before, if the table's key may hold NULL.
    package var oldRowid: Int64?
    /// The rowid after, if the table's key may hold NULL.
    package var newRowid: Int64?

    /// The change before which a REPLACE removed the row. The delete itself was written last.
    package var precedes: Int64?
    /// When it was written, in milliseconds since 1970; nil if that is unknown or was not read.
    package var time: Int64?

    package init(
        id: Int64, old: [Value]?, new: [Value]?, leftOut: [Int] = [], oldRowid: Int64? = nil, newRowid: Int64? = nil, precedes: Int64? = nil
    ) {
        self.id = id
        self.old = old
        self.new = new
        self.leftOut = leftOut
        self.oldRowid = oldRowid
        self.newRowid = newRowid
        self.precedes = precedes
    }
}
