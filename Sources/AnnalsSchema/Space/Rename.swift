/// A new name for a table or column in a migration; see `Store.migrate(label:renames:tracking:rebuilding:_:)`.
///
///     try await store.migrate(label: "v3", renames: [.column("title", of: "todo", to: "heading"), .table("todo", to: "task")])
///
/// In a space, other replicas keep the names that they use.
public struct Rename: Hashable, Sendable {
    /// The table's name before the migration.
    public var table: String
    /// The column's name before the migration; nil if the table itself is renamed.
    public var column: String?
    /// The new name.
    public var name: String

    /// Renames a column.
    public static func column(_ column: String, of table: String, to name: String) -> Rename {
        Rename(table: table, column: column, name: name)
    }

    /// Renames a table.
    public static func table(_ table: String, to name: String) -> Rename {
        Rename(table: table, column: nil, name: name)
    }

    private init(table: String, column: String?, name: String) {
        self.table = table
        self.column = column
        self.name = name
    }

    package var statement: String { SpaceRename(table: table, column: column, name: name).statement }
}
