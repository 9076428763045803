public import AnnalsCore
public import AnnalsHistory

/// Who wrote each column of a row as it stands now.
///
///     let blame = try await store.blame(table: "customer", key: [.integer(7)])
///     for column in blame.columns { print(column.name, column.value, column.writer) }
public struct Blame: Hashable, Sendable {
    /// Who wrote a value.
    public enum Writer: Hashable, Sendable {
        /// Its author, origin, process and time are the transaction's.
        case transaction(HistoryTransaction)
        /// It is older than what history still holds of the table.
        case beforeHistory
        /// Nobody: the column was added to a row that was there, and has its default.
        case columnDefault
    }

    /// Why no row has the key now.
    public enum End: Hashable, Sendable {
        case deleted(HistoryTransaction)
        /// The row got another key.
        case moved(to: [Value], HistoryTransaction)
    }

    /// A column with its present value, or the last one of a row that is gone.
    public struct Column: Hashable, Sendable {
        public var name: String
        public var value: Value
        public var writer: Writer
    }

    public var table: String
    public var keyColumns: [String]
    public var key: [Value]
    /// All stored columns in the table's order.
    public var columns: [Column]
    /// nil while the row is there.
    public var end: End?
}
