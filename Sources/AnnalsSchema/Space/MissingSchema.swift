import AnnalsCore
import AnnalsSQLite
package import GRDB

/// The tables and columns that the space's schema has and this store's schema lacks, because the store has not migrated yet.
///
/// A table or column is in this set from the entry that added it until the store has it and has the log's rows in it. If the space
/// has a table or column that neither the store nor this set has, this store removed it, and the space learns that; see `SpaceRemoval`.
package struct MissingSchema: Hashable, Sendable {
    /// Canonical names, case-folded so that equal names are equal strings.
    package private(set) var tables: Set<String> = []
    package private(set) var columns: [String: Set<String>] = [:]

    package init() {}

    package var isEmpty: Bool { tables.isEmpty && columns.isEmpty }

    package func has(table: String) -> Bool { tables.contains(table.foldedIdentifier) }

    package func has(_ column: String, of table: String) -> Bool {
        has(table: table) || columns[table.foldedIdentifier]?.contains(column.foldedIdentifier) ?? false
    }

    /// Whether the store lacks the table or any of its columns.
    package func touches(_ table: String) -> Bool {
        has(table: table) || columns[table.foldedIdentifier] != nil
    }

    /// A sorted list of the missing names, under the space's current names.
    package func names(in space: SpaceSchema?) -> [String] {
        func name(_ table: String) -> String { space?.present(table) ?? table }
        let columns = columns.flatMap { table, columns in columns.map { "\(name(table)).\(space?.present($0, of: table) ?? $0)" } }
        return (tables.map(name) + columns).sorted()
    }

    /// The columns among these that the tables have by now, without the log's values.
    package func columns(in here: TrackedTables) -> MissingSchema {
        var found = MissingSchema()
        for (table, names) in columns {
            let held = names.filter { here.table(first: table)?.first.columnIndex(of: $0) != nil }
            found.columns[table] = held.isEmpty ? nil : held
        }
        return found
    }

    package mutating func insert(table: String) { tables.insert(table.foldedIdentifier) }

    package mutating func insert(_ column: String, of table: String) {
        columns[table.foldedIdentifier, default: []].insert(column.foldedIdentifier)
    }

    package mutating func remove(_ removal: SpaceRemoval) {
        let table = removal.table.foldedIdentifier
        guard let column = removal.column else {
            tables.remove(table)
            columns[table] = nil
            return
        }
        columns[table]?.remove(column.foldedIdentifier)
        if columns[table]?.isEmpty ?? false { columns[table] = nil }
    }

    /// Removes what a schema does not have, and returns it.
    package mutating func drop(notIn space: SpaceSchema) -> [SpaceRemoval] {
        var gone = tables.filter { space.table(named: $0) == nil }.map { SpaceRemoval(table: $0) }
        for (table, columns) in columns {
            let known = space.table(named: table)
            gone += columns.filter { known?.columnIndex(of: $0) == nil }.map { SpaceRemoval(table: table, column: $0) }
        }
        for removal in gone { remove(removal) }
        return gone
    }

    /// Whether the store lacks the table, or the column.
    package func has(_ removal: SpaceRemoval) -> Bool {
        removal.column.map { has($0, of: removal.table) } ?? touches(removal.table)
    }

    /// Adds what another set has.
    package mutating func keep(_ before: MissingSchema) {
        tables.formUnion(before.tables)
        columns.merge(before.columns) { $0.union($1) }
    }

    /// The tables and columns that a schema has and the store's tables lack.
    package static func between(_ space: SpaceSchema, _ tables: TrackedTables) -> MissingSchema {
        var missingSchema = MissingSchema()
        for table in space.tables {
            guard let own = tables.table(first: table.name)?.first else {
                missingSchema.insert(table: table.name)
                continue
            }
            for column in table.columns where own.columnIndex(of: column.name) == nil { missingSchema.insert(column.name, of: table.name) }
        }
        return missingSchema
    }

    // MARK: In the store

    package static let schema = """
        CREATE TABLE IF NOT EXISTS annals_missing_schema (
            name TEXT NOT NULL,
            column_name TEXT NOT NULL,
            PRIMARY KEY (name, column_name)
        ) WITHOUT ROWID;
        """

    package static func load(_ db: Database) throws -> MissingSchema {
        var missingSchema = MissingSchema()
        guard try db.tableExists("annals_missing_schema") else { return missingSchema }
        for row in try Row.fetchAll(db.cachedStatement(sql: "SELECT name, column_name FROM annals_missing_schema")) {
            let (table, column): (String, String) = try (row.value("name"), row.value("column_name"))
            if column.isEmpty { missingSchema.insert(table: table) } else { missingSchema.insert(column, of: table) }
        }
        return missingSchema
    }

    package func save(_ db: Database) throws {
        try db.execute(sql: "DELETE FROM annals_missing_schema")
        let items = tables.map { ($0, "") } + columns.flatMap { table, columns in columns.map { (table, $0) } }
        for (table, column) in items {
            try db.execute(sql: "INSERT INTO annals_missing_schema (name, column_name) VALUES (?, ?)", arguments: [table, column])
        }
    }
}
