import AnnalsCore
public import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
public import GRDB

extension Store {
    /// Registers a reader of history, or gives a registered one another position and lease.
    ///
    ///     try await store.register("search index", from: token)
    ///
    /// - Parameters:
    ///   - consumer: the reader of history.
    ///   - token: the point up to which it has read; nil: the latest.
    /// - Throws: `AnnalsError` with code `tokenExpired`, `tokenUnknown`, `notTracked` or `usage`.
    public func register(_ consumer: HistoryConsumer, from token: HistoryToken? = nil) async throws {
        let now = configuration.now()
        try await managed("consumers") { db, step in
            try Self.requireHistory(db)
            try step.recordExternal()
            try ConsumerTable(db).register(consumer, at: token ?? HistoryBounds(db).latest, now: now)
        }
    }

    /// Removes a reader, so that it no longer limits a purge.
    ///
    /// - Throws: `AnnalsError` with code `consumerUnknown`.
    public func unregister(_ consumer: HistoryConsumer) async throws {
        try await managed("consumers") { db, _ in
            let table = try ConsumerTable(db)
            // Looking up a missing consumer throws the usual error.
            if try !table.remove(consumer.name) { _ = try table.entry(consumer.name) }
        }
    }

    /// The readers of history and their positions, including the agent's push. Records writes of other programs first.
    public func consumers() async throws -> [ConsumerStatus] {
        let now = configuration.now()
        try await bringUpToDate()
        return try await translated("consumers") {
            try await database.reading { db in try ConsumerTable(db).statuses(push: PushedHistory.end(db, HistoryBounds(db)), now: now) }
        }
    }

    /// Lets a consumer process the next transactions that it has not read, and moves its position in the same SQLite transaction.
    ///
    /// Writes in `work` are recorded as a transaction with the consumer's name as the author. So a request that excludes that author
    /// does not return the consumer's own writes.
    ///
    /// - Parameters:
    ///   - consumer: the reader of history.
    ///   - request: selects transactions. It starts at the consumer's position. The consumer does not move past the request's end.
    ///   - limit: the maximum number of transactions at a time; the request may have a lower one.
    ///   - work: gets a reader for their changes. If it throws, nothing is changed, and the consumer's position stays.
    /// - Returns: whether there was anything to read.
    /// - Throws: `AnnalsError` with code `consumerUnknown`, or `tokenExpired` if a purge deleted what it had not read. Then call
    ///   `startOver`.
    @discardableResult
    public func consume(
        as consumer: HistoryConsumer, matching request: HistoryRequest = HistoryRequest(), limit: Int = 100,
        _ work: @escaping @Sendable (Database, HistoryReader, [HistoryTransaction]) throws -> Void
    ) async throws -> Bool {
        let now = configuration.now()
        return try await managed("consumers") { db, step in
            try Self.requireHistory(db)
            try step.recordExternal()
            let table = try ConsumerTable(db)
            let reader = try HistoryReader(db)
            let start = try table.token(of: consumer.name)
            let limit = min(limit, request.maximum ?? limit)
            let transactions = try reader.transactions(request.continuing(after: start).limit(limit))
            // If fewer transactions were found than the limit, and the request has no end, all history was searched, and the
            // consumer moves to its end. Otherwise it moves to the last transaction that was found.
            let isAtEnd = transactions.count < limit && request.before == nil
            let end = isAtEnd ? reader.bounds.latest : transactions.last?.token ?? start
            if !transactions.isEmpty {
                _ = try TransactionRecorder.managedWrite(db, author: consumer.name, step.environment) { db in
                    try ClosureError.passing { try work(db, reader, transactions) }
                }
            }
            try table.acknowledge(consumer.name, end, now: now)
            return !transactions.isEmpty
        }
    }

    /// The transactions that a consumer has not read, oldest first, without moving its position. Call `acknowledge` when they are
    /// processed. The call renews the consumer's lease.
    ///
    /// - Throws: as `consume`.
    public func unread(
        by consumer: HistoryConsumer, matching request: HistoryRequest = HistoryRequest(), limit: Int = 100
    ) async throws -> [HistoryTransaction] {
        let now = configuration.now()
        return try await managed("consumers") { db, step in
            try Self.requireHistory(db)
            try step.recordExternal()
            let table = try ConsumerTable(db)
            let start = try table.token(of: consumer.name)
            try table.acknowledge(consumer.name, start, now: now)
            return try HistoryReader(db).transactions(request.continuing(after: start).limit(min(limit, request.maximum ?? limit)))
        }
    }

    /// The point up to which a consumer has read. The call renews the consumer's lease.
    ///
    /// - Throws: as `consume`.
    public func token(of consumer: HistoryConsumer) async throws -> HistoryToken {
        let now = configuration.now()
        return try await managed("consumers") { db, _ in
            try Self.requireHistory(db)
            let table = try ConsumerTable(db)
            let token = try table.token(of: consumer.name)
            try table.acknowledge(consumer.name, token, now: now)
            return token
        }
    }

    /// Notes that a consumer has read up to a token. A consumer that is further does not move.
    ///
    /// - Throws: `AnnalsError` with code `consumerUnknown`, `tokenUnknown` or `tokenExpired`.
    public func acknowledge(_ token: HistoryToken, by consumer: HistoryConsumer) async throws {
        let now = configuration.now()
        try await managed("consumers") { db, _ in try ConsumerTable(db).acknowledge(consumer.name, token, now: now) }
    }

    /// Restarts a consumer whose token was purged: it reads the current rows and continues from there, in one SQLite transaction.
    ///
    ///     try await store.startOver("search index") { db in try rebuildIndex(db) }
    ///
    /// A consumer that is not registered yet can start this way too. Writes of the baseline have the consumer's name as the author.
    @discardableResult
    public func startOver<T: Sendable>(
        _ consumer: HistoryConsumer, _ baseline: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        let now = configuration.now()
        return try await managed("consumers") { db, step in
            try Self.requireHistory(db)
            try step.recordExternal()
            let value = try TransactionRecorder.managedWrite(db, author: consumer.name, step.environment) { db in
                try ClosureError.passing { try baseline(db) }
            }.value
            try ConsumerTable(db).register(consumer, at: HistoryBounds(db).latest, now: now)
            return value
        }
    }

    static func requireHistory(_ db: Database) throws {
        guard try StoreSchema.exists(db) else { throw StoreSchema.notTracked }
    }
}

extension HistoryConsumer {
    /// Moves the consumer's position inside a write of the app, so that both happen or neither.
    ///
    ///     try await store.write { db in
    ///         try db.execute(sql: "UPDATE widget SET total = (SELECT count(*) FROM invoice)")
    ///         try HistoryConsumer("widget").acknowledge(token, in: db)
    ///     }
    ///
    /// - Throws: as `Store.acknowledge`.
    public func acknowledge(_ token: HistoryToken, in db: Database, now: Int64 = Store.Configuration().now()) throws {
        try ConsumerTable(db).acknowledge(name, token, now: now)
    }
}
