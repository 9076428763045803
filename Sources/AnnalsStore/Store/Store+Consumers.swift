import AnnalsCore
public import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
public import GRDB

extension Store {
    /// Registers a reader of history, or gives one that is registered another place and lease.
    ///
    ///     try await store.register("search index", from: token)
    ///
    /// - Parameters:
    ///   - consumer: the reader of history.
    ///   - token: what it has read already; nil: everything up to now.
    /// - Throws: `AnnalsError` with code `tokenExpired`, `tokenUnknown`, `notTracked` or `usage`.
    public func register(_ consumer: HistoryConsumer, from token: HistoryToken? = nil) async throws {
        let now = configuration.now()
        try await managed("consumers") { db, step in
            try Self.requireHistory(db)
            try step.recordExternal()
            try ConsumerTable(db).register(consumer, at: token ?? HistoryBounds(db).latest, now: now)
        }
    }

    /// Forgets a reader, so that it holds back no purge any more.
    ///
    /// - Throws: `AnnalsError` with code `consumerUnknown`.
    public func unregister(_ consumer: HistoryConsumer) async throws {
        try await managed("consumers") { db, _ in
            let table = try ConsumerTable(db)
            // Asked for, so that its absence is told as everywhere else.
            if try !table.remove(consumer.name) { _ = try table.entry(consumer.name) }
        }
    }

    /// Who reads history and how far, the agent's push among them, other programs' writes recorded first.
    public func consumers() async throws -> [ConsumerStatus] {
        let now = configuration.now()
        try await bringUpToDate()
        return try await translated("consumers") {
            try await database.reading { db in try ConsumerTable(db).statuses(push: PushPlace.number(db, HistoryBounds(db)), now: now) }
        }
    }

    /// Lets a consumer work on the next transactions that it has not read, and moves it on in the same SQLite transaction.
    ///
    /// What the work writes is sealed as a transaction with the consumer's name as its author, so that a request which
    /// excludes that author does not show it its own writes.
    ///
    /// - Parameters:
    ///   - consumer: the reader of history.
    ///   - request: which of them it wants; its starting point is the consumer's own. Past the point where it ends the consumer does not go.
    ///   - limit: at most so many transactions at a time; fewer where the request says so.
    ///   - work: is given a reader for their changes. When it throws, nothing is changed, and the consumer stays where it is.
    /// - Returns: whether there was anything to read.
    /// - Throws: `AnnalsError` with code `consumerUnknown`, or `tokenExpired` when what it had not read was purged: then let
    ///   it `startOver`.
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
            // Behind the last that was wanted nothing is known to be wanted; at the end everything was looked at, unless the request ends
            // before it.
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

    /// The transactions that a consumer has not read, oldest first, without moving it on: `acknowledge` does, once they
    /// are taken care of. Its lease begins anew.
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

    /// The point that a consumer has read up to; to ask is to be alive, so its lease begins anew.
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

    /// Notes that a consumer has read up to a token. One that is further already stays where it is.
    ///
    /// - Throws: `AnnalsError` with code `consumerUnknown`, `tokenUnknown` or `tokenExpired`.
    public func acknowledge(_ token: HistoryToken, by consumer: HistoryConsumer) async throws {
        let now = configuration.now()
        try await managed("consumers") { db, _ in try ConsumerTable(db).acknowledge(consumer.name, token, now: now) }
    }

    /// Brings a consumer back whose token was purged: it reads the rows as they are, and goes on from there, both in one
    /// SQLite transaction.
    ///
    ///     try await store.startOver("search index") { db in try rebuildIndex(db) }
    ///
    /// A consumer that is not registered yet begins this way as well. What the baseline writes has the consumer's name as
    /// its author.
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
    /// Moves the consumer on within a write of the app's own, so that both happen or neither.
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
