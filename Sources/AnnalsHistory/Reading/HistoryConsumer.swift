/// A named reader of history, whose place is kept in the store itself.
///
/// Because the place is in the file, it moves in the same SQLite transaction as the work that was done with what was
/// read: after a crash nothing is skipped and nothing is read twice.
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
/// A purge leaves what a consumer has not read yet, unless its lease has lapsed.
public struct HistoryConsumer: Hashable, Codable, Sendable, ExpressibleByStringLiteral {
    public var name: String
    /// How long it may be idle before it no longer holds back a purge; nil: for ever.
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
        /// The agent that pushes this store's work to its space.
        case push
    }

    public enum State: String, Hashable, Sendable {
        /// It holds back a purge at its token.
        case live
        /// It was idle for longer than its lease, and holds back nothing.
        case lapsed
        /// What it had not read was purged: it has to start over.
        case expired
    }

    public var consumer: HistoryConsumer
    public var kind: Kind
    /// The point it has read up to.
    public var token: HistoryToken
    /// How many transactions it has not read, of those that history still holds.
    public var unread: Int64
    /// When it last read or acknowledged, in milliseconds since 1970; nil for the push.
    public var lastSeen: Int64?
    public var state: State
}
