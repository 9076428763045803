import AnnalsCore
import AnnalsHistory
import AnnalsStore
import Foundation
import GRDB

/// Rows that were read back from a database, for printing.
struct DemoRows: Equatable, Sendable {
    var columns: [String]
    var rows: [[Value]]

    static func read(_ db: Database, _ sql: String) throws -> DemoRows {
        let cursor = try GRDB.Row.fetchCursor(db, sql: sql)
        let columns = cursor._statement.columnNames
        var rows: [[Value]] = []
        while let row = try cursor.next() {
            rows.append(columns.indices.map { Value(row[$0] as DatabaseValue) })
        }
        return DemoRows(columns: columns, rows: rows)
    }
}
