import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// Rows of one table that the first pass removed and that the second pass writes again with other values.
///
/// They are in a temporary table, because a transaction may change the key or a unique value of every row.
final class DisplacedRows {
    private let db: Database
    private let name: String
    private let count: Int
    private let insert: PreparedStatement

    init(_ db: Database, _ table: RowTable) throws {
        self.db = db
        count = table.columnCount
        name = "temp.annals_displaced_\(table.layoutID)"
        // Columns without a declared type store each value unchanged.
        let columns = ["hidden_rowid"] + (0..<count).map { "o\($0)" } + (0..<count).map { "n\($0)" }
        try db.execute(sql: "CREATE TABLE \(name)(\(columns.joined(separator: ", ")))")
        let placeholders = columns.indices.map { "?\($0 + 1)" }.joined(separator: ", ")
        insert = try PreparedStatement(db, "INSERT INTO \(name) VALUES (\(placeholders))")
    }

    func add(_ row: [Value], target: [Value], rowid: Int64?) throws {
        insert.bind(1, rowid.map { .integer($0) } ?? .null)
        insert.bind(row, from: 2)
        insert.bind(target, from: 2 + count)
        try insert.run()
    }

    func forEach(_ visit: (_ row: [Value], _ target: [Value], _ rowid: Int64?) throws -> Void) throws {
        let rows = try PreparedStatement(db, "SELECT * FROM \(name) ORDER BY rowid")
        while try rows.step() {
            try visit(rows.values(1..<count + 1), rows.values(count + 1..<2 * count + 1), rows.value(0).integer)
        }
    }

    func drop() throws {
        try db.execute(sql: "DROP TABLE \(name)")
    }
}
