import AnnalsHistory
package import AnnalsSchema
package import GRDB
import Synchronization

/// The tracked tables, cached until the schema changes. Every step of an exchange needs them, and reading them takes several
/// statements for each table.
///
/// SQLite's `schema_version` changes with every change of the schema by any program, also when a table is tracked.
package final class SchemaCache: Sendable {
    private struct Known {
        var version: Int64
        var tables: TrackedTables
        var layouts: LayoutNames
    }

    private let known = Mutex<Known?>(nil)
    /// The comparison of the tables with the space's schema.
    private struct Compared {
        var version: Int64
        var spaceVersion: Int64
        var comparison: SchemaComparison
    }

    private let compared = Mutex<Compared?>(nil)
    private let beginning = Mutex<Int64?>(nil)
    private let all = Mutex<TableCatalog?>(nil)

    package init() {}

    package func tables(_ db: Database) throws -> TrackedTables {
        try current(db).tables
    }

    package func layouts(_ db: Database) throws -> LayoutNames {
        try current(db).layouts
    }

    private func current(_ db: Database) throws -> Known {
        let version = try Self.version(db)
        if let known = known.withLock({ $0 }), known.version == version { return known }
        let new = Known(version: version, tables: try TrackedTables.load(db), layouts: try LayoutNames(db))
        known.withLock { $0 = new }
        return new
    }

    /// Compares the tables with the space's schema. Throws if they are declared differently.
    package func comparison(_ db: Database) throws -> SchemaComparison {
        let (version, spaceVersion) = (try Self.version(db), try SpaceSchema.version(db))
        if let compared = compared.withLock({ $0 }), compared.version == version, compared.spaceVersion == spaceVersion {
            return compared.comparison
        }
        guard let space = try SpaceSchema.load(db) else { return SchemaComparison() }
        let comparison = try SchemaComparison(tables(db), space, missingSchema: MissingSchema.load(db), renames: SpaceRename.waiting(db))
        try comparison.checkRenames { try PendingSchemaEntries.entries(db) }
        try comparison.checkRebuilds(
            { try PendingSchemaEntries.entries(db) }, { try SchemaReader(db).tables().filter { !Bookkeeping.isOfTool($0.name) } })
        compared.withLock { $0 = Compared(version: version, spaceVersion: spaceVersion, comparison: comparison) }
        return comparison
    }

    /// All tables of the app, tracked or not.
    package func catalog(_ db: Database) throws -> TableCatalog {
        let version = try Self.version(db)
        if let known = all.withLock({ $0 }), known.version == version { return known }
        let new = TableCatalog(version: version, try SchemaReader(db).tables())
        all.withLock { $0 = new }
        return new
    }

    private static func version(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA main.schema_version")) ?? 0
    }

    /// Records the schema version at the beginning of a transaction.
    package func begin(_ db: Database) throws {
        let version = try Self.version(db)
        beginning.withLock { $0 = version }
    }

    /// To be called after a transaction was rolled back. SQLite gives its schema version again, possibly to another schema. So only
    /// what was cached at the version at the beginning of the transaction stays.
    package func forgetRolledBack() {
        let version = beginning.withLock { $0 }
        known.withLock { if $0?.version != version { $0 = nil } }
        compared.withLock { if $0?.version != version { $0 = nil } }
        all.withLock { if $0?.version != version { $0 = nil } }
    }

    /// To be called after Annals' own tables were changed to match the schema.
    package func forget() {
        known.withLock { $0 = nil }
        compared.withLock { $0 = nil }
        all.withLock { $0 = nil }
    }
}
