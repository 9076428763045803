import AnnalsCore
import AnnalsSQLite
public import GRDB

/// Which rows of a table an app wants, and in which order. A query is a value: it can be built step by step, stored and
/// inspected.
///
///     extension Query where Record == Person {
///         static let adults = all.and(Column("age") >= 18).ascending("name")
///     }
///
///     let page = try await store.fetch(.adults.limit(20))
///
/// Each step returns a new query and leaves the old one unchanged. Conditions are GRDB's expressions. `refined` gives access to
/// all other functions of a GRDB request, such as associations. `request` returns the query as a GRDB request.
public struct Query<Record: FetchableRecord & TableRecord & Sendable>: Sendable {
    /// A column by which rows are ordered.
    public struct Ordering: Hashable, Sendable {
        public var column: String
        public var isDescending: Bool
        /// The collation that compares the column's values; nil for the column's own collation.
        public var collation: String?
    }

    /// The conditions that every row must meet.
    public private(set) var conditions: [SQLExpression] = []
    /// The orderings. Each one orders rows that the orderings before it find equal.
    public private(set) var orderings: [Ordering] = []
    /// The maximum number of rows; nil for all.
    public private(set) var limit: Int?
    /// The number of rows to skip at the start.
    public private(set) var offset = 0
    /// The primary keys set by `id` or `ids`; nil if rows are not selected by key.
    public private(set) var ids: [DatabaseValue]?
    private var refinements: [@Sendable (QueryInterfaceRequest<Record>) -> QueryInterfaceRequest<Record>] = []

    private init() {}

    /// All rows, without an order.
    public static var all: Self { Self() }

    /// The row with a primary key of one column.
    public static func id(_ id: some DatabaseValueConvertible) -> Self { all.with { $0.ids = [id.databaseValue] } }

    /// The rows with these primary keys. Keys without a row are ignored.
    public static func ids(_ ids: some Sequence<some DatabaseValueConvertible>) -> Self {
        all.with { $0.ids = ids.map(\.databaseValue) }
    }

    /// Adds a condition that rows must also meet.
    public func and(_ condition: some SQLExpressible) -> Self { with { $0.conditions.append(condition.sqlExpression) } }

    /// Adds ascending orderings after the existing ones. NULL is less than any value.
    public func ascending(_ columns: String..., collation: String? = nil) -> Self {
        with { $0.orderings += columns.map { Ordering(column: $0, isDescending: false, collation: collation) } }
    }

    /// Adds descending orderings after the existing ones.
    public func descending(_ columns: String..., collation: String? = nil) -> Self {
        with { $0.orderings += columns.map { Ordering(column: $0, isDescending: true, collation: collation) } }
    }

    /// Adds ascending orderings after the existing ones, by columns such as those of a record's `Columns`.
    public func ascending(_ columns: any ColumnExpression..., collation: String? = nil) -> Self {
        with { $0.orderings += columns.map { Ordering(column: $0.name, isDescending: false, collation: collation) } }
    }

    /// Adds descending orderings after the existing ones, by columns.
    public func descending(_ columns: any ColumnExpression..., collation: String? = nil) -> Self {
        with { $0.orderings += columns.map { Ordering(column: $0.name, isDescending: true, collation: collation) } }
    }

    /// Removes the orderings.
    public func unordered() -> Self { with { $0.orderings = [] } }

    /// Limits the number of rows, after skipping `offset` rows. To read pages, use `Store.page`: its cost does not grow with the
    /// position of the page, and inserts and deletes do not shift its pages.
    /// A negative number is refused when the query is used.
    public func limit(_ count: Int, offset: Int = 0) -> Self { with { ($0.limit, $0.offset) = (count, offset) } }

    /// Applies any other function of a GRDB request, such as `{ $0.including(all: Author.books) }`.
    public func refined(_ step: @escaping @Sendable (QueryInterfaceRequest<Record>) -> QueryInterfaceRequest<Record>) -> Self {
        with { $0.refinements.append(step) }
    }

    /// The query as a GRDB request.
    ///
    /// Its access throws `AnnalsError` with code `usage` if the query selects keys of one column and the table's key has another number, or
    /// for a negative limit.
    public var request: QueryInterfaceRequest<Record> {
        var request = Record.all()
        if let ids { request = request.filterWhenConnected { db in ids.contains(try Self.keyColumn(db)) } }
        if let wrong = [limit, offset].compactMap(\.self).first(where: { $0 < 0 }) {
            return request.filterWhenConnected { _ in
                throw AnnalsError(.usage, operation: "fetch", "a limit and an offset must not be negative, and one is \(wrong)")
            }
        }
        for condition in conditions { request = request.filter(condition) }
        if !orderings.isEmpty { request = request.order(orderings.map(\.term)) }
        for refine in refinements { request = refine(request) }
        return limit.map { request.limit($0, offset: offset) } ?? request
    }

    private static func keyColumn(_ db: Database) throws -> Column {
        let key = try db.primaryKey(Record.databaseTableName).columns
        guard key.count == 1 else {
            throw AnnalsError(
                .usage, operation: "fetch",
                "the primary key of \(Record.databaseTableName) has \(key.count) columns (\(key.joined(separator: ", "))), and the query gives one value",
                hint: "Use conditions, such as \(key.map { ".and(Column(\"\($0)\") == …)" }.joined())")
        }
        return Column(key[0])
    }

    private func with(_ change: (inout Self) -> Void) -> Self {
        var copy = self
        change(&copy)
        return copy
    }
}

extension Query.Ordering {
    var term: any SQLOrderingTerm { isDescending ? expression.desc : expression.asc }

    /// The column with its collation.
    var expression: any SQLSpecificExpressible & SQLOrderingTerm {
        collation.map { Column(column).collating(Database.CollationName(rawValue: $0)) as any SQLSpecificExpressible & SQLOrderingTerm }
            ?? Column(column)
    }
}

/// A query can be used like a GRDB request: `try query.fetchAll(db)`.
extension Query: FetchRequest {
    public typealias RowDecoder = Record

    public var sqlSubquery: SQLSubquery { request.sqlSubquery }

    public func makePreparedRequest(_ db: Database, forSingleResult singleResult: Bool) throws -> PreparedRequest {
        try checkColumns(db)
        return try request.makePreparedRequest(db, forSingleResult: singleResult)
    }

    public func fetchCount(_ db: Database) throws -> Int { try request.fetchCount(db) }

    /// SQLite may read an unknown quoted name as a string literal. Then the ordering would have no effect.
    private func checkColumns(_ db: Database) throws {
        guard !orderings.isEmpty else { return }
        let known = Set(try db.columns(in: Record.databaseTableName).map { $0.name.foldedIdentifier } + ["rowid"])
        for ordering in orderings where !known.contains(ordering.column.foldedIdentifier) {
            throw UnknownNames.column(ordering.column, of: Record.databaseTableName, try db.columns(in: Record.databaseTableName))
        }
    }

    /// The SQL of the query, for inspection, with its values as arguments.
    public func sql(_ db: Database) throws -> (sql: String, arguments: StatementArguments) {
        let statement = try makePreparedRequest(db, forSingleResult: false).statement
        return (statement.sql, statement.arguments)
    }
}

extension TableRecord where Self: FetchableRecord & Sendable {
    /// All rows of the table, as the start of a query.
    public static var query: Query<Self> { .all }
}
