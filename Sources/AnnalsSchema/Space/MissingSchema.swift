import AnnalsSQLite
package import GRDB

/// What the space's schema has and this store's has not, because the store has not migrated since it was added.
///
/// A table or column is in here from the entry that brought it until the store has it and its rows are the log's. What is in
/// the space's schema, not in the store's and not in here was dropped by somebody, and such a store does not sync.
package struct MissingSchema: Hashable, Sendable {
    /// First names, in the form under which equal names are equal strings.
    package private(set) var tables: Set<String> = []
    package private(set) var columns: [String: Set<String>] = [:]

    package init() {}

    package var isEmpty: Bool { tables.isEmpty && columns.isEmpty }

    package func has(table: String) -> Bool { tables.contains(table.foldedIdentifier) }

    package func has(_ column: String, of table: String) -> Bool {
        has(table: table) || columns[table.foldedIdentifier]?.contains(column.foldedIdentifier) ?? false
    }

    /// Whether anything of the table is lacked.
    package func touches(_ table: String) -> Bool {
        has(table: table) || columns[table.foldedIdentifier] != nil
    }

    /// In words, in order, as the space calls it by now.
    package func names(in space: SpaceSchema?) -> [String] {
        func name(_ table: String) -> String { space?.present(table) ?? table }
        let columns = columns.flatMap { table, columns in columns.map { "\(name(table)).\(space?.present($0, of: table) ?? $0)" } }
        return (tables.map(name) + columns).sorted()
    }

    package mutating func insert(table: String) { tables.insert(table.foldedIdentifier) }

    package mutating func insert(_ column: String, of table: String) {
        columns[table.foldedIdentifier, default: []].insert(column.foldedIdentifier)
    }

    /// Adds what was lacked before.
    package mutating func keep(_ before: MissingSchema) {
        tables.formUnion(before.tables)
        columns.merge(before.columns) { $0.union($1) }
    }

    /// What a schema has and the store's tables have not.
    package static func between(_ space: SpaceSchema, _ tables: TrackedTables) -> MissingSchema {
        var missingSchema = MissingSchema()
        for table in space.tables {
            guard let own = tables.table(first: table.name)?.first else {
                missingSchema.insert(table: table.name)
                continue
            }
            for column in table.columns where own.place(of: column.name) == nil { missingSchema.insert(column.name, of: table.name) }
        }
        return missingSchema
    }

    // MARK: In the store

    package static let schema = """
        CREATE TABLE IF NOT EXISTS annals_lacking (
            name TEXT NOT NULL,
            column_name TEXT NOT NULL,
            PRIMARY KEY (name, column_name)
        ) WITHOUT ROWID;
        """

    package static func load(_ db: Database) throws -> MissingSchema {
        var missingSchema = MissingSchema()
        guard try db.tableExists("annals_lacking") else { return missingSchema }
        for row in try Row.fetchAll(db.cachedStatement(sql: "SELECT name, column_name FROM annals_lacking")) {
            let (table, column): (String, String) = try (row.value("name"), row.value("column_name"))
            if column.isEmpty { missingSchema.insert(table: table) } else { missingSchema.insert(column, of: table) }
        }
        return missingSchema
    }

    package func save(_ db: Database) throws {
        try db.execute(sql: "DELETE FROM annals_lacking")
        let places = tables.map { ($0, "") } + columns.flatMap { table, columns in columns.map { (table, $0) } }
        for (table, column) in places {
            try db.execute(sql: "INSERT INTO annals_lacking (name, column_name) VALUES (?, ?)", arguments: [table, column])
        }
    }
}
