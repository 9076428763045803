import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite

/// A table that is created again with another declaration, and gets its rows back.
struct TableRebuild {
    /// The new declaration.
    let table: DeclaredTable
    /// The names of the columns that the rows have now, and keep.
    private let kept: [String]
    /// Columns that get their default in rows with NULL.
    private let filled: [DeclaredTable.Column]
    /// The statement that creates the table.
    private let sql: String

    init(_ table: DeclaredTable, _ kept: [String], filling filled: [DeclaredTable.Column], by sql: String) {
        (self.table, self.kept, self.filled, self.sql) = (table, kept, filled, sql)
    }

    private static let old = "annals_rebuilt"

    /// References to a table that is renamed keep its name.
    static let begin = "PRAGMA legacy_alter_table = ON"
    /// To be run also if one of the statements fails.
    static let end = "PRAGMA legacy_alter_table = OFF"

    /// The indexes and triggers of the table are to be created again afterwards. Foreign keys must be off.
    var statements: [String] {
        let name = SQL.quote(table.name)
        let names = kept + (table.rowidAlias == nil ? [table.rowidName].compactMap(\.self) : [])
        let values = names.map { name in
            let value = filled.first { $0.name.isSameIdentifier(as: name) }?.defaultSQL
            return value.map { "coalesce(\(SQL.quote(name)), \($0))" } ?? SQL.quote(name)
        }
        // The highest key that was ever used.
        let sequence = """
            DELETE FROM main.sqlite_sequence WHERE name = \(SQL.literal(table.name));
            UPDATE main.sqlite_sequence SET name = \(SQL.literal(table.name)) WHERE name = '\(Self.old)'
            """
        // A conflict clause of the table could skip or replace rows.
        return [
            Self.begin, "ALTER TABLE main.\(name) RENAME TO \(Self.old)", sql,
            """
            INSERT OR ABORT INTO main.\(name) (\(names.map(SQL.quote).joined(separator: ", ")))
            SELECT \(values.joined(separator: ", ")) FROM main.\(Self.old)
            """,
        ] + (table.isAutoincrement ? [sequence] : []) + ["DROP TABLE main.\(Self.old)", Self.end]
    }
}
