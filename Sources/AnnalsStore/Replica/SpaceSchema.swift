import AnnalsCore
import Foundation
import GRDB

/// How the space's tables are declared, as of this replica's position and its own entries ahead of that.
///
/// It begins with the tables of the store that made the space, and grows by what schema entries add (DESIGN 8).
struct SpaceSchema: Codable, Hashable, Sendable {
    /// Of the newest schema entry; 1 from the beginning.
    var version: Int64 = 1
    var tables: [TableDefinition]
    /// Per table the columns that came later. Entries of before leave them out, so their defaults must be alike everywhere.
    var added: [String: [String]] = [:]
    /// What makes the tables that came later, and their indexes, by the tables' names.
    var statements: [String: [String]] = [:]

    init(_ tables: TrackedTables) {
        self.tables = tables.entries.map(\.definition)
    }

    func table(named name: String) -> TableDefinition? {
        tables.first { $0.name.isSameIdentifier(as: name) }
    }

    func isAdded(_ column: String, of table: String) -> Bool {
        added[table.foldedIdentifier]?.contains { $0.isSameIdentifier(as: column) } ?? false
    }

    /// Takes in what an entry adds.
    mutating func add(_ additions: SchemaAdditions, version: Int64) {
        self.version = max(self.version, version)
        tables += additions.tables
        statements.merge(additions.statements) { $1 }
        for change in additions.columns {
            guard let place = tables.firstIndex(where: { $0.name.isSameIdentifier(as: change.table) }) else { continue }
            tables[place].columns += change.columns
            added[change.table.foldedIdentifier, default: []] += change.columns.map(\.name)
            for var key in change.foreignKeys {
                key.places = key.columns.map(tables[place].place(of:))
                tables[place].foreignKeys.append(key)
            }
        }
    }

    /// What a store has to make that lacks something of it.
    func additions(_ lacking: Lacking) -> SchemaAdditions {
        var additions = SchemaAdditions()
        additions.statements = statements
        for table in tables where lacking.touches(table.name) {
            if lacking.has(table: table.name) {
                additions.tables.append(table)
                // Its statements are those of when it came.
                let later = table.columns.filter { isAdded($0.name, of: table.name) }
                if !later.isEmpty { additions.columns.append(self.additions(of: table, later)) }
            } else {
                additions.columns.append(self.additions(of: table, table.columns.filter { lacking.has($0.name, of: table.name) }))
            }
        }
        return additions
    }

    private func additions(of table: TableDefinition, _ columns: [TableDefinition.Column]) -> SchemaAdditions.Columns {
        let keys = table.foreignKeys.filter { key in
            columns.contains { column in key.columns.contains { $0.isSameIdentifier(as: column.name) } }
        }
        return SchemaAdditions.Columns(table: table.name, columns: columns, foreignKeys: keys)
    }

    // MARK: In the store

    /// nil in a store that was joined before schemas were kept.
    static func load(_ db: Database) throws -> SpaceSchema? {
        guard let bytes = try Meta(db).bytes(.spaceSchema) else { return nil }
        if let schema = try? JSONDecoder().decode(SpaceSchema.self, from: Data(bytes)) { return schema }
        // The form of version 1 alone.
        guard let tables = try? JSONDecoder().decode([TableDefinition].self, from: Data(bytes)) else {
            throw StoreDamage("annals_meta.space_schema")
        }
        return SpaceSchema(TrackedTables(tables.map { (0, $0) }))
    }

    func save(_ db: Database) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        try Meta(db).set(.spaceSchema, try encoder.encode(self))
        try Meta(db).set(.spaceVersion, version)
    }

    static func copy(from other: Database, to db: Database) throws {
        try Meta(db).set(.spaceSchema, try Meta(other).bytes(.spaceSchema).map { Data($0) })
        try Meta(db).set(.spaceVersion, try Meta(other).integer(.spaceVersion))
    }

    /// The version alone.
    static func version(_ db: Database) throws -> Int64 {
        try Meta(db).integer(.spaceVersion) ?? 1
    }
}
