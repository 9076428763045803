import AnnalsCore
import Foundation
import GRDB

/// A list's request, prepared within one access: which tables it reads, and how to read only the changed rows.
struct ListRequest<Item: FetchableRecord & Sendable> {
    /// The request with an ordering that orders any two rows.
    let request: QueryInterfaceRequest<Item>
    let table: String
    let keyColumns: [String]
    /// The tables and columns that the result depends on.
    let region: DatabaseRegion
    /// `SELECT … FROM table`, if each result row depends on one row of the table only. Then rows can be read one by one.
    private let selection: String?

    /// - Throws: `AnnalsError` with code `usage` for a request that is not ordered, and for a name that the schema does not have.
    init(_ request: QueryInterfaceRequest<Item>, _ db: Database) throws {
        let table = request.databaseTableName
        self.table = table
        (self.request, region, selection, keyColumns) = try UnknownNames.named(db, in: table) {
            func sql(_ request: QueryInterfaceRequest<Item>) throws -> String {
                try request.makePreparedRequest(db, forSingleResult: false).statement.sql
            }
            let plain = try sql(request)
            guard try sql(request.unordered()) != plain else {
                throw AnnalsError(
                    .usage, operation: "list", "the request for the list of \(table) is not ordered",
                    hint: "Add an ordering: without one, SQLite may return the rows in a different order each time")
            }
            // The primary key is added at the end of the ordering. If an association has an ordering, the key would precede it,
            // so the request keeps its own ordering.
            let stable = request.withStableOrder()
            let keepsOrder = try Self.ordering(of: sql(stable)).hasPrefix(Self.ordering(of: plain))
            let chosen = keepsOrder ? stable : request
            let statement = try chosen.makePreparedRequest(db, forSingleResult: false).statement
            return (chosen, statement.databaseRegion, Self.selection(of: statement.sql, table), try db.primaryKey(table).columns)
        }
    }

    var canReadRowByRow: Bool { selection != nil }

    /// Only the keys, in order.
    func fetchKeys(_ db: Database) throws -> [RowKey] {
        let columns = keyColumns.map { Column($0) }
        if columns.count == 1 { return try DatabaseValue.fetchAll(db, request.select(columns)).map { RowKey($0) } }
        let cursor = try Row.fetchCursor(db, request.select(columns))
        var keys: [RowKey] = []
        while let row = try cursor.next() { keys.append(RowKey(Array(row.databaseValues))) }
        return keys
    }

    /// One row of the table with the request's selection; nil if it does not exist.
    func fetchRow(_ key: RowKey, _ db: Database) throws -> Row? {
        guard let selection else { return nil }
        let condition = keyColumns.map { "\($0.quotedDatabaseIdentifier) IS ?" }.joined(separator: " AND ")
        return try Row.fetchOne(
            db.cachedStatement(sql: "\(selection) WHERE \(condition)"), arguments: StatementArguments(key.values))
    }

    /// - Throws: `AnnalsError` with code `usage` if the request does not select the key.
    func key(of row: Row) throws -> RowKey {
        RowKey(
            try keyColumns.map { column in
                guard let value: DatabaseValue = row[column] else {
                    throw AnnalsError(
                        .usage, operation: "list", "the request for the list of \(table) does not select the key column \(column)",
                        hint: keyColumns == ["rowid"] ? "Give the table a primary key" : "Select this column as well")
                }
                return value
            })
    }

    private static func ordering(of sql: String) -> Substring {
        guard let start = sql.range(of: " ORDER BY ", options: .backwards) else { return "" }
        let rest = sql[start.upperBound...]
        return rest.range(of: " LIMIT ", options: .backwards).map { rest[..<$0.lowerBound] } ?? rest
    }

    private static func selection(of sql: String, _ table: String) -> String? {
        let from = " FROM \(table.quotedDatabaseIdentifier)"
        guard let end = sql.range(of: from), sql.hasPrefix("SELECT "), !sql.contains(" GROUP BY ") else { return nil }
        let rest = sql[end.upperBound...]
        let columns = sql[..<end.lowerBound].dropFirst("SELECT ".count)
        let isPlain = columns == "*" || columns.split(separator: ", ").allSatisfy { $0.wholeMatch(of: /"(?:[^"]|"")+"/) != nil }
        guard isPlain, [" WHERE ", " ORDER BY "].contains(where: rest.hasPrefix) else { return nil }
        return String(sql[..<end.upperBound])
    }
}
