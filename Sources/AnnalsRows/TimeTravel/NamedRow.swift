package import AnnalsCore
package import AnnalsHistory
import AnnalsSchema
package import GRDB

/// A row that a caller names by its table and key.
enum NamedRow {
    /// - Throws: `AnnalsError` with code `notTracked`.
    static func table(_ name: String, in tables: TrackedTables, operation: String) throws -> TrackedTables.Entry {
        guard let entry = tables.table(named: name) else {
            throw AnnalsError(
                .notTracked, operation: operation, "the table \(name) is not tracked", hint: "status() lists the tracked tables",
                commandHint: "annals status lists the tables")
        }
        return entry
    }

    /// The key as the table stores it.
    ///
    /// - Throws: `AnnalsError` with code `usage` if the key does not fit the table.
    static func stored(
        _ key: [Value], of entry: TrackedTables.Entry, _ tables: TrackedTables, _ db: Database, operation: String
    ) throws -> [Value] {
        let definition = entry.definition
        guard key.count == definition.primaryKey.count, !key.contains(.null) else {
            let columns = definition.primaryKey.map { definition.columns[$0].name }.joined(separator: ", ")
            throw AnnalsError(
                .usage, operation: operation, "the key of \(definition.name) is \(columns)",
                hint: "Give one value for each, in this order")
        }
        let session = MergeSession(db, registry: tables)
        return try zip(definition.primaryKey, key).map { try session.asStored($1, in: definition.columns[$0]) }
    }

    /// The identity of the row that has a stored key.
    static func identity(of key: [Value], _ rule: IdentityRule) -> RowIdentity {
        .key(zip(key, rule.collations).map { IdentityRule.folded($0, collation: $1) })
    }
}

extension HistoryRequest {
    /// Only changes of one row, or of some of its columns. Inserts and deletes of the row count as changes of each column.
    ///
    /// - Throws: `AnnalsError` with code `notTracked` for the table, or `usage` for a key or a column that does not fit.
    package func row(_ key: [Value]?, of table: String, columns: [String], _ db: Database) throws -> HistoryRequest {
        let tables = try TrackedTables.load(db)
        let entry = try NamedRow.table(table, in: tables, operation: "history")
        if let unknown = columns.first(where: { entry.definition.columnIndex(of: $0) == nil }) {
            throw AnnalsError(
                .usage, operation: "history", "the table \(entry.definition.name) has no column \(unknown)",
                hint: "Its columns are \(entry.definition.columns.map(\.name).joined(separator: ", "))")
        }
        var request = self
        request.tableNames = [entry.definition.name]
        (request.columnNames, request.wholeRowsCount) = (columns, true)
        request.row = try key.map { key in
            NamedRow.identity(
                of: try NamedRow.stored(key, of: entry, tables, db, operation: "history"), IdentityRule(entry.definition))
        }
        return request
    }
}
