import AnnalsCore
import AnnalsSchema
import AnnalsSQLite

/// A table that is created again with another declaration, and gets its rows back.
struct TableRebuild: Sendable {
    /// The declaration now, and the new one.
    private let old: DeclaredTable
    let table: DeclaredTable
    /// The columns that get their default in rows with NULL.
    private let filled: [DeclaredTable.Column]
    /// The statement that creates the table.
    private let sql: String

    /// - Parameter sql: creates the table with its new declaration.
    init(_ old: DeclaredTable, as table: DeclaredTable, filling filled: [DeclaredTable.Column], by sql: String) {
        (self.old, self.table, self.filled, self.sql) = (old, table, filled, sql)
    }

    private static let other = "annals_rebuilt"

    /// References to a table that is renamed keep its name.
    static let begin = "PRAGMA legacy_alter_table = ON"
    /// To be run also if one of the statements fails.
    static let end = "PRAGMA legacy_alter_table = OFF"

    /// The updates that fill rows. They run before the indexes and triggers of the table are dropped.
    var fills: [String] {
        filled.map { column in
            let name = SQL.quote(column.name)
            return "UPDATE main.\(SQL.quote(table.name)) SET \(name) = \(column.defaultSQL ?? "NULL") WHERE \(name) IS NULL"
        }
    }

    /// The indexes and triggers of the table are to be created again afterwards. Foreign keys must be off.
    var statements: [String] {
        let name = SQL.quote(table.name)
        var columns = old.columns.map(\.name).filter { table.columnIndex(of: $0) != nil }
        if let rowid { columns.append(rowid) }
        let list = columns.map(SQL.quote).joined(separator: ", ")
        // The highest key that was ever used.
        let sequence = """
            DELETE FROM main.sqlite_sequence WHERE name = \(SQL.literal(table.name));
            UPDATE main.sqlite_sequence SET name = \(SQL.literal(table.name)) WHERE name = '\(Self.other)'
            """
        return [
            Self.begin, "ALTER TABLE main.\(name) RENAME TO \(Self.other)", sql,
            // A conflict clause of the table could skip or replace rows.
            "INSERT OR ABORT INTO main.\(name) (\(list)) SELECT \(list) FROM main.\(Self.other)",
        ] + (table.isAutoincrement ? [sequence] : []) + ["DROP TABLE main.\(Self.other)", Self.end]
    }

    /// A name of the rowid in both declarations; nil if no name is free, or if a column is the rowid.
    private var rowid: String? {
        guard !table.isWithoutRowid, table.rowidAlias == nil else { return nil }
        let taken = [old, table].flatMap { $0.columns.map(\.name) + $0.generatedColumns.map(\.name) }
        return ["rowid", "_rowid_", "oid"].first { name in !taken.contains { $0.isSameIdentifier(as: name) } }
    }
}
