import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Whether a store tracks tables that a program creates later. It does so if all tables were selected, when Annals next checks the
/// file.
///
/// A migration or a plugin creates tables. Without tracking, such a table would exist on one machine only, and rows that it refers
/// to would change without it.
package enum TrackingRule {
    /// Sets whether all tables that can be tracked are tracked, including later ones, or only those that are tracked now.
    package static func set(all: Bool, _ db: Database) throws {
        try StoreSchema.set(.tracksAll, to: all ? 1 : nil, db)
        try noteLooked(db)
    }

    /// Whether there may be new tables. Only reads.
    package static func mayHaveMore(_ db: Database) throws -> Bool {
        guard try StoreSchema.integer(.tracksAll, db) != nil else { return false }
        return try StoreSchema.integer(.tablesLooked, db) != StoreSchema.schemaVersion(db)
    }

    /// Tracks new tables, inside a write transaction in which earlier writes are recorded already.
    package static func apply(_ db: Database, _ environment: CaptureEnvironment) throws {
        guard try mayHaveMore(db) else { return }
        let known = Set(try TrackedTable.fetchTracked(db).map(\.name.foldedIdentifier))
        // Most schema changes create no table.
        guard try SchemaReader(db).tableNames().contains(where: { !known.contains($0.foldedIdentifier) }) else { return try noteLooked(db) }
        _ = try Tracking.track(db, .all, environment)
    }

    private static func noteLooked(_ db: Database) throws {
        try StoreSchema.set(.tablesLooked, to: StoreSchema.schemaVersion(db), db)
    }
}
