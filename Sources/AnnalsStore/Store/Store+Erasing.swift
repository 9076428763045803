import AnnalsCore
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import Foundation
import GRDB

/// `DatabaseMigrator.eraseDatabaseOnSchemaChange` for stores. GRDB's own check of the schema would take Annals' tables for a
/// change.
extension Store {
    /// Erases a file if the current migrations would create another schema.
    func eraseIfChanged(_ migrator: DatabaseMigrator) throws {
        do {
            let isChanged = try blocking("migrate") { database in
                try database.readingOnly { db in try Self.hasSchemaChanges(db, migrator) }
            }
            guard isChanged else { return }
        } catch  where ClosureError.isIn(error) {
            throw ClosureError.of(error)
        }
        let space = try blocking("migrate") { database in
            try database.reading { db in try StoreSchema.exists(db) ? ReplicaState.load(db)?.space : nil }
        }
        if let space {
            throw AnnalsError(
                .schemaRefused, operation: "migrate",
                "the migrations have changed, and \(path) would be erased for that, but it belongs to the space \(space)",
                hint: "Run annals leave, or remove the file; nothing was changed")
        }
        try blocking("migrate") { database in try database.erase() }
        schema.forget()
    }

    private static func hasSchemaChanges(_ db: Database, _ migrator: DatabaseMigrator) throws -> Bool {
        let applied = try migrator.appliedIdentifiers(db)
        guard applied.isSubset(of: migrator.migrations) else { return true }
        guard let last = migrator.migrations.last(where: applied.contains) else { return false }
        var options = db.configuration
        (options.readonly, options.targetQueue, options.writeTargetQueue) = (false, nil, nil)
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("annals-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        let copy = try DatabaseQueue(path: path, configuration: options)
        defer { try? copy.close() }
        try ClosureError.passing { try migrator.migrate(copy, upTo: last) }
        return try copy.unsafeRead(objects) != objects(db)
    }

    /// The app's schema as it was declared.
    private static func objects(_ db: Database) throws -> Set<[String?]> {
        let rows = try Row.fetchAll(db, sql: "SELECT type, name, tbl_name, sql FROM main.sqlite_master")
        return try Set(
            rows.filter { row in
                let name: String = try row.value("name")
                return !Database.isSQLiteInternalTable(name) && !Database.isGRDBInternalTable(name) && !StoreSchema.isOwnName(name)
            }.map { row in (0..<row.count).map { row[$0] } })
    }
}
