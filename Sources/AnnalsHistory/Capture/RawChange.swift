package import AnnalsCore

/// One change of one row as a trigger wrote it down.
///
/// Several of them can concern one row within a transaction, and SQLite promises no order among triggers: what the
/// transaction did to a row is what `NetChangeFolder` makes of them.
package struct RawChange: Hashable, Sendable {
    /// Its place in annals_changes_ID.
    package var id: Int64
    /// All stored columns before; nil for an insert.
    package var old: [Value]?
    /// All stored columns after; nil for a delete.
    package var new: [Value]?
    /// Places of large values that an update left as they were and does not hold; both rows have NULL there. The key is never among them.
    package var leftOut: [Int] = []
    /// The rowid before, where the table's key may hold NULL.
    package var oldRowid: Int64?
    /// The rowid after, where the table's key may hold NULL.
    package var newRowid: Int64?

    /// For a row that a REPLACE removed, the change just before which that happened: it was written down last.
    package var precedes: Int64?

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
