public import AnnalsCore
public import AnnalsHistory
public import Foundation

/// The writer of each column of a row in its current state.
///
///     let blame = try await store.blame(table: "customer", key: [.integer(7)])
///     for column in blame.columns { print(column.name, column.value, column.writer) }
public struct Blame: Hashable, Sendable {
    /// The writer of a value.
    public enum Writer: Hashable, Sendable {
        /// The transaction has the author, origin, process and time.
        case transaction(HistoryTransaction)
        /// The value is older than the history that the store still holds of the table.
        case beforeHistory
        /// The column was added when the row existed already, and the row has the column's default. No transaction wrote it.
        case columnDefault
    }

    /// Why no row has the key now.
    public enum End: Hashable, Sendable {
        case deleted(HistoryTransaction)
        /// The row got another key.
        case moved(to: [Value], HistoryTransaction)
    }

    /// A column with its current value. If no row has the key now, the last value.
    public struct Column: Hashable, Sendable {
        public var name: String
        public var value: Value
        public var writer: Writer
        /// When the writer wrote the value; nil if the writer is no transaction.
        ///
        /// A transaction can be a group of commits, and this is the time at which the row was written, by its author's clock. It is the
        /// transaction's time if history does not have the time of the write.
        public var time: Date?
    }

    public var table: String
    public var keyColumns: [String]
    public var key: [Value]
    /// All stored columns in the table's order.
    public var columns: [Column]
    /// nil if a row has the key now.
    public var end: End?
}
