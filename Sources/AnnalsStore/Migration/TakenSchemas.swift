import AnnalsCore
import AnnalsSchema
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

/// Makes what the log adds to the space's schema in a store that has no program of its own to migrate it, under the names that the space
/// has for it by now.
enum TakenSchemas {
    /// Makes what an entry adds and the store lacks: columns by ALTER TABLE, tables by their statements, which are tracked at once.
    ///
    /// - Throws: `AnnalsError` of code schemaRefused where a table cannot be made or tracked here.
    static func take(_ entry: SchemaEntry, _ db: Database, _ environment: CaptureEnvironment) throws {
        var space = try SpaceSchema.load(db) ?? SpaceSchema(TrackedTables.load(db))
        let additions = try SchemaAdditions(entry, to: space)
        space.add(additions)
        try space.save(db)
        try make(additions, space, db, environment)
    }

    /// - Parameter space: what the additions are part of.
    static func make(_ additions: SchemaAdditions, _ space: SpaceSchema, _ db: Database, _ environment: CaptureEnvironment) throws {
        let names = try OwnNames(db, space, additions)
        for table in additions.tables where try !db.tableExists(names.map.table(table.name)) {
            let renamed = RenamedStatements(tables: space.tables, names: names.map)
            for sql in try renamed.rename(additions.statements[table.name] ?? [], of: table.name) { try execute(sql, db) }
        }
        let reader = SchemaReader(db)
        for change in additions.columns {
            var own = names.change(change)
            let table = try reader.table(own.table)
            own.columns.removeAll { table?.place(of: $0.name) != nil }
            for sql in SchemaAdditions.statements(own) { try execute(sql, db) }
        }
        let report = try Tracking.track(db, .tables(additions.tables.map { names.map.table($0.name) }), environment)
        if let refused = report.tables.first(where: { !$0.isTracked }) {
            throw AnnalsError(
                .schemaRefused, operation: "sync", "the space's new table \(refused.name) cannot be tracked here",
                hint: "annals track says why")
        }
        try names.save(additions, db)
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
            let isCalledOtherwise = try !PresentNames.differing(db, space, step.tables()).isEmpty
            guard !behind.isEmpty || isCalledOtherwise, try !RowsInDoubt.isNoted(db), try !Push.isUnderWay(db) else { return false }
            // What waits in history is older than what is made now.
            try step.filler().fill()
            if !behind.isEmpty {
                try TakenSchemas.make(space.additions(behind), space, db, step.environment)
                try step.seal()
                step.forgetStanding()
            }
            let isRenamed = try PresentNames.take(PresentNames.differing(db, space, step.tables()), db, step)
            step.forgetStanding()
            return try isRenamed || step.schemaStanding().behind != behind
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
