public import AnnalsStore
public import GRDB

extension Store {
    /// The rows of a query, in its order.
    ///
    ///     let adults = try await store.fetch(Person.query.and(Column("age") >= 18).ascending("name"))
    ///
    /// - Throws: `AnnalsError`: `usage` for a column or table that does not exist; the message has its name.
    public func fetch<Record>(_ query: Query<Record>) async throws -> [Record] {
        try await reading(query) { db in try query.fetchAll(db) }
    }

    /// The rows of a GRDB request.
    ///
    /// - Throws: as `fetch` of a query.
    public func fetch<Request: FetchRequest>(_ request: Request) async throws -> [Request.RowDecoder]
    where Request.RowDecoder: FetchableRecord & Sendable {
        try await reading(request) { db in try request.fetchAll(db) }
    }

    /// The first row of a query; nil if there is none.
    public func first<Record>(_ query: Query<Record>) async throws -> Record? {
        try await reading(query) { db in try query.fetchOne(db) }
    }

    /// The first row of a GRDB request; nil if there is none.
    public func first<Request: FetchRequest>(_ request: Request) async throws -> Request.RowDecoder?
    where Request.RowDecoder: FetchableRecord & Sendable {
        try await reading(request) { db in try request.fetchOne(db) }
    }

    /// The values of a GRDB request that selects one column or an aggregate.
    ///
    ///     let names = try await store.fetch(Person.select(Column("name"), as: String.self).distinct())
    public func fetch<Request: FetchRequest>(_ request: Request) async throws -> [Request.RowDecoder]
    where Request.RowDecoder: DatabaseValueConvertible & Sendable {
        try await reading(request) { db in try request.fetchAll(db) }
    }

    /// The first value of a GRDB request that selects one column or an aggregate; nil if there is none, or if it is NULL.
    ///
    ///     let total = try await store.first(Trip.query.request.select(sum(Column("km")), as: Double.self))
    public func first<Request: FetchRequest>(_ request: Request) async throws -> Request.RowDecoder?
    where Request.RowDecoder: DatabaseValueConvertible & Sendable {
        try await reading(request) { db in try request.fetchOne(db) }
    }

    /// The number of rows. No row is decoded.
    public func count<Record>(_ query: Query<Record>) async throws -> Int {
        try await reading(query) { db in try query.fetchCount(db) }
    }

    /// The number of rows of a GRDB request.
    public func count(_ request: some FetchRequest) async throws -> Int {
        try await reading(request) { db in try request.fetchCount(db) }
    }

    /// Whether the query has a row. SQLite stops at the first.
    public func exists<Record>(_ query: Query<Record>) async throws -> Bool {
        try await reading(query) { db in try !query.request.isEmpty(db) }
    }

    func reading<Request: FetchRequest, T: Sendable>(
        _ request: Request, _ body: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        let table = (Request.RowDecoder.self as? any TableRecord.Type)?.databaseTableName
        return try await read { db in try UnknownNames.named(db, in: table) { try body(db) } }
    }
}
