import AnnalsCore
public import AnnalsStore
public import GRDB

/// Some rows of a query, and where they end.
public struct QueryPage<Record: Sendable>: Sendable {
    public let items: [Record]
    /// Where the next page begins; nil when this is the last.
    public let next: PageMark?
}

/// A place in an ordered query: behind the row that had these values. It stays where it is whatever is inserted or deleted
/// before it, that row included.
public struct PageMark: Hashable, Sendable {
    /// One for each column that orders, the key's at the end.
    let values: [DatabaseValue]
    /// What of the query's rows lies behind it.
    let rest: QueryRest
}

/// How many rows of a query are still to come: a limit and an offset count from its first row, not from each page's.
struct QueryRest: Hashable, Sendable {
    /// nil for all.
    var limit: Int?
    /// Rows to pass over before them.
    var offset = 0

    /// Behind so many more rows.
    func after(_ rows: Int) -> QueryRest {
        QueryRest(limit: limit.map { max(0, $0 - max(0, rows - offset)) }, offset: max(0, offset - rows))
    }
}

extension Store {
    /// A page of a query: so many rows behind a mark, or the first. All pages together are what `fetch` of the query gives, so no more
    /// than its limit, after its offset.
    ///
    ///     var page = try await store.page(.byName, size: 50)
    ///     while let next = page.next { page = try await store.page(.byName, after: next, size: 50) }
    ///
    /// SQLite finds the page by the values at its beginning, not by counting rows, so no row is shown twice and none is left
    /// out because others were inserted meanwhile. Rows that the orderings find equal follow each other by primary key.
    ///
    /// - Throws: `AnnalsError`: `usage` for a column that does not exist, or that the query orders by and does not select.
    public func page<Record>(_ query: Query<Record>, after mark: PageMark? = nil, size: Int) async throws -> QueryPage<Record> {
        precondition(size > 0, "a page has rows")
        return try await reading(query) { db in
            let keyset = try Keyset(query, db)
            var behind = keyset.query
            if let mark { behind = behind.and(keyset.behind(mark.values)) }
            let rest = mark?.rest ?? keyset.rest
            let rows = try Row.fetchAll(db, behind.limit(min(size + 1, rest.limit ?? .max), offset: rest.offset))
            let shown = rows.prefix(size)
            let left = rest.after(rest.offset + shown.count)
            let next = rows.count > size ? try shown.last.map { PageMark(values: try keyset.values(of: $0), rest: left) } : nil
            return QueryPage(items: try shown.map { try Record(row: $0) }, next: next)
        }
    }

    /// The page behind an item, by the values that it has. Where the query has a limit, the rows up to the item are counted.
    ///
    /// - Throws: as `page(_:after:size:)`.
    public func page<Record: EncodableRecord>(_ query: Query<Record>, after item: Record, size: Int) async throws -> QueryPage<Record> {
        let mark = try await read { db in try Keyset(query, db).mark(Row(item.databaseDictionary), db) }
        return try await page(query, after: mark, size: size)
    }

    /// The rows of a query page by page, each in an access of its own: memory is that of one page, and nobody waits for whoever
    /// reads slowly. Where one moment must be seen, use GRDB's cursors within `read`.
    ///
    ///     for try await people in store.pages(of: .byName, size: 500) { print(people.count) }
    public func pages<Record>(of query: Query<Record>, size: Int) -> Pages<Record> {
        Pages(store: self, query: query, size: size)
    }
}

/// The pages of a query; see `Store.pages(of:size:)`.
public struct Pages<Record: FetchableRecord & TableRecord & Sendable>: AsyncSequence, Sendable {
    public typealias Failure = any Error

    let store: Store
    let query: Query<Record>
    let size: Int

    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(pages: self) }

    public struct AsyncIterator: AsyncIteratorProtocol {
        let pages: Pages
        private var mark: PageMark?
        private var isDone = false

        init(pages: Pages) {
            self.pages = pages
        }

        public mutating func next() async throws -> [Record]? {
            guard !isDone else { return nil }
            let page = try await pages.store.page(pages.query, after: mark, size: pages.size)
            mark = page.next
            isDone = page.next == nil
            return page.items.isEmpty ? nil : page.items
        }
    }
}

/// An ordering that tells any two rows apart, and what comes behind a place in it.
struct Keyset<Record: FetchableRecord & TableRecord & Sendable> {
    let query: Query<Record>

    init(_ query: Query<Record>, _ db: Database) throws {
        let named = Set(query.orderings.map { $0.column.lowercased() })
        let key = try db.primaryKey(Record.databaseTableName).columns.filter { !named.contains($0.lowercased()) }
        self.query = key.reduce(query) { $0.ascending($1) }
    }

    /// All of the query's rows.
    var rest: QueryRest { QueryRest(limit: query.limit, offset: query.offset) }

    func values(of row: Row) throws -> [DatabaseValue] {
        try query.orderings.map { ordering in
            guard let value: DatabaseValue = row[ordering.column] else {
                throw AnnalsError(
                    .usage, operation: "fetch", "the query orders by \(ordering.column), which its rows do not bring along",
                    hint: "Select it as well")
            }
            return value
        }
    }

    /// The place behind a row, which need not be one of the query's.
    func mark(_ row: Row, _ db: Database) throws -> PageMark {
        let values = try values(of: row)
        guard let limit = query.limit else { return PageMark(values: values, rest: rest) }
        // No more than those after which nothing is left.
        let enough = limit.addingReportingOverflow(query.offset)
        let isBehind = behind(values) ?? false.sqlExpression
        let before = query.and(!isBehind).limit(enough.overflow ? .max : enough.partialValue)
        return PageMark(values: values, rest: rest.after(try before.fetchCount(db)))
    }

    /// Greater in the first column, or equal there and greater in the second, and so on.
    func behind(_ values: [DatabaseValue]) -> SQLExpression {
        precondition(values.count == query.orderings.count, "the mark is of another query")
        var choices: [SQLExpression] = []
        var equal: [SQLExpression] = []
        for (ordering, value) in zip(query.orderings, values) {
            let column = ordering.expression
            let isBehind: SQLExpression =
                switch (ordering.isDescending, value.isNull) {
                // NULL is less than any value.
                case (false, true): column.sqlExpression != DatabaseValue.null
                case (false, false): column.sqlExpression > value
                case (true, true): false.sqlExpression
                case (true, false): column.sqlExpression < value || column.sqlExpression == DatabaseValue.null
                }
            choices.append((equal + [isBehind]).joined(operator: .and))
            equal.append(column.sqlExpression == value)
        }
        return choices.joined(operator: .or)
    }
}
