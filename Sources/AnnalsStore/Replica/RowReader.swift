import AnnalsCore
import AnnalsMerge
import GRDB

/// Reads a table's rows, in the columns of a definition that both files agree on.
final class RowReader {
    private let all: PreparedStatement
    private let one: PreparedStatement
    private let count: Int

    init(_ db: Database, _ table: TableDefinition) throws {
        let columns = table.columns.map { SQL.quote($0.name) }
        let select = "SELECT \(columns.joined(separator: ", ")) FROM main.\(SQL.quote(table.name))"
        let key = table.primaryKey.enumerated().map { "\(columns[$1]) = ?\($0 + 1)" }.joined(separator: " AND ")
        all = try PreparedStatement(
            db, "\(select) WHERE \(table.primaryKey.map { "\(columns[$0]) IS NOT NULL" }.joined(separator: " AND "))")
        one = try PreparedStatement(db, "\(select) WHERE \(key)")
        count = columns.count
    }

    func next() throws -> [Value]? {
        try all.step() ? all.values(0..<count) : nil
    }

    func row(_ key: [Value]) throws -> [Value]? {
        for (index, value) in key.enumerated() { one.bind(index + 1, value) }
        defer { one.reset() }
        return try one.step() ? one.values(0..<count) : nil
    }
}
