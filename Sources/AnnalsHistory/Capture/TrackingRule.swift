import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Whether a store tracks the tables that a program makes later: where it was told to track all, when Annals next looks at the file.
///
/// A program makes tables as it grows (a migration, a plugin). One that nobody tracks would stay on one machine, and what it refers to
/// would change under it.
package enum TrackingRule {
    /// All tables that can be tracked are to be, also later; or those that are tracked now.
    package static func set(all: Bool, _ db: Database) throws {
        try StoreSchema.set(.tracksAll, to: all ? 1 : nil, db)
        try noteLooked(db)
    }

    /// Whether there may be any. Only reads.
    package static func mayHaveMore(_ db: Database) throws -> Bool {
        guard try StoreSchema.integer(.tracksAll, db) != nil else { return false }
        return try StoreSchema.integer(.tablesLooked, db) != StoreSchema.schemaVersion(db)
    }

    /// Tracks them, inside a write transaction in which what was written before is sealed.
    package static func apply(_ db: Database, _ environment: CaptureEnvironment) throws {
        guard try mayHaveMore(db) else { return }
        let known = Set(try TrackedTable.fetchTracked(db).map(\.name.foldedIdentifier))
        // Most changes of a schema make no table.
        guard try SchemaReader(db).tableNames().contains(where: { !known.contains($0.foldedIdentifier) }) else { return try noteLooked(db) }
        _ = try Tracking.track(db, .all, environment)
    }

    private static func noteLooked(_ db: Database) throws {
        try StoreSchema.set(.tablesLooked, to: StoreSchema.schemaVersion(db), db)
    }
}
