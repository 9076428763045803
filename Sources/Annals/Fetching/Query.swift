public import GRDB

/// Which rows of a table an app wants, and in which order: a value that is built step by step, kept, passed on and looked into.
///
///     extension Query where Record == Person {
///         static let adults = all.and(Column("age") >= 18).ascending("name")
///     }
///
///     let page = try await store.fetch(.adults.limit(20))
///
/// Each step returns another value; the one it came from stays as it was. Conditions are GRDB's expressions. Whatever else a
/// GRDB request can do, associations above all, goes through `refined`, and `request` is the GRDB request that a query is.
public struct Query<Record: FetchableRecord & TableRecord & Sendable>: Sendable {
    /// A column by which rows are ordered.
    public struct Ordering: Hashable, Sendable {
        public var column: String
        public var isDescending: Bool
        /// The collation that compares the column's values; nil for the column's own.
        public var collation: String?
    }

    /// What every row must meet.
    public private(set) var conditions: [SQLExpression] = []
    /// The first decides; each further one where those before it find two rows equal.
    public private(set) var orderings: [Ordering] = []
    /// At most so many rows; nil for all.
    public private(set) var limit: Int?
    /// So many of the first rows are passed over.
    public private(set) var offset = 0
    /// The primary keys that are asked for by `id`; nil where rows are not chosen by key.
    public private(set) var ids: [DatabaseValue]?
    private var refinements: [@Sendable (QueryInterfaceRequest<Record>) -> QueryInterfaceRequest<Record>] = []

    private init() {}

    /// Every row, in no order.
    public static var all: Self { Self() }

    /// The row of a primary key of one column.
    public static func id(_ id: some DatabaseValueConvertible) -> Self { all.with { $0.ids = [id.databaseValue] } }

    /// The rows of these primary keys, those that there are.
    public static func ids(_ ids: some Sequence<some DatabaseValueConvertible>) -> Self {
        all.with { $0.ids = ids.map(\.databaseValue) }
    }

    /// Only rows that meet this, too.
    public func and(_ condition: some SQLExpressible) -> Self { with { $0.conditions.append(condition.sqlExpression) } }

    /// Ordered by columns, the least first; after the orderings there are. NULL is less than any value.
    public func ascending(_ columns: String..., collation: String? = nil) -> Self {
        with { $0.orderings += columns.map { Ordering(column: $0, isDescending: false, collation: collation) } }
    }

    /// Ordered by columns, the greatest first; after the orderings there are.
    public func descending(_ columns: String..., collation: String? = nil) -> Self {
        with { $0.orderings += columns.map { Ordering(column: $0, isDescending: true, collation: collation) } }
    }

    /// Without the orderings there are.
    public func unordered() -> Self { with { $0.orderings = [] } }

    /// At most so many rows, after passing over `offset`. A page is better asked for by `Store.page`: it costs the same however
    /// far down it lies, and nothing moves it.
    public func limit(_ count: Int, offset: Int = 0) -> Self {
        precondition(count >= 0 && offset >= 0, "a limit and an offset count rows")
        return with { ($0.limit, $0.offset) = (count, offset) }
    }

    /// Whatever else a GRDB request can do, as `{ $0.including(all: Author.books) }`.
    public func refined(_ step: @escaping @Sendable (QueryInterfaceRequest<Record>) -> QueryInterfaceRequest<Record>) -> Self {
        with { $0.refinements.append(step) }
    }

    /// The GRDB request that this is.
    public var request: QueryInterfaceRequest<Record> {
        var request = Record.all()
        if let ids { request = request.filter(keys: ids) }
        for condition in conditions { request = request.filter(condition) }
        if !orderings.isEmpty { request = request.order(orderings.map(\.term)) }
        for refine in refinements { request = refine(request) }
        return limit.map { request.limit($0, offset: offset) } ?? request
    }

    private func with(_ change: (inout Self) -> Void) -> Self {
        var copy = self
        change(&copy)
        return copy
    }
}

extension Query.Ordering {
    var term: any SQLOrderingTerm { isDescending ? expression.desc : expression.asc }

    /// The column as it is compared.
    var expression: any SQLSpecificExpressible & SQLOrderingTerm {
        collation.map { Column(column).collating(Database.CollationName(rawValue: $0)) as any SQLSpecificExpressible & SQLOrderingTerm }
            ?? Column(column)
    }
}

/// A query is a request like GRDB's own: `try query.fetchAll(db)`.
extension Query: FetchRequest {
    public typealias RowDecoder = Record

    public var sqlSubquery: SQLSubquery { request.sqlSubquery }

    public func makePreparedRequest(_ db: Database, forSingleResult singleResult: Bool) throws -> PreparedRequest {
        try checkColumns(db)
        return try request.makePreparedRequest(db, forSingleResult: singleResult)
    }

    public func fetchCount(_ db: Database) throws -> Int { try request.fetchCount(db) }

    /// SQLite may take a name that it does not know for a text, and then orders by nothing.
    private func checkColumns(_ db: Database) throws {
        guard !orderings.isEmpty else { return }
        let known = Set(try db.columns(in: Record.databaseTableName).map { $0.name.lowercased() } + ["rowid"])
        for ordering in orderings where !known.contains(ordering.column.lowercased()) {
            throw UnknownNames.column(ordering.column, of: Record.databaseTableName, try db.columns(in: Record.databaseTableName))
        }
    }

    /// The SQL that it runs, for looking into; values are its arguments.
    public func sql(_ db: Database) throws -> (sql: String, arguments: StatementArguments) {
        let statement = try makePreparedRequest(db, forSingleResult: false).statement
        return (statement.sql, statement.arguments)
    }
}

extension TableRecord where Self: FetchableRecord & Sendable {
    /// Every row of the table, as the beginning of a query.
    public static var query: Query<Self> { .all }
}
