/// A named reader of history. The store keeps its position in the file.
///
/// So the position moves in the same SQLite transaction as the reader's own writes. After a crash nothing is skipped and nothing is
/// read twice.
///
///     let search: HistoryConsumer = "search index"
///     try await store.register(search)
///     try await store.write { db in try db.execute(sql: "UPDATE invoice SET isPaid = 1 WHERE id = 17") }
///     var isMore = true
///     while isMore {
///         isMore = try await store.consume(as: search, limit: 100) { db, reader, transactions in
///             for transaction in transactions { try updateIndex(db, reader.changes(in: transaction)) }
///         }
///     }
///
/// A purge keeps what a consumer has not read yet, unless its lease has lapsed.
public struct HistoryConsumer: Hashable, Codable, Sendable, ExpressibleByStringLiteral {
    public var name: String
    /// How long it may be idle before it no longer limits a purge; nil: forever.
    public var lease: Duration?

    public init(_ name: String, lease: Duration? = nil) {
        self.name = name
        self.lease = lease
    }

    public init(stringLiteral value: String) {
        self.init(value)
    }
}

/// How far a consumer has read.
public struct ConsumerStatus: Hashable, Sendable {
    public enum Kind: Hashable, Sendable {
        /// Registered by an app or from the command line.
        case registered
        /// The agent that pushes this store's transactions to its space.
        case push
    }

    public enum State: String, Hashable, Sendable {
        /// It limits a purge to its token.
        case live
        /// It was idle for longer than its lease, and limits nothing.
        case lapsed
        /// A purge deleted what it had not read; it has to start again.
        case expired
    }

    public var consumer: HistoryConsumer
    public var kind: Kind
    /// The point up to which it has read.
    public var token: HistoryToken
    /// The number of transactions in history that it has not read.
    public var unread: Int64
    /// The time of its last read or acknowledgement, in milliseconds since 1970; nil for the push.
    public var lastSeen: Int64?
    public var state: State
}
