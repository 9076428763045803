import AnnalsCore
import AnnalsSQLite
public import AnnalsStore
public import GRDB

/// A page of a query's rows, with the start of the next page.
public struct QueryPage<Record: Sendable>: Sendable {
    public let items: [Record]
    /// The mark after which the next page begins; nil for the last page.
    public let next: PageMark?
}

/// A position in an ordered query, given by the values of the last row before it. Inserts and deletes do not move it, not even a
/// delete of that row.
public struct PageMark: Hashable, Sendable {
    /// The orderings of its query, with the columns of the key.
    let orderings: [String]
    /// One value for each ordering.
    let values: [DatabaseValue]
    /// How many of the query's rows follow.
    let rest: QueryRest
}

/// The remaining rows of a query. The limit and the offset of a query count from its first row, not from the start of each page.
struct QueryRest: Hashable, Sendable {
    /// nil for all.
    var limit: Int?
    /// Rows still to skip.
    var offset = 0

    /// The remaining rows after so many further rows.
    func after(_ rows: Int) -> QueryRest {
        QueryRest(limit: limit.map { max(0, $0 - max(0, rows - offset)) }, offset: max(0, offset - rows))
    }
}

extension Store {
    /// A page of a query: at most `size` rows after a mark, or from the start. All pages together are the rows that `fetch`
    /// returns for the query, within its limit and after its offset.
    ///
    ///     var page = try await store.page(.byName, size: 50)
    ///     while let next = page.next { page = try await store.page(.byName, after: next, size: 50) }
    ///
    /// SQLite finds the page by the values of the last row before it and does not count rows. So no row is repeated and none is
    /// skipped because others insert or delete rows meanwhile. Rows that the orderings find equal are ordered by primary key.
    ///
    /// - Throws: `AnnalsError`: `usage` for a column that does not exist, or that the query orders by and does not select, for a mark of a
    ///   query with other orderings, and for a size below 1.
    public func page<Record>(_ query: Query<Record>, after mark: PageMark? = nil, size: Int) async throws -> QueryPage<Record> {
        guard size > 0 else { throw AnnalsError(.usage, operation: "fetch", "the page size must be at least 1, and it is \(size)") }
        return try await reading(query) { db in
            let keyset = try Keyset(query, db)
            var behind = keyset.query
            if let mark { behind = behind.and(try keyset.behind(mark)) }
            let rest = mark?.rest ?? keyset.rest
            let rows = try Row.fetchAll(db, behind.limit(min(size + 1, rest.limit ?? .max), offset: rest.offset))
            let shown = rows.prefix(size)
            let left = rest.after(rest.offset + shown.count)
            let next = rows.count > size ? try shown.last.map { try keyset.mark($0, rest: left) } : nil
            return QueryPage(items: try shown.map { try Record(row: $0) }, next: next)
        }
    }

    /// The page after an item, found by the item's values. If the query has a limit, the rows before the page are counted.
    ///
    /// - Throws: as `page(_:after:size:)`.
    public func page<Record: EncodableRecord>(_ query: Query<Record>, after item: Record, size: Int) async throws -> QueryPage<Record> {
        let mark = try await read { db in try Keyset(query, db).mark(Row(item.databaseDictionary), db) }
        return try await page(query, after: mark, size: size)
    }

    /// The rows of a query page by page, each page in a separate access. Memory is that of one page, and a slow reader does not
    /// block others. The pages may show different moments; to read one moment, use GRDB's cursors within `read`.
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

/// A query with an ordering that orders any two rows, and the condition for rows after a mark.
struct Keyset<Record: FetchableRecord & TableRecord & Sendable> {
    let query: Query<Record>

    init(_ query: Query<Record>, _ db: Database) throws {
        let named = Set(query.orderings.map { $0.column.foldedIdentifier })
        let key = try db.primaryKey(Record.databaseTableName).columns.filter { !named.contains($0.foldedIdentifier) }
        self.query = key.reduce(query) { $0.ascending($1) }
    }

    /// The table and the orderings of the query.
    private var names: [String] {
        [Record.databaseTableName.foldedIdentifier]
            + query.orderings.map { ordering in
                "\(ordering.column.foldedIdentifier) \(ordering.isDescending ? "descending" : "ascending")"
                    + (ordering.collation.map { " collation \($0)" } ?? "")
            }
    }

    /// All rows of the query.
    var rest: QueryRest { QueryRest(limit: query.limit, offset: query.offset) }

    func values(of row: Row) throws -> [DatabaseValue] {
        try query.orderings.map { ordering in
            guard let value: DatabaseValue = row[ordering.column] else {
                throw AnnalsError(
                    .usage, operation: "fetch", "the query orders by \(ordering.column) but does not select it",
                    hint: "Select this column as well")
            }
            return value
        }
    }

    /// The mark of a row, which need not be a row of the query.
    func mark(_ row: Row, _ db: Database) throws -> PageMark {
        let values = try values(of: row)
        guard let limit = query.limit else { return PageMark(orderings: names, values: values, rest: rest) }
        // The count stops at the number after which no row is left.
        let enough = limit.addingReportingOverflow(query.offset)
        // GRDB's operator: IFNULL. Comparisons with NULL are NULL.
        let isBehind = behind(values) ?? false.sqlExpression
        let before = query.and(!isBehind).limit(enough.overflow ? .max : enough.partialValue)
        return PageMark(orderings: names, values: values, rest: rest.after(try before.fetchCount(db)))
    }

    func mark(_ row: Row, rest: QueryRest) throws -> PageMark { PageMark(orderings: names, values: try values(of: row), rest: rest) }

    /// - Throws: `AnnalsError` with code `usage` if the mark belongs to another query.
    func behind(_ mark: PageMark) throws -> SQLExpression {
        guard mark.orderings == names else {
            func text(_ names: [String]) -> String { "\(names[0]) by \(names.dropFirst().joined(separator: ", "))" }
            throw AnnalsError(
                .usage, operation: "fetch",
                "the page mark belongs to a query of \(text(mark.orderings)), and this is a query of \(text(names))",
                hint: "Give a mark only to the query whose page returned it")
        }
        return behind(mark.values)
    }

    /// Greater in the first column, or equal there and greater in the second, and so on.
    private func behind(_ values: [DatabaseValue]) -> SQLExpression {
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
