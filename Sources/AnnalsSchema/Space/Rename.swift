/// A table or column that gets another name in a migration; see `Store.migrate(label:renames:tracking:rebuilding:_:)`.
///
///     try await store.migrate(label: "v3", renames: [.column("title", of: "todo", to: "heading"), .table("todo", to: "task")])
///
/// In a space it is a store's own business: other replicas go on under the names that they have.
public struct Rename: Hashable, Sendable {
    /// The table, by its name before.
    public var table: String
    /// The column, by its name before; nil where the table itself is renamed.
    public var column: String?
    /// The name after.
    public var name: String

    /// A column's other name.
    public static func column(_ column: String, of table: String, to name: String) -> Rename {
        Rename(table: table, column: column, name: name)
    }

    /// A table's other name.
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
