package import AnnalsCore
package import AnnalsMerge
package import AnnalsSchema
import AnnalsSQLite
import GRDB

/// Values in the form in which the store compares and stores them.
extension MergeSession {
    /// The row with a candidate key, compared as the key's index compares.
    package func row(named name: CandidateKey, in table: RowTable) throws -> [Value]? {
        guard let index = table.mergeTable.candidateKeys.first(where: { $0.columnIndexes == name.columnIndexes }) else { return nil }
        let statement = try table.statement(for: index) { try prepared(Self.query(index, table.definition)) }
        for (number, value) in name.values.enumerated() { statement.bind(number + 1, value) }
        defer { statement.reset() }
        return try statement.step() ? statement.values(0..<table.columnCount) : nil
    }

    private static func query(_ index: NameIndex, _ table: DeclaredTable) -> String {
        let columns = table.columns
        let conditions = zip(index.columnIndexes, index.columns).enumerated().map { number, part in
            let (columnIndex, column) = part
            let collation = name(of: column.collation)
            let collate = columns[columnIndex].collation.isSameIdentifier(as: collation) ? "" : " COLLATE \(collation)"
            return "\(SQL.quote(columns[columnIndex].name)) = ?\(number + 1)\(collate)"
        }
        let list = columns.map { SQL.quote($0.name) }.joined(separator: ", ")
        return "SELECT \(list) FROM \(SQL.quote(table.name)) WHERE \(conditions.joined(separator: " AND "))"
    }

    private static func name(of collation: FootprintRules.Collation) -> String {
        switch collation {
        case .binary: "BINARY"
        case .noCase: "NOCASE"
        case .rTrim: "RTRIM"
        }
    }

    /// The value in the form in which SQLite stores it in the column. Policies and defaults make values that were never stored.
    package func asStored(_ value: Value, in column: DeclaredTable.Column) throws -> Value {
        switch (column.affinity, value) {
        case (.text, .integer), (.text, .real): return try cast(value, "TEXT")
        case (.real, .integer(let integer)): return .real(Double(integer))
        case (.integer, .text), (.numeric, .text), (.real, .text):
            let number = CanonicalTuple.number(CanonicalTuple.value(value, in: .init(name: "", affinity: .numeric)))
            if case .text = number { return value }
            return try asStored(number, in: column)
        case (.integer, .real), (.numeric, .real): return CanonicalTuple.number(value)
        default: return value
        }
    }

    private func cast(_ value: Value, _ type: String) throws -> Value {
        let statement = try prepared("SELECT CAST(?1 AS \(type))")
        statement.bind(1, value)
        defer { statement.reset() }
        return try statement.step() ? statement.value(0) : value
    }

    /// The column's default in the form in which SQLite would store it; NULL if it has none.
    package func defaultValue(of column: DeclaredTable.Column) throws -> Value {
        guard let sql = column.defaultSQL else { return .null }
        let statement = try prepared("SELECT (\(sql))")
        defer { statement.reset() }
        return try statement.step() ? asStored(statement.value(0), in: column) : .null
    }
}
