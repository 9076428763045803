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
            let pages = try? JSONDecoder().decode([String: Int64].self, from: Data(left.utf8))
        else { return { _ in nil } }
        // A table that is not there any more may have another name now. Its root page shows that, also if its name was used again.
        let now = try untracked(db)
        guard pages.allSatisfy({ now[$0.key] == $0.value }) else { return { _ in nil } }
        return { pages[$0.foldedIdentifier] == nil ? changed : nil }
    }

    /// The root pages of all tables without history, by folded name.
    package static func untracked(_ db: Database) throws -> [String: Int64] {
        let tracked = Set(try TrackedTable.fetchTracked(db).map(\.name.foldedIdentifier))
        var pages: [String: Int64] = [:]
        for row in try Row.fetchAll(db, sql: "SELECT name, rootpage FROM main.sqlite_master WHERE type = 'table' AND rootpage > 0") {
            let name: String = try row.value("name")
            if !StoreSchema.isOwnName(name), !tracked.contains(name.foldedIdentifier) {
                pages[name.foldedIdentifier] = try row.value("rootpage")
            }
        }
        return pages
    }

    private static func text(_ pages: [String: Int64]) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return String(decoding: try encoder.encode(pages), as: UTF8.self)
    }
}
