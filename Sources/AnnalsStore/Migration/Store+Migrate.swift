import AnnalsCore
import AnnalsHistory
import AnnalsReplica
public import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
public import GRDB

/// Which of the tables that a migration creates get a history and are synced.
public enum NewTables: Sendable {
    /// None in the migration itself. If the store tracks all tables, it tracks them the next time Annals checks it.
    case none
    /// All that can be tracked.
    case all
    case named([String])
}

extension Store {
    /// Changes the schema, and rows with it, as one transaction of history with origin migration.
    ///
    ///     try await store.migrate(label: "v2: priorities", tracking: .all) { db in
    ///         try db.execute(sql: "ALTER TABLE todo ADD COLUMN priority INTEGER NOT NULL DEFAULT 0")
    ///         try db.execute(sql: "UPDATE todo SET priority = 1 WHERE title LIKE '%!'")
    ///     }
    ///
    /// Earlier writes of other programs are recorded first. Foreign keys are off meanwhile, so that tables can be rebuilt; they are
    /// checked before COMMIT.
    ///
    /// In a store that is joined to a space, new tables, new columns and dropped columns go to the space, together with the rows
    /// that the migration changed, if the space does not have these changes yet. If the space has them already, the migration's
    /// changes of rows are not synced, and the log's values for the new tables and columns replace them. If the schema equals the
    /// space's, the changes of rows are synced like any other.
    ///
    /// Declared renames are done before `updates`. If another program already renamed something, for example by rebuilding a table,
    /// the declaration only makes the rename known. In a space, every store keeps its own names, and clones get the newest names.
    ///
    ///     try await store.migrate(label: "v3", renames: [.column("title", of: "todo", to: "heading"), .table("todo", to: "task")])
    ///
    /// - Parameters:
    ///   - label: the name of the transaction in history.
    ///   - renames: tables and columns that get another name, in this order.
    ///   - tracking: which new tables are tracked.
    ///   - rebuilding: tracked tables that `updates` drops and creates again, or whose columns it drops. Their rows before and
    ///     after are compared, so that history continues. Without this, SQLite refuses `DROP COLUMN`, and older tokens expire if a
    ///     table is created again.
    ///   - updates: the statements, on the connection that writes.
    /// - Throws: `AnnalsError`: `schemaRefused` if a joined store's tables would differ from the space's in another way,
    ///   `constraint` if rows violate a foreign key; errors of `updates`. Nothing is changed then.
    @discardableResult
    public func migrate<T: Sendable>(
        label: String, renames: [Rename] = [], tracking: NewTables = .none, rebuilding: [String] = [],
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try await migrateCounting(label: label, renames: renames, tracking: tracking) { db, tables in
            for table in rebuilding { try tables.putAside(table) }
            return try ClosureError.passing { try updates(db) }
        }.value
    }

    /// - Parameter updates: its errors are passed on unchanged, unless they are marked as the caller's.
    /// - Returns: the result of `updates`, and the number of conflicts that were settled between the store's own writes and
    ///   deferred cells from newer replicas.
    func migrateCounting<T: Sendable>(
        label: String, renames: [Rename], tracking: NewTables, _ updates: @escaping @Sendable (Database, RebuiltTables) throws -> T
    ) async throws -> (value: T, conflicts: Int) {
        let (configuration, schema, otherCommits) = (configuration, schema, otherCommits)
        let (value, isCaughtUp) = try await translated("migrate") {
            try await database.writeWithoutTransaction { db in
                try Migrating.inTransaction(db) {
                    try otherCommits.look(db)
                    try schema.begin(db)
                    return try Migrating(db, StoreStep(db, configuration, schema), label, renames, tracking).run(updates)
                }
            }
        }
        return (value, isCaughtUp ? try await applyKeptEntries() : 0)
    }

    /// Renames tables and columns, and changes nothing else; see `migrate(label:renames:tracking:rebuilding:_:)`.
    public func migrate(label: String, renames: [Rename]) async throws {
        try await migrate(label: label, renames: renames) { _ in }
    }
}

/// One migration, from recording earlier writes to the schema entry for the space.
struct Migrating {
    private let db: Database
    private let step: StoreStep
    private let label: String
    private let renames: [Rename]
    private let tracking: NewTables
    /// If true, a schema that the space does not accept does not undo the migration; `sync` reports it.
    private let isLenient: Bool

    init(_ db: Database, _ step: StoreStep, _ label: String, _ renames: [Rename], _ tracking: NewTables, isLenient: Bool = false) {
        (self.db, self.step, self.label, self.renames) = (db, step, label, renames)
        (self.tracking, self.isLenient) = (tracking, isLenient)
    }

    /// Runs the body in a write transaction with foreign keys off, so that tables can be rebuilt.
    static func inTransaction<T>(_ db: Database, _ body: () throws -> T) throws -> T {
        let enforces = try Bool.fetchOne(db, sql: "PRAGMA foreign_keys") ?? false
        // The pragma has no effect inside a transaction.
        try db.execute(sql: "PRAGMA foreign_keys = OFF")
        defer { if enforces { SQLiteStatements.putBack("PRAGMA foreign_keys = ON", on: db) } }
        var outcome: T?
        try db.inTransaction(.immediate) {
            outcome = try body()
            return .commit
        }
        guard let outcome else { throw AnnalsError(.defect, operation: "migrate", "internal error: a write ended without a result") }
        return outcome
    }

    /// Also returns whether the store now has tables or columns that it lacked.
    func run<T>(_ updates: (Database, RebuiltTables) throws -> T) throws -> (T, Bool) {
        try step.recordExternal()
        let renames = try DeclaredRenames(db, renames)
        try renames.checkTracked()
        try renames.declare()
        step.forgetComparison()
        let offering = try MigrationOffering(step, label: label)
        try offering?.begin()
        let before = Set(try SchemaReader(db).tableNames().map(\.foldedIdentifier))
        let (taken, own) = (Set(try OwnObjects.taken(db)), try OwnObjects.all(db).filter { $0.type == "table" })
        let broken = try FileChecks(db: db).foreignKeys()
        let present = Set(try StoreSchema.exists(db) ? TrackingRule.untracked(db).values.map { $0 } : [])
        var begun: [Int64] = []
        let tables = RebuiltTables(db)
        let (value, number) = try TransactionRecorder.managedWrite(
            db, contextName: label, origin: .migration, step.environment
        ) { db in
            try renames.make()
            let value = try updates(db, tables)
            if let object = try OwnObjects.taken(db).first(where: { !taken.contains($0) }) {
                throw AnnalsError.nameIsTaken(object.type, object.name, operation: "migrate")
            }
            guard try Set(OwnObjects.all(db)).isSuperset(of: own) else {
                throw AnnalsError(
                    .schemaRefused, operation: "migrate", "the migration drops tables of Annals",
                    hint: "Use untrack() for that; nothing was changed",
                    commandHint: "Use annals untrack for that; nothing was changed")
            }
            try tables.finish()
            begun = try track(notIn: before).filter { present.contains($0.page) }.map(\.list)
            return value
        }
        // The rows that the tables had before the migration are in its transaction.
        if let number { try UnknownRows.add(begun.map { UnknownRows(list: $0, absent: nil, recorded: number) }, db) }
        if let number, !tables.drift.expired.isEmpty {
            try Drift.expire(tables.drift.expired, before: number, db)
            if !tables.drift.gaps.isEmpty { try UnverifiedRows.note(db) }
        }
        if tables.haveRedefinedColumns { try UnverifiedRows.note(db) }
        try checkReferences(before: broken)
        do {
            return (value, try offering?.end(number) ?? false)
        } catch let error as AnnalsError where isLenient && error.code == .schemaRefused {
            return (value, false)
        }
    }

    /// Returns the column lists of tables that had rows, with the root pages of these tables.
    private func track(notIn before: Set<String>) throws -> [(list: Int64, page: Int64)] {
        guard try StoreSchema.exists(db) else { return [] }
        let names: [String]
        switch tracking {
        case .none: return []
        case .named(let chosen): names = chosen
        case .all:
            let plan = try TrackingPlan(db, .all).entries.filter { !before.contains($0.name.foldedIdentifier) }
            names = plan.filter { if case .accepted = $0.verdict { true } else { false } }.map(\.name)
        }
        guard !names.isEmpty else { return [] }
        let pages = try TrackingRule.untracked(db)
        let report = try Tracking.trackUnrecorded(db, .tables(names), recordsRows: true)
        guard let refused = report.first(where: { !$0.isTracked }) else {
            return report.compactMap { table in
                guard table.hadRows, case .tracked(let id) = table.outcome, let page = pages[table.name.foldedIdentifier] else {
                    return nil
                }
                return (id, page)
            }
        }
        throw AnnalsError(
            .schemaRefused, operation: "migrate", "the table \(refused.name) cannot be tracked",
            hint: "track(.all, options: .init(isDryRun: true)) reports the reason",
            commandHint: "annals track --dry-run prints the reason")
    }

    /// - Parameter before: violations that existed before the migration.
    private func checkReferences(before: [(key: FileChecks.Key, count: Int)]) throws {
        let broken = try FileChecks(db: db).foreignKeys()
        guard let first = broken.first(where: { now in now.count > (before.first { $0.key == now.key }?.count ?? 0) }) else { return }
        throw AnnalsError(
            .constraint, operation: "migrate",
            "the migration leaves rows of \(first.key.table) without their parent in \(first.key.parent)",
            hint: "Nothing was changed")
    }
}

/// What a migration of a joined store means for its space: additions with the rows that were changed, or nothing new.
struct MigrationOffering {
    private let db: Database
    private let step: StoreStep
    private let label: String?

    /// nil if the store is not joined.
    init?(_ step: StoreStep, label: String?) throws {
        (db, self.step, self.label) = (step.db, step, label)
        guard try StoreSchema.exists(db), try ReplicaState.load(db) != nil else { return nil }
    }

    /// Moves earlier writes into the outbox as separate transactions.
    func begin() throws {
        try step.filler().fill()
    }

    /// Moves the migration into the outbox.
    ///
    /// - Parameter number: its transaction; nil if it changed nothing.
    /// - Returns: whether the store now has tables or columns that it lacked.
    func end(_ number: Int64?) throws -> Bool {
        let comparison = try step.schemaComparison()
        let filler = try step.filler()
        let entry = try filler.offer(comparison.additions) {
            TransactionInfo(id: step.identities.next(), time: try step.tick(), contextName: label, origin: .migration)
        }
        let isOffer = entry != nil && comparison.additions.areRows
        if let number, isOffer || comparison.isCaughtUp, let id = try filler.append(number, UserDecisions()) {
            try PendingSchemaEntries.note(db, id, isOffer ? .rows : .own, of: entry)
        }
        // If the schema equals the space's, changed rows are synced like any other.
        try filler.fill()
        // Unsent work may have values of the earlier declaration.
        if try filler.areOffersOutdated() { try UnverifiedRows.note(db) }
        return comparison.isCaughtUp
    }
}

extension Store {
    /// Creates tables and columns that the space's schema has and this store lacks, and drops columns that the space has removed, if the
    /// store adopts them from the log. Deferred values are applied next. Returns false if there was nothing to do.
    func adoptSchema() async throws -> Bool {
        let schemas = configuration.newSchemas
        guard schemas != .wait else { return false }
        return try await managed("sync") { db, step in
            guard try schemas.takes(db), let space = try SpaceSchema.load(db) else { return false }
            try step.recordExternal()
            let (behind, leftover) = try (step.schemaComparison().behind, step.schemaComparison().leftover)
            let isCalledOtherwise = try !CurrentNames.differing(db, space, step.tables()).isEmpty
            guard !behind.isEmpty || !leftover.isEmpty || isCalledOtherwise, try !UnverifiedRows.isNoted(db), try !Push.isUnderWay(db)
            else { return false }
            // Writes that are still in history are older than the new tables and columns.
            try step.filler().fill()
            let isDropped = try SchemaAdoption.drop(leftover, db, step)
            if !behind.isEmpty {
                try SchemaAdoption.make(space.additions(behind), space, db, step.environment)
                try step.recordExternal()
                step.forgetComparison()
            }
            let isRenamed = try CurrentNames.take(CurrentNames.differing(db, space, step.tables()), db, step)
            step.forgetComparison()
            return try isDropped || isRenamed || step.schemaComparison().behind != behind
        }
    }
}
