import AnnalsSchema
import AnnalsSQLite
import GRDB

/// What the space's schema has and this store's has not, because the store has not migrated since it was added.
///
/// A table or column is in here from the entry that brought it until the store has it and its rows are the log's. What is in
/// the space's schema, not in the store's and not in here was dropped by somebody, and such a store does not sync.
struct Lacking: Hashable, Sendable {
    /// First names, in the form under which equal names are equal strings.
    private(set) var tables: Set<String> = []
    private(set) var columns: [String: Set<String>] = [:]

    var isEmpty: Bool { tables.isEmpty && columns.isEmpty }

    func has(table: String) -> Bool { tables.contains(table.foldedIdentifier) }

    func has(_ column: String, of table: String) -> Bool {
        has(table: table) || columns[table.foldedIdentifier]?.contains(column.foldedIdentifier) ?? false
    }

    /// Whether anything of the table is lacked.
    func touches(_ table: String) -> Bool {
        has(table: table) || columns[table.foldedIdentifier] != nil
    }

    /// In words, in order, as the space calls it by now.
    func names(in space: SpaceSchema?) -> [String] {
        func name(_ table: String) -> String { space?.present(table) ?? table }
        let columns = columns.flatMap { table, columns in columns.map { "\(name(table)).\(space?.present($0, of: table) ?? $0)" } }
        return (tables.map(name) + columns).sorted()
    }

    mutating func insert(table: String) { tables.insert(table.foldedIdentifier) }

    mutating func insert(_ column: String, of table: String) {
        columns[table.foldedIdentifier, default: []].insert(column.foldedIdentifier)
    }

    /// Adds what was lacked before.
    mutating func keep(_ before: Lacking) {
        tables.formUnion(before.tables)
        columns.merge(before.columns) { $0.union($1) }
    }

    /// What a schema has and the store's tables have not.
    static func between(_ space: SpaceSchema, _ tables: TrackedTables) -> Lacking {
        var lacking = Lacking()
        for table in space.tables {
            guard let own = tables.table(first: table.name)?.first else {
                lacking.insert(table: table.name)
                continue
            }
            for column in table.columns where own.place(of: column.name) == nil { lacking.insert(column.name, of: table.name) }
        }
        return lacking
    }

    // MARK: In the store

    static let schema = """
        CREATE TABLE IF NOT EXISTS annals_lacking (
            name TEXT NOT NULL,
            column_name TEXT NOT NULL,
            PRIMARY KEY (name, column_name)
        ) WITHOUT ROWID;
        """
    static let tables = ["annals_lacking"]

    static func load(_ db: Database) throws -> Lacking {
        var lacking = Lacking()
        guard try db.tableExists("annals_lacking") else { return lacking }
        for row in try Row.fetchAll(db.cachedStatement(sql: "SELECT name, column_name FROM annals_lacking")) {
            let (table, column): (String, String) = try (row.value("name"), row.value("column_name"))
            if column.isEmpty { lacking.insert(table: table) } else { lacking.insert(column, of: table) }
        }
        return lacking
    }

    func save(_ db: Database) throws {
        try db.execute(sql: "DELETE FROM annals_lacking")
        let places = tables.map { ($0, "") } + columns.flatMap { table, columns in columns.map { (table, $0) } }
        for (table, column) in places {
            try db.execute(sql: "INSERT INTO annals_lacking (name, column_name) VALUES (?, ?)", arguments: [table, column])
        }
    }

    /// Makes the tables that only a replica among newer or older ones needs.
    ///
    /// Call it where everything is sealed, in the same SQLite transaction.
    static func createTables(_ db: Database) throws {
        guard try !db.tableExists("annals_lacking") else { return }
        try db.execute(sql: schema + KeptRows.schema + SchemaOffers.schema)
        try StoreSchema.noteSchemaVersion(db)
    }
}
