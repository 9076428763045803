import AnnalsCore
import Foundation
import GRDB

/// A list's request as it is prepared inside one access: what it reads, and how to read as little of it as will do.
struct ListRequest<Item: FetchableRecord & Sendable> {
    /// With an ordering that tells any two rows apart.
    let request: QueryInterfaceRequest<Item>
    let table: String
    let keyColumns: [String]
    /// The tables and columns that decide what the request brings.
    let region: DatabaseRegion
    /// `SELECT … FROM table` where a row's values depend on that row of the table alone; then rows can be read one by one.
    private let selection: String?

    /// - Throws: `AnnalsError` with code `usage` for a request that is not ordered, and for what `UnknownNames` tells.
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
                    .usage, operation: "list", "the list of \(table) has no order",
                    hint: "Order the request: a list without an order is another one each time it is read")
            }
            // Rows that the ordering finds equal follow by key; unless an association orders, which that would come before.
            let stable = request.withStableOrder()
            let keepsOrder = try Self.ordering(of: sql(stable)).hasPrefix(Self.ordering(of: plain))
            let chosen = keepsOrder ? stable : request
            let statement = try chosen.makePreparedRequest(db, forSingleResult: false).statement
            return (chosen, statement.databaseRegion, Self.selection(of: statement.sql, table), try db.primaryKey(table).columns)
        }
    }

    var canReadRowByRow: Bool { selection != nil }

    /// The keys alone, in order.
    func fetchKeys(_ db: Database) throws -> [RowKey] {
        let columns = keyColumns.map { Column($0) }
        if columns.count == 1 { return try DatabaseValue.fetchAll(db, request.select(columns)).map { RowKey($0) } }
        let cursor = try Row.fetchCursor(db, request.select(columns))
        var keys: [RowKey] = []
        while let row = try cursor.next() { keys.append(RowKey(Array(row.databaseValues))) }
        return keys
    }

    /// One row of the table as the request selects it; nil where there is none.
    func fetchRow(_ key: RowKey, _ db: Database) throws -> Row? {
        guard let selection else { return nil }
        let condition = keyColumns.map { "\($0.quotedDatabaseIdentifier) IS ?" }.joined(separator: " AND ")
        return try Row.fetchOne(
            db.cachedStatement(sql: "\(selection) WHERE \(condition)"), arguments: StatementArguments(key.values))
    }

    /// - Throws: `AnnalsError` with code `usage` where the request does not select the key.
    func key(of row: Row) throws -> RowKey {
        RowKey(
            try keyColumns.map { column in
                guard let value: DatabaseValue = row[column] else {
                    throw AnnalsError(
                        .usage, operation: "list", "the list of \(table) does not select \(column), by which its items are known",
                        hint: keyColumns == ["rowid"] ? "Give the table a primary key" : "Select it as well")
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
