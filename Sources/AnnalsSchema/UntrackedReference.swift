import AnnalsCore
import AnnalsSQLite
package import GRDB

/// A foreign key from a table without history to a tracked table.
///
/// Rows of this table are not synced. A merge keeps their references valid; see `UntrackedChildren`.
public struct UntrackedReference: Hashable, Sendable {
    /// The table without history, and its columns.
    public var table: String
    public var columns: [String]
    /// The tracked table, and its columns.
    public var parent: String
    public var parentColumns: [String]
    package var onDelete: DeclaredTable.ForeignKeyAction
    package var onUpdate: DeclaredTable.ForeignKeyAction

    /// The references of all tables, sorted by table name. If there are none, this takes one query.
    package static func fetchAll(_ db: Database, tracked names: [String]) throws -> [UntrackedReference] {
        let tracked = Set(names.map(\.foldedIdentifier))
        let sql = """
            SELECT DISTINCT m.name AS child, f."table" AS parent
            FROM main.sqlite_master AS m, pragma_foreign_key_list(m.name, 'main') AS f WHERE m.type = 'table' ORDER BY m.name
            """
        var children: [String] = []
        for row in try Row.fetchAll(db, sql: sql) {
            let (child, parent): (String, String) = try (row.value("child"), row.value("parent"))
            guard tracked.contains(parent.foldedIdentifier), !tracked.contains(child.foldedIdentifier), children.last != child else {
                continue
            }
            children.append(child)
        }
        guard !children.isEmpty else { return [] }
        return try SchemaReader(db).tables(named: children).flatMap { table in
            table.foreignKeys.filter { tracked.contains($0.parentTable.foldedIdentifier) && $0.columns.count == $0.parentColumns.count }.map
            {
                UntrackedReference(
                    table: table.name, columns: $0.columns, parent: $0.parentTable, parentColumns: $0.parentColumns, onDelete: $0.onDelete,
                    onUpdate: $0.onUpdate)
            }
        }
    }
}
