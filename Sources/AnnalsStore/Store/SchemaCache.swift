import GRDB
import Synchronization

/// The tracked tables as last read, for as long as the schema stays the same: every step of an exchange needs them, and
/// reading them takes several statements a table.
///
/// SQLite's `schema_version` changes with every change of the schema, tracking included, whoever makes it.
final class SchemaCache: Sendable {
    private struct Known {
        var version: Int64
        var tables: TrackedTables
    }

    private let known = Mutex<Known?>(nil)
    /// The version at which the tables were found to be declared as the space's.
    private let agreed = Mutex<Int64?>(nil)

    func tables(_ db: Database) throws -> TrackedTables {
        let version = try Int64.fetchOne(db, sql: "PRAGMA main.schema_version") ?? 0
        if let known = known.withLock({ $0 }), known.version == version { return known.tables }
        let tables = try TrackedTables.load(db)
        known.withLock { $0 = Known(version: version, tables: tables) }
        return tables
    }

    /// Throws when the tables are declared otherwise than the space's; see `SpaceSchema`.
    func checkAgreement(_ db: Database) throws {
        let version = try Int64.fetchOne(db, sql: "PRAGMA main.schema_version") ?? 0
        guard agreed.withLock({ $0 }) != version else { return }
        try SpaceSchema.check(db, tables(db))
        agreed.withLock { $0 = version }
    }

    /// After a transaction was rolled back: its version number will be given again, perhaps to another schema.
    func forget() {
        known.withLock { $0 = nil }
        agreed.withLock { $0 = nil }
    }
}
