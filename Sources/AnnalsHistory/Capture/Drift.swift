import AnnalsCore
import AnnalsSchema
package import GRDB

/// Detects what other programs did to the schema of tracked tables, and repairs capture.
///
/// SQLite counts schema changes. If the count is the stored one, nothing is checked.
///
/// | what happened | what follows |
/// |---|---|
/// | table or column renamed | SQLite rewrote the triggers, so nothing was missed; the log keeps the canonical name (`CanonicalNames`) |
/// | column added | a new column list; nothing was missed if every row still has the column's default |
/// | unique index added or dropped | the triggers are updated; rows may have been missed if any were written since |
/// | table rebuilt, trigger dropped or altered | the triggers are restored; rows may have been missed |
/// | table dropped | its history ends |
/// | table dropped, and later created again under its name | as rebuilt |
///
/// If rows may have been missed, older tokens expire: the column list's `gap` is the first transaction after which the rows can be
/// reconstructed again. Other tables keep their history. A joined store compares its rows with the log (`UnverifiedRows`).
package enum Drift {
    package struct Report: Sendable, Equatable {
        package var findings: [Finding] = []
        /// Column lists with rows that may have changed without capture.
        package var gaps: [Int64] = []
        /// Column lists of dropped tables.
        package var dropped: [Int64] = []
        /// Column lists on which a program's newer triggers ran before the capture triggers. So the order of the unrecorded raw
        /// changes may differ from the order in which they happened.
        package var disordered: [Int64] = []

        /// Whether writers could not give their names, because the view or its triggers were missing or altered.
        package var hadNoNames = false
        /// Column lists with a new declaration that refuses rows of their history. Nothing was missed.
        package var narrowed: [Int64] = []

        package init(findings: [Finding] = [], gaps: [Int64] = [], dropped: [Int64] = [], disordered: [Int64] = []) {
            self.findings = findings
            self.gaps = gaps
            self.dropped = dropped
            self.disordered = disordered
        }

        /// Column lists for which older tokens expire.
        package var expired: [Int64] { gaps + dropped + narrowed }
    }

    package enum Finding: Sendable, Equatable {
        case tableRenamed(id: Int64, from: String, to: String)
        /// The table has other columns now, under a new id.
        case columnsChanged(table: String, oldID: Int64, newID: Int64)
        case triggersRestored(table: String)
        case tableDropped(table: String)
        /// The table can no longer be tracked.
        case trackingEnded(table: String, reason: Refusal)
    }

    /// Whether the schema changed since the last check. Only reads.
    package static func isSuspected(_ db: Database) throws -> Bool {
        try StoreSchema.schemaVersion(db) != StoreSchema.integer(.schemaVersion, db)
    }

    /// Repairs capture after changes of the schema, and records what was written before, so that expired tokens have a successor.
    /// It runs when a store is opened, inside a write transaction.
    @discardableResult
    package static func check(_ db: Database, _ environment: CaptureEnvironment = .system) throws -> Report {
        guard try StoreSchema.exists(db), try isSuspected(db) else { return Report() }
        return try TransactionRecorder.recordExternalReportingDrift(db, environment).drift
    }

    /// Repairs triggers and column lists without recording. A migration in this process calls it after each statement that changes
    /// a tracked table's columns, so that its later writes are captured.
    ///
    /// The caller records next, in the same SQLite transaction. It takes `disordered` into account and passes `expired` to `expire`.
    ///
    /// - Parameter others: column lists that the caller repairs.
    package static func repairIfNeeded(_ db: Database, except others: [Int64] = []) throws -> Report {
        guard try isSuspected(db) else { return Report() }
        try TrackingRule.noteSchemaChange(db)
        var report = Report()
        report.findings = try TableRenames(db).run()
        try noteDroppedLeftovers(db)
        try reviveCreatedAgain(db)
        for table in try TrackedTable.fetchTracked(db) where !others.contains(table.id) {
            var repair = TableRepair(db, table)
            try repair.run(&report)
        }
        report.hadNoNames = try NamedWriters.repair(db)
        try StoreSchema.noteSchemaVersion(db)
        return report
    }

    /// A table that is created again later under the name of a leftover table is another one.
    private static func noteDroppedLeftovers(_ db: Database) throws {
        let lists = try TrackedTable.fetchAll(db).filter { $0.state == .leftover }
        guard !lists.isEmpty else { return }
        let tables = try SchemaReader(db).tables(named: lists.map(\.name)).map(\.name.foldedIdentifier)
        for list in lists where !tables.contains(list.name.foldedIdentifier) { try TrackedTable.set(state: .removed, of: list.id, db) }
    }

    /// Tracks dropped tables again that another program has created again.
    private static func reviveCreatedAgain(_ db: Database) throws {
        let all = try TrackedTable.fetchAll(db)
        let tracked = Set(all.filter { $0.state == .tracked }.map(\.name.foldedIdentifier))
        // The newest list of each name.
        let newest = Dictionary(all.map { ($0.name.foldedIdentifier, $0) }, uniquingKeysWith: { $1 })
        let space = try StoreSchema.isReplica(db) ? SpaceSchema.load(db) : nil
        for (name, list) in newest where list.state == .dropped && !tracked.contains(name) {
            guard !(space?.isRemoved(list.first.table) ?? false), let table = try SchemaReader(db).table(list.name), table.kind == .table,
                Refusal.ofTable(table) == nil
            else { continue }
            try TrackedTable.set(state: .tracked, of: list.id, db)
        }
    }

    /// Makes tokens older than a transaction expire for these column lists.
    package static func expire(_ tables: [Int64], before number: Int64, _ db: Database) throws {
        for table in tables { try TrackedTable.set(gap: number, of: table, db) }
    }
}
