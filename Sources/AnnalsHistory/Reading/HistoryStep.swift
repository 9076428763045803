public import Foundation

/// One change of one row, as it was written. A transaction's change of a row, `HistoryChange`, is the net effect of its steps.
///
/// A transaction of origin external may hold many commits of other programs. Its steps give the moment of each write and the values
/// in between.
public struct HistoryStep: Hashable, Sendable {
    /// What the step did to the row. Large values that an update did not change are not among the columns.
    public var change: HistoryChange
    /// When the author wrote the row, in milliseconds, by the author's clock. SQLite has one time for all rows of a statement. An imported
    /// transaction has one step for each row, with the time of the author's last write of the row.
    ///
    /// nil if nothing noted the time: for a row that a REPLACE of another key removed, and for a write that a program's trigger made
    /// while it hid it from capture.
    public var time: Date?
}
