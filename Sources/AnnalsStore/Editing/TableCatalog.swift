import AnnalsSQLite

/// The tables of a database as they are declared, by name in any case.
package struct TableCatalog: Sendable {
    /// SQLite's number for the schema that they are of.
    package let version: Int64
    private let tables: [String: TableDefinition]

    init(version: Int64, _ tables: [TableDefinition]) {
        self.version = version
        self.tables = Dictionary(tables.map { ($0.name.foldedIdentifier, $0) }, uniquingKeysWith: { $1 })
    }

    package subscript(name: String) -> TableDefinition? { tables[name.foldedIdentifier] }

    package var all: some Collection<TableDefinition> { tables.values }

    /// Tables that refer to one, with the foreign keys by which they do.
    package func references(to parent: String) -> [(table: TableDefinition, key: TableDefinition.ForeignKey)] {
        tables.values.flatMap { table in
            table.foreignKeys.filter { $0.parentTable.isSameIdentifier(as: parent) }.map { (table, $0) }
        }
    }
}
