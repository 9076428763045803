import AnnalsCore
import AnnalsStore
import Foundation
import GRDB

/// Rows read back from a database, for printing.
struct DemoRows: Equatable, Sendable {
    var columns: [String]
    var rows: [[Value]]

    static func read(_ db: Database, _ sql: String) throws -> DemoRows {
        let cursor = try GRDB.Row.fetchCursor(db, sql: sql)
        let columns = cursor._statement.columnNames
        var rows: [[Value]] = []
        while let row = try cursor.next() {
            rows.append(columns.indices.map { value(row[$0] as DatabaseValue) })
        }
        return DemoRows(columns: columns, rows: rows)
    }

    private static func value(_ value: DatabaseValue) -> Value {
        switch value.storage {
        case .null: .null
        case .int64(let integer): .integer(integer)
        case .double(let real): .real(real)
        case .string(let text): .text(text)
        case .blob(let data): .blob([UInt8](data))
        }
    }
}
