import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
import Foundation
import GRDB

extension Store.Configuration {
    /// For files whose schema belongs to a space and not to the app, and for more connections to the app's own file.
    var withoutMigrations: Store.Configuration {
        var configuration = self
        (configuration.migrator, configuration.stages, configuration.tables, configuration.createIfMissing) = (nil, nil, nil, false)
        return configuration
    }

    /// For a store on an app's own connections.
    func wrapping(_ writer: any DatabaseWriter) -> Store.Configuration {
        var (configuration, options) = (self, writer.configuration)
        let usual = GRDB.Configuration()
        // Settings that prepare a connection are kept. Settings for one database or its use are not, because other files need
        // others.
        (options.readonly, options.foreignKeysEnabled, options.journalMode) = (false, usual.foreignKeysEnabled, usual.journalMode)
        (options.targetQueue, options.writeTargetQueue, options.schemaSource) = (nil, nil, nil)
        (options.allowsUnsafeTransactions, options.maximumReaderCount) = (false, usual.maximumReaderCount)
        options.persistentReadOnlyConnections = false
        configuration.wrapped = options
        return configuration
    }

    /// Options for the connections that the store opens.
    func connectionOptions(_ busyTimeout: BusyTimeout) -> GRDB.Configuration {
        var options = wrapped ?? GRDB.Configuration()
        options.busyMode = busyTimeout.busyMode
        options.label = "annals"
        if isScratch { options.prepareDatabase { db in try db.execute(sql: "PRAGMA synchronous = OFF") } }
        if isUntrusted { options.prepareDatabase { db in try db.execute(sql: "PRAGMA trusted_schema = OFF") } }
        for path in extensions { options.prepareDatabase { db in try LoadableExtension.load(path, on: db) } }
        options.prepareDatabase { db in SpatialFunctions.install(db) }
        if let trace { options.prepareDatabase { db in trace.install(db) } }
        if let prepareDatabase { options.prepareDatabase(prepareDatabase) }
        return options
    }
}

/// What a store does to its database when it is opened.
extension Store {
    func prepare() throws {
        database.add(transactionObserver: rolledBackSchema, extent: .observerLifetime)
        if let migrator = configuration.migrator { try migrate(migrator) }
        if let stages = configuration.stages { try migrateNow(stages) }
        if let selection = configuration.tables { try installCapture(selection) }
    }

    private func migrate(_ migrator: DatabaseMigrator) throws {
        var migrator = migrator
        if migrator.eraseDatabaseOnSchemaChange {
            if configuration.stages == nil { try eraseIfChanged(migrator) }
            migrator.eraseDatabaseOnSchemaChange = false
        }
        let unknown = try blocking("migrate") { database in
            try database.reading { db in try migrator.hasBeenSuperseded(db) }
        }
        guard !unknown else {
            throw AnnalsError(
                .schemaRefused, operation: "migrate", "a newer version of this app has changed the schema of \(path)",
                hint: "Update the app; nothing was changed")
        }
        let isDue = try blocking("migrate") { database in try database.reading { db in try !migrator.hasCompletedMigrations(db) } }
        guard isDue else { return }
        // Writes of other programs are recorded first, so that the unrecorded changes afterwards belong to the migrations.
        try aroundMigrations { step in
            try step.recordExternal()
            try MigrationOffering(step, label: nil)?.begin()
        }
        defer { schema.forget() }
        do {
            try blocking("migrate") { [migrator] database in
                do {
                    try migrator.migrate(database)
                } catch  where !StoreError.knows(error) {
                    throw ClosureError(error: error)
                }
            }
        } catch  where ClosureError.isIn(error) {
            try aroundMigrations(Self.recordMigrations)
            throw ClosureError.of(error)
        }
        try aroundMigrations(Self.recordMigrations)
    }

    /// The migrations are committed already. If the space does not accept them, `sync` reports it, and the store still opens.
    private static func recordMigrations(_ step: StoreStep) throws {
        let number = try TransactionRecorder.recordExternalReportingDrift(step.db, step.environment, as: .migration).number
        do {
            _ = try MigrationOffering(step, label: nil)?.end(number)
        } catch let error as AnnalsError where error.code == .schemaRefused {}
    }

    private func aroundMigrations(_ body: (StoreStep) throws -> Void) throws {
        try blocking("migrate") { database in
            try database.writeWithoutTransaction { db in
                try db.inTransaction(.immediate) {
                    // Without cached tables, because they are about to change or have changed.
                    try body(StoreStep(db, configuration))
                    return .commit
                }
            }
        }
    }

    private func installCapture(_ selection: Tracking.Selection) throws {
        try blocking("track") { database in
            try database.writeWithoutTransaction { db in
                guard try !isInstalled(selection, db) else { return }
                try db.inTransaction(.immediate) {
                    let report = try Tracking.track(db, selection, StoreStep(db, configuration, schema).environment)
                    try Self.check(report, selection)
                    return .commit
                }
            }
        }
        schema.forget()
    }

    /// So a store with tracked tables opens without waiting for a writer.
    private func isInstalled(_ selection: Tracking.Selection, _ db: Database) throws -> Bool {
        guard case .tables(let names) = selection, try StoreSchema.exists(db) else { return false }
        let tracked = Set(try TrackedTable.fetchTracked(db).map(\.name.foldedIdentifier))
        let present = Set(try SchemaReader(db).tableNames().map(\.foldedIdentifier))
        return names.allSatisfy { tracked.contains($0.foldedIdentifier) && present.contains($0.foldedIdentifier) }
    }

    /// A named table must get a history. With all tables, only those that can have one get it.
    private static func check(_ report: TrackingReport, _ selection: Tracking.Selection) throws {
        guard case .tables = selection else { return }
        for table in report.tables {
            guard case .skipped(let refusal) = table.outcome else { continue }
            throw AnnalsError(
                .schemaRefused, operation: "track", "the table \(table.name) cannot have a history: \(refusal.message)",
                hint: "Nothing was changed", underlying: refusal)
        }
    }
}

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
                "the migrations have changed, so \(path) would be erased, but it belongs to the space \(space)",
                hint: "Open it without eraseDatabaseOnSchemaChange and call leave(), or remove the file; nothing was changed",
                commandHint: "Run annals leave, or remove the file; nothing was changed")
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
