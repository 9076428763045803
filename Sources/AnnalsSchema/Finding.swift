/// Something that is off in a store.
public struct Finding: Hashable, Sendable {
    public enum Code: String, Hashable, Sendable, CaseIterable {
        /// SQLite itself finds the file damaged, or a row breaks NOT NULL or CHECK.
        case integrity
        /// Rows whose parent is missing.
        case foreignKey
        /// A capture trigger is missing or not as it should be.
        case trigger
        /// Another program may have written rows that no trigger saw, and they were not compared with the space's yet.
        case unseen
        /// Raw changes, spans or transactions of history are missing, do not fit together or cannot be read.
        case history
        /// Rows are not what history says they became (law 8).
        case rows
        /// Going back through history and forth again does not end where it began (law 8).
        case replay
        /// Rows without the outbox are no state that the log could have (law 3), or what the store knows of its space cannot be read.
        case log
        /// The relay shows a log that contradicts what the members of the space signed.
        case relay
    }

    public var code: Code
    /// What is off, as a sentence; it holds no user data.
    public var message: String
    /// The table, where it is about one.
    public var table: String?

    package init(_ code: Code, _ message: String, table: String? = nil) {
        self.code = code
        self.message = message
        self.table = table
    }
}
