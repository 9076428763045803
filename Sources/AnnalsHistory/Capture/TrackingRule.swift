import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import Foundation
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
        let isAll = try StoreSchema.integer(.tracksAll, db) != nil
        try StoreSchema.set(.tablesLooked, to: StoreSchema.schemaVersion(db), db)
        try StoreSchema.set(.tablesLeft, to: isAll ? text(untracked(db)) : nil, db)
        try StoreSchema.set(.schemaChanged, to: nil as Int64?, db)
    }

    // MARK: Since when a table can exist

    /// To be called before the writes are recorded that follow a change of the schema.
    package static func noteSchemaChange(_ db: Database) throws {
        guard try StoreSchema.integer(.tracksAll, db) != nil, try StoreSchema.integer(.schemaChanged, db) == nil,
            try StoreSchema.integer(.tablesLooked, db) != StoreSchema.schemaVersion(db)
        else { return }
        try StoreSchema.set(.schemaChanged, to: TransactionTable(db).newest() ?? 0, db)
    }

    /// The newest transaction at which an untracked table certainly did not exist; nil for tables for which this is not known.
    ///
    /// To be called after earlier writes were recorded, and before the tables are tracked.
    package static func absence(_ db: Database) throws -> (String) -> Int64? {
        guard let left = try StoreSchema.text(.tablesLeft, db), let changed = try StoreSchema.integer(.schemaChanged, db),
            let names = try? JSONDecoder().decode(Set<String>.self, from: Data(left.utf8)),
            // A missing name may be the earlier name of a table that was renamed.
            try names.isSubset(of: untracked(db))
        else { return { _ in nil } }
        return { names.contains($0.foldedIdentifier) ? nil : changed }
    }

    private static func untracked(_ db: Database) throws -> Set<String> {
        let tracked = Set(try TrackedTable.fetchTracked(db).map(\.name.foldedIdentifier))
        return try Set(SchemaReader(db).tableNames().map(\.foldedIdentifier)).subtracting(tracked)
    }

    private static func text(_ names: Set<String>) throws -> String {
        String(decoding: try JSONEncoder().encode(names.sorted()), as: UTF8.self)
    }
}
