import AnnalsCore
import AnnalsWire
import GRDB

/// Who makes tables and columns in a store that the space's schema got from another replica.
public enum NewSchemas: String, Sendable, CaseIterable {
    /// The program that the store belongs to, when it migrates. What the log says there is kept until then.
    case wait
    /// Each exchange, as the log tells of them; for a store that no program migrates.
    case take
    /// Each exchange, if a policy of the space says `take`.
    case asSpaceSays
}

/// Makes what the log adds to the space's schema in a store that has no program of its own to migrate it.
enum TakenSchemas {
    /// Makes what an entry adds and the store lacks: columns by ALTER TABLE, tables by their statements, which are tracked at once.
    ///
    /// - Throws: `AnnalsError` of code schemaRefused where a table cannot be made or tracked here.
    static func take(_ entry: SchemaEntry, _ db: Database, _ environment: CaptureEnvironment) throws {
        let space = try SpaceSchema.load(db) ?? SpaceSchema(TrackedTables.load(db))
        try make(SchemaAdditions(entry, to: space), db, environment)
    }

    static func make(_ additions: SchemaAdditions, _ db: Database, _ environment: CaptureEnvironment) throws {
        for table in additions.tables where try !db.tableExists(table.name) {
            for sql in additions.statements[table.name] ?? [] { try execute(sql, db) }
        }
        let reader = SchemaReader(db)
        for var change in additions.columns {
            let own = try reader.table(change.table)
            change.columns.removeAll { own?.place(of: $0.name) != nil }
            for sql in SchemaAdditions.statements(change) { try execute(sql, db) }
        }
        let names = additions.tables.map(\.name)
        let report = try Tracking.track(db, .tables(names), environment)
        if let refused = report.tables.first(where: { !$0.isTracked }) {
            throw AnnalsError(
                .schemaRefused, operation: "sync", "the space's new table \(refused.name) cannot be tracked here",
                hint: "annals track says why")
        }
    }

    private static func execute(_ sql: String, _ db: Database) throws {
        do {
            try db.makeStatement(sql: sql).execute()
        } catch {
            throw AnnalsError(
                .schemaRefused, operation: "sync",
                "the space's schema change cannot be made here: \((error as? DatabaseError)?.message ?? "SQLite refused it")",
                hint: "Make it by hand, then sync again", underlying: error)
        }
    }
}

extension Store {
    /// Makes what the space's schema has and this store lacks, where it takes that from the log. What was kept goes into the rows
    /// next. False where there was nothing to do.
    func takeSchemas() async throws -> Bool {
        guard configuration.newSchemas != .wait else { return false }
        let taking = configuration.newSchemas
        return try await managed("sync") { db, step in
            guard try taking == .take || NewSchemas.ofSpace(db) == .take, let space = try SpaceSchema.load(db) else { return false }
            try step.seal()
            let behind = try step.schemaStanding().behind
            guard !behind.isEmpty, try !RowsInDoubt.isNoted(db), try !Push.isUnderWay(db) else { return false }
            // What waits in history is older than what is made now.
            try step.filler().fill()
            try TakenSchemas.make(space.additions(behind), db, step.environment)
            step.forgetStanding()
            return true
        }
    }
}

extension NewSchemas {
    /// What the space's policies say; see `PolicySetting.Aspect.schema`.
    static func ofSpace(_ db: Database) throws -> NewSchemas {
        let setting = try PolicyTable.load(db).last { $0.setting.aspect == .schema }
        return setting.flatMap { NewSchemas(rawValue: $0.setting.policy) } ?? .wait
    }
}
