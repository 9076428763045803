import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import GRDB

extension Store {
    /// Migrates the schema to the newest version, stage by stage.
    ///
    ///     try await store.migrate(stages) { progress in print("\(progress.completed) of \(progress.total)") }
    ///
    /// In a store that is joined to a space, additions go to the space as in `migrate(label:renames:tracking:rebuilding:_:)`.
    /// Changes that a space does not accept do not prevent the migration: `sync` reports them, and local writes can continue.
    ///
    /// - Parameters:
    ///   - manager: the versions and the stages between them.
    ///   - progress: called before each stage and after the last one.
    /// - Returns: the version of the store afterwards.
    /// - Throws: `AnnalsError` of code schemaRefused for a file of a newer or unknown version, and for a stage that does not lead
    ///   to its version; `constraint` if rows violate a foreign key; errors of handlers. Finished stages remain.
    @discardableResult
    public func migrate(
        _ manager: StagedMigrationManager, progress: @escaping @Sendable (StagedMigrationManager.Progress) -> Void = { _ in }
    ) async throws -> SchemaVersion {
        let isCaughtUp = try await translated("migrate") {
            try await database.writeWithoutTransaction { db in try stages(of: manager, on: db, progress) }
        }
        if isCaughtUp { try await applyKeptEntries() }
        guard let newest = manager.versions.last else {
            throw AnnalsError(.defect, operation: "migrate", "internal error: no version is known")
        }
        return newest
    }

    /// The same on the calling thread, when a store is opened. In a joined store, deferred values for new tables and columns are
    /// applied with the next exchange.
    func migrateNow(_ manager: StagedMigrationManager) throws {
        let isDue = try blocking("migrate") { database in
            try database.reading { db in try !manager.due(in: db).isEmpty || VersionRecord.load(db) == nil }
        }
        guard isDue else { return }
        do {
            _ = try blocking("migrate") { database in
                try database.writeWithoutTransaction { db in try stages(of: manager, on: db) { _ in } }
            }
        } catch  where ClosureError.isIn(error) {
            throw ClosureError.of(error)
        }
    }

    /// Returns whether the store now has tables or columns that it lacked.
    private func stages(
        of manager: StagedMigrationManager, on db: Database, _ progress: (StagedMigrationManager.Progress) -> Void
    ) throws -> Bool {
        defer { schema.forget() }
        var isCaughtUp = false
        let total = try manager.due(in: db).count
        for completed in 0..<total {
            // Another process may have run the stage meanwhile.
            guard let next = try manager.due(in: db).first else { break }
            progress(.init(completed: completed, total: total, label: next.label))
            isCaughtUp = try Migrating.inTransaction(db) { try stage(of: manager, on: db) } || isCaughtUp
        }
        progress(.init(completed: total, total: total, label: nil))
        if try VersionRecord.load(db) == nil {
            try db.inTransaction(.immediate) {
                try manager.adopt(db)
                return .commit
            }
        }
        return isCaughtUp
    }

    private func stage(of manager: StagedMigrationManager, on db: Database) throws -> Bool {
        guard let stage = try manager.due(in: db).first else { return false }
        try otherCommits.look(db)
        try schema.begin(db)
        let step = StoreStep(db, configuration)
        let tracking = try newTables(of: stage, db)
        // The space does not use the names of tables without history.
        let tracked = try StoreSchema.exists(db) ? TrackedTable.fetchTracked(db).map(\.name) : []
        let renames = Dictionary(grouping: stage.renames) { rename in tracked.contains { $0.isSameIdentifier(as: rename.table) } }
        return try Migrating(db, step, stage.label, renames[true] ?? [], tracking, isLenient: true).run { db, tables in
            for table in stage.rebuilt { try tables.putAside(table) }
            try ClosureError.passing { try manager.run(stage, db, renaming: renames[false] ?? []) }
        }.1
    }

    private func newTables(of stage: StagedMigrationManager.Stage, _ db: Database) throws -> NewTables {
        switch configuration.tables {
        case nil: return .none
        case .all: return .all
        case .tables(let names):
            let reader = SchemaReader(db)
            return .named(try names.filter { try stage.to.table(named: $0) != nil && reader.table($0) == nil })
        }
    }
}
