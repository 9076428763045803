/// A problem that verification found in a store.
public struct Finding: Hashable, Sendable {
    public enum Code: String, Hashable, Sendable, CaseIterable {
        /// SQLite reports corruption of the file, or a row violates NOT NULL or CHECK.
        case integrity
        /// Rows have no parent.
        case foreignKey
        /// A capture trigger is missing or differs from the expected one.
        case trigger
        /// Another program may have written rows without capture: they were not compared with the space's rows yet, or the table is
        /// not tracked any more, because the program replaced it.
        case unseen
        /// Raw changes, spans or transactions of history are missing, inconsistent or unreadable.
        case history
        /// Rows differ from the rows that history leads to (law 8).
        case rows
        /// Undoing history and repeating it does not lead back to the same rows (law 8).
        case replay
        /// The rows without the outbox do not match any state of the log (law 3), or the store's data about its space cannot be
        /// read.
        case log
        /// The relay served a log that contradicts statements signed by members of the space.
        case relay
    }

    public var code: Code
    /// The problem as a sentence, without user data.
    public var message: String
    /// The table that the problem concerns, if it concerns one table.
    public var table: String?

    package init(_ code: Code, _ message: String, table: String? = nil) {
        self.code = code
        self.message = message
        self.table = table
    }
}
