import AnnalsSQLite
package import GRDB

/// Rows of a tracked table that have NULL in their key. History has them. They are not synced: other replicas do not have them.
///
/// SQLite allows such rows in a table whose primary key is not declared NOT NULL.
public struct RowsWithNullKey: Hashable, Sendable {
    public var table: String
    /// The columns of the key that may hold NULL.
    public var columns: [String]
    /// The number of rows.
    public var count: Int

    /// One element for each table that has such rows, sorted by name. The key's index finds NULL in its first column. For
    /// another column, SQLite reads the whole index.
    package static func fetchAll(_ db: Database, in tables: [DeclaredTable]) throws -> [RowsWithNullKey] {
        try tables.filter(\.keyMayBeNull).sorted { $0.name < $1.name }.compactMap { table in
            let sql = "SELECT count(*) FROM main.\(SQL.quote(table.name)) WHERE \(table.nullKeyCondition)"
            guard let count = try Int.fetchOne(db, sql: sql), count > 0 else { return nil }
            let columns = table.primaryKey.map { table.columns[$0] }.filter { !$0.isNotNull }.map(\.name)
            return RowsWithNullKey(table: table.name, columns: columns, count: count)
        }
    }
}

extension DeclaredTable {
    /// The condition in SQL that is true for rows with NULL in their key.
    package var nullKeyCondition: String {
        SQL.balanced(primaryKey.map { "\(SQL.quote(columns[$0].name)) IS NULL" }, operator: "OR")
    }
}
