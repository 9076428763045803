public import AnnalsCore
import Foundation
public import GRDB

/// A row by table and key: what a transaction touched, without the values.
///
///     let rows = try reader.touchedRows(in: transaction)
///     for row in rows where row.table == "invoice" { show(try row.fetch(db)) }
public struct TouchedRow: Hashable, Sendable {
    public var table: String
    public var keyColumns: [String]
    /// In the order of `keyColumns`.
    public var key: [Value]

    /// The row as it is now; nil where there is none. Throws what GRDB does, as for a table that is gone.
    public func fetch(_ db: Database) throws -> GRDB.Row? {
        let condition = keyColumns.map { "\($0.quotedDatabaseIdentifier) IS ?" }.joined(separator: " AND ")
        return try GRDB.Row.fetchOne(
            db, sql: "SELECT * FROM \(table.quotedDatabaseIdentifier) WHERE \(condition)",
            arguments: StatementArguments(key.map(\.asDatabaseValue)))
    }
}

extension Value {
    fileprivate var asDatabaseValue: DatabaseValue {
        switch self {
        case .null: .null
        case .integer(let value): value.databaseValue
        case .real(let value): value.databaseValue
        case .text(let value): String(decoding: value.bytes, as: UTF8.self).databaseValue
        case .blob(let value): Data(value.bytes).databaseValue
        }
    }
}

extension HistoryChange {
    /// The row that it is about; two where the row got another key.
    public var touchedRows: [TouchedRow] {
        let row = TouchedRow(table: table, keyColumns: keyColumns, key: key)
        let moved = zip(keyColumns, key).map { name, value in columns.first { $0.name == name && kind == .update }?.new ?? value }
        return moved == key ? [row] : [row, TouchedRow(table: table, keyColumns: keyColumns, key: moved)]
    }
}

extension HistoryReader {
    /// The rows that a transaction touched, each once; with a request, only those that it asks for.
    public func touchedRows(in transaction: HistoryTransaction, _ request: HistoryRequest = HistoryRequest()) throws -> [TouchedRow] {
        var rows: [TouchedRow] = []
        try forEachChange(in: transaction, request) { rows += $0.touchedRows }
        return Self.unique(rows)
    }

    /// The rows that a request's transactions touched, each once, the first touched first. Memory is that of the keys.
    public func touchedRows(_ request: HistoryRequest) throws -> [TouchedRow] {
        var rows: [TouchedRow] = []
        try forEachTransaction(request) { transaction in
            rows += try touchedRows(in: transaction, request)
            return true
        }
        return Self.unique(rows)
    }

    private static func unique(_ rows: [TouchedRow]) -> [TouchedRow] {
        var seen: Set<TouchedRow> = []
        return rows.filter { seen.insert($0).inserted }
    }
}
