import AnnalsCore
import AnnalsSQLite
import Foundation
package import GRDB

/// Columns that are NOT NULL without a default and that came with a rebuilt table. SQLite's `ADD COLUMN` does not allow them, so a
/// migration tool fills a new table with one value for each new column.
///
/// Rows that are older than the column have this value: it is what a default is to other new columns. The rows of the rebuilt table show
/// it. `annals_meta` stores it for each column list.
package enum FilledColumns {
    private static let prefix = "filled:"

    /// For each column list, the values as SQL, by the index of the column.
    package static func load(_ db: Database) throws -> [Int64: [Int: String]] {
        var found: [Int64: [Int: String]] = [:]
        for row in try MetaTable(db).rows(from: prefix, to: "filled;") {
            let name: String = try row.value("name")
            guard let id = Int64(name.dropFirst(prefix.count)) else { throw Corruption("\(OwnTables.meta).filled") }
            found[id] = try row.json("value")
        }
        return found
    }

    package static func save(_ fills: [Int: String], of id: Int64, _ db: Database) throws {
        guard !fills.isEmpty else { return }
        try MetaTable(db).set("\(prefix)\(id)", String(decoding: try JSONEncoder().encode(fills), as: UTF8.self))
    }

    package static func forget(_ id: Int64, _ db: Database) throws { try MetaTable(db).remove("\(prefix)\(id)") }

    /// Whether a column needs such a value: it is NOT NULL, has no default and is in no key and no unique index.
    package static func isFilled(_ columnIndex: Int, of table: DeclaredTable) -> Bool {
        let column = table.columns[columnIndex]
        guard column.isNotNull, column.defaultSQL == nil, !table.primaryKey.contains(columnIndex) else { return false }
        return table.uniqueIndexes.allSatisfy { index in index.columnIndexes.map { !$0.contains(columnIndex) } ?? false }
    }

    /// The most frequent value of a column. If the table has no row, or if this value is no short literal, the empty text, the empty blob
    /// or 0.
    package static func value(of columnIndex: Int, in table: DeclaredTable, _ db: Database) throws -> String {
        let column = table.columns[columnIndex]
        let name = SQL.quote(column.name)
        let statement = try PreparedStatement(
            db,
            """
            SELECT \(name) FROM main.\(SQL.quote(table.name)) WHERE length(CAST(\(name) AS BLOB)) <= \(SchemaLimits.filledBytes)
            GROUP BY typeof(\(name)), \(name) COLLATE BINARY ORDER BY count(*) DESC, \(name) COLLATE BINARY LIMIT 1
            """)
        defer { statement.reset() }
        if try statement.step() {
            let value = statement.value(0)
            var filled = column
            filled.fillSQL = SQLLiterals(encoding: "UTF-8").text(value)
            if let sql = filled.fillSQL, SchemaAdditions.isLiteral(sql), try AddedColumn.value(of: filled) == value { return sql }
        }
        return emptyValue(of: column)
    }

    /// The empty text, the empty blob or 0, as SQL.
    package static func emptyValue(of column: DeclaredTable.Column) -> String {
        switch column.affinity {
        case .text: "''"
        case .blob, .any: column.declaredType.isEmpty || column.affinity == .any ? "''" : "X''"
        default: "0"
        }
    }
}
