import AnnalsCore

/// The declared tables of a database, by name in any case.
package struct TableCatalog: Sendable {
    /// SQLite's schema version at the time of reading.
    package let version: Int64
    private let tables: [String: DeclaredTable]

    package init(version: Int64, _ tables: [DeclaredTable]) {
        self.version = version
        self.tables = Dictionary(tables.map { ($0.name.foldedIdentifier, $0) }, uniquingKeysWith: { $1 })
    }

    package subscript(name: String) -> DeclaredTable? { tables[name.foldedIdentifier] }

    package var all: some Collection<DeclaredTable> { tables.values }

    /// Tables that refer to a table, with their foreign keys.
    package func references(to parent: String) -> [(table: DeclaredTable, key: DeclaredTable.ForeignKey)] {
        tables.values.flatMap { table in
            table.foreignKeys.filter { $0.parentTable.isSameIdentifier(as: parent) }.map { (table, $0) }
        }
    }
}
