package import AnnalsCore
import AnnalsMerge
import AnnalsSQLite
package import GRDB

/// Reads a table's rows with the columns of a definition that both files share.
package final class RowReader {
    private let all: PreparedStatement
    private let one: PreparedStatement
    private let count: Int
    /// The values of columns that the file does not have, by index.
    private var missing: [Int: Value] = [:]

    /// - Parameter defaults: the values of columns that the file does not have, by index. A file without the table has no rows.
    package init(_ db: Database, _ table: DeclaredTable, defaults: [Value]? = nil) throws {
        let columns = table.columns.map { SQL.quote($0.name) }
        var selected = columns
        var source = "main.\(SQL.quote(table.name))"
        if let defaults {
            if let theirs = try SchemaReader(db).table(table.name) {
                for (columnIndex, column) in table.columns.enumerated() where theirs.columnIndex(of: column.name) == nil {
                    missing[columnIndex] = defaults[columnIndex]
                    selected[columnIndex] = "NULL"
                }
            } else {
                source = "(SELECT \(columns.map { "NULL AS \($0)" }.joined(separator: ", ")) WHERE 0)"
            }
        }
        let select = "SELECT \(selected.joined(separator: ", ")) FROM \(source)"
        all = try PreparedStatement(
            db, "\(select) WHERE \(table.primaryKey.map { "\(columns[$0]) IS NOT NULL" }.joined(separator: " AND "))")
        one = try PreparedStatement(db, table.lookup(in: source, selecting: selected))
        count = columns.count
    }

    /// Reads a table's rows from another file, which may use other names, with the columns of this store's definition.
    ///
    /// - Parameters:
    ///   - tables: the other file's tables.
    ///   - first: the table under its canonical names, which both files share.
    ///   - defaults: the values of columns that the file does not have, by index. A file without the table has no rows.
    package convenience init(_ other: Database, _ tables: TrackedTables, first: DeclaredTable, defaults: [Value]? = nil) throws {
        let theirs = tables.table(first: first.name)
        guard theirs != nil || defaults != nil else { throw MergeError.unknownTable(first.name) }
        var table = first
        if let theirs {
            table.name = theirs.definition.name
            for columnIndex in first.columns.indices {
                let name = first.columns[columnIndex].name
                let found = theirs.first.columnIndex(of: name)
                guard found != nil || defaults != nil else { throw MergeError.unknownColumn(table: first.name, column: name) }
                // The second name is one that no column has.
                table.columns[columnIndex].name = found.map { theirs.definition.columns[$0].name } ?? "\(name)~0"
            }
        } else {
            table.name += "~0"
        }
        try self.init(other, table, defaults: defaults)
    }

    package func next() throws -> [Value]? {
        try all.step() ? filled(all.values(0..<count)) : nil
    }

    private func filled(_ row: [Value]) -> [Value] {
        guard !missing.isEmpty else { return row }
        var row = row
        for (columnIndex, value) in missing { row[columnIndex] = value }
        return row
    }

    package func row(_ key: [Value]) throws -> [Value]? {
        try one.row(for: key, columns: count).map(filled)
    }
}
