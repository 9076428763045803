import AnnalsCore
import AnnalsHistory
import AnnalsReplica
public import AnnalsSchema
import AnnalsSQLite
public import GRDB

/// Which of the tables that a migration makes get a history, and are kept in step.
public enum NewTables: Sendable {
    /// None by the migration itself. A store that was told to track all tracks them when it is looked at next.
    case none
    /// All that can be tracked.
    case all
    case named([String])
}

extension Store {
    /// Changes the schema, and rows with it, as one transaction of history, with origin migration.
    ///
    ///     try await store.migrate(label: "v2: priorities", tracking: .all) { db in
    ///         try db.execute(sql: "ALTER TABLE todo ADD COLUMN priority INTEGER NOT NULL DEFAULT 0")
    ///         try db.execute(sql: "UPDATE todo SET priority = 1 WHERE title LIKE '%!'")
    ///     }
    ///
    /// What other programs wrote before is sealed first. Foreign keys are not enforced meanwhile, so that tables can be rebuilt;
    /// they are checked before COMMIT.
    ///
    /// In a store that is joined to a space, new tables and new columns with a default are told to the space, with the rows that the
    /// migration changed, if the space does not have them yet. If it has, what the migration did to rows stays nobody's business, and
    /// what the log says of the new tables and columns comes into the rows instead. Without a difference to the space's schema the
    /// rows are work like any other.
    ///
    /// Renames that are declared are made before `updates`; where another program made one already, by rebuilding a table as an example,
    /// it is only known for one from then on. In a space a name is a store's own business, and clones get the newest one.
    ///
    ///     try await store.migrate(label: "v3", renames: [.column("title", of: "todo", to: "heading"), .table("todo", to: "task")])
    ///
    /// - Parameters:
    ///   - label: what history calls it.
    ///   - renames: tables and columns that get another name, in this order.
    ///   - tracking: which new tables are tracked.
    ///   - rebuilding: tracked tables that `updates` drops and makes anew, or takes columns from. What they held is compared with
    ///     what they hold in the end, so that history goes on through it; without this, SQLite refuses `DROP COLUMN`, and older
    ///     tokens expire when a table is made anew.
    ///   - updates: the statements, on the connection that writes.
    /// - Throws: `AnnalsError`: `schemaRefused` where a joined store's tables would differ from the space's otherwise, `constraint`
    ///   where rows break a foreign key; what `updates` throws. Nothing is changed then.
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

    /// - Parameter updates: what throws there is passed on as it is, unless it says that it is the caller's.
    /// - Returns: what `updates` returns, and the conflicts that were settled between the store's own writes and what was kept from newer
    ///   replicas until now.
    func migrateCounting<T: Sendable>(
        label: String, renames: [Rename], tracking: NewTables, _ updates: @escaping @Sendable (Database, RebuiltTables) throws -> T
    ) async throws -> (value: T, conflicts: Int) {
        let (configuration, schema, foreign) = (configuration, schema, foreign)
        let (value, isCaughtUp) = try await translated("migrate") {
            try await database.writeWithoutTransaction { db in
                try Migrating.inTransaction(db) {
                    try foreign.look(db)
                    try schema.begin(db)
                    return try Migrating(db, StoreStep(db, configuration, schema), label, renames, tracking).run(updates)
                }
            }
        }
        return (value, isCaughtUp ? try await takeKept() : 0)
    }

    /// Gives tables and columns other names, and changes nothing else; see `migrate(label:renames:tracking:rebuilding:_:)`.
    public func migrate(label: String, renames: [Rename]) async throws {
        try await migrate(label: label, renames: renames) { _ in }
    }
}

/// One migration, from sealing what was there before to what the space is told.
struct Migrating {
    private let db: Database
    private let step: StoreStep
    private let label: String
    private let renames: [Rename]
    private let tracking: NewTables
    /// What does not fit the space is told by `sync`, and undoes nothing.
    private let isLenient: Bool

    init(_ db: Database, _ step: StoreStep, _ label: String, _ renames: [Rename], _ tracking: NewTables, isLenient: Bool = false) {
        (self.db, self.step, self.label, self.renames) = (db, step, label, renames)
        (self.tracking, self.isLenient) = (tracking, isLenient)
    }

    /// Runs the body in a write transaction without foreign keys, so that tables can be rebuilt.
    static func inTransaction<T>(_ db: Database, _ body: () throws -> T) throws -> T {
        let enforces = try Bool.fetchOne(db, sql: "PRAGMA foreign_keys") ?? false
        // It does nothing inside a transaction.
        try db.execute(sql: "PRAGMA foreign_keys = OFF")
        defer { if enforces { SQLiteStatements.putBack("PRAGMA foreign_keys = ON", on: db) } }
        var outcome: T?
        try db.inTransaction(.immediate) {
            outcome = try body()
            return .commit
        }
        guard let outcome else { throw AnnalsError(.defect, operation: "migrate", "a write ended without an outcome") }
        return outcome
    }

    /// Returns also whether the store has by now what it lacked.
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
                    .schemaRefused, operation: "migrate", "the migration takes away tables of Annals",
                    hint: "annals untrack does that; nothing was changed")
            }
            try tables.finish()
            try track(notIn: before)
            return value
        }
        if let number, !tables.drift.gaps.isEmpty {
            try Drift.expire(tables.drift.gaps, before: number, db)
            try UnverifiedRows.note(db)
        }
        try checkReferences(before: broken)
        do {
            return (value, try offering?.end(number) ?? false)
        } catch let error as AnnalsError where isLenient && error.code == .schemaRefused {
            return (value, false)
        }
    }

    private func track(notIn before: Set<String>) throws {
        guard try StoreSchema.exists(db) else { return }
        let names: [String]
        switch tracking {
        case .none: return
        case .named(let chosen): names = chosen
        case .all:
            let plan = try TrackingPlan(db, .all).entries.filter { !before.contains($0.name.foldedIdentifier) }
            names = plan.filter { if case .accepted = $0.verdict { true } else { false } }.map(\.name)
        }
        guard !names.isEmpty else { return }
        let report = try Tracking.trackUnrecorded(db, .tables(names), recordsRows: true)
        guard let refused = report.first(where: { !$0.isTracked }) else { return }
        throw AnnalsError(
            .schemaRefused, operation: "migrate", "the table \(refused.name) cannot be tracked", hint: "annals track --dry-run says why")
    }

    /// - Parameter before: what was without its parent already.
    private func checkReferences(before: [(key: FileChecks.Key, count: Int)]) throws {
        let broken = try FileChecks(db: db).foreignKeys()
        guard let first = broken.first(where: { now in now.count > (before.first { $0.key == now.key }?.count ?? 0) }) else { return }
        throw AnnalsError(
            .constraint, operation: "migrate", "the migration leaves rows of \(first.key.table) without their row of \(first.key.parent)",
            hint: "Nothing was changed")
    }
}

/// What a migration of a joined store is to its space: additions that it is told of, with the rows that were changed, or nothing that
/// it had not.
struct MigrationOffering {
    private let db: Database
    private let step: StoreStep
    private let label: String?

    /// nil where the store is not joined.
    init?(_ step: StoreStep, label: String?) throws {
        (db, self.step, self.label) = (step.db, step, label)
        guard try StoreSchema.exists(db), try ReplicaState.load(db) != nil else { return nil }
    }

    /// Moves what was written before into the outbox, as work of its own.
    func begin() throws {
        try step.filler().fill()
    }

    /// Moves the migration there as what it is to the space.
    ///
    /// - Parameter number: its transaction; nil where it changed nothing.
    /// - Returns: whether the store has by now what it lacked.
    func end(_ number: Int64?) throws -> Bool {
        let comparison = try step.schemaComparison()
        let filler = try step.filler()
        let entry = try filler.offer(comparison.ahead) {
            TransactionInfo(id: step.identities.next(), time: try step.tick(), contextName: label, origin: .migration)
        }
        let isOffer = entry != nil && comparison.ahead.areRows
        if let number, isOffer || comparison.isCaughtUp, let id = try filler.append(number, UserDecisions()) {
            try PendingSchemaEntries.note(db, id, isOffer ? .rows : .own, of: entry)
        }
        // Rows without a difference are work like any other.
        try filler.fill()
        return comparison.isCaughtUp
    }
}
