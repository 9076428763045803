import AnnalsSchema
package import GRDB

/// Notices what other programs did to the schema of tracked tables, and brings capture in order again.
///
/// SQLite counts schema changes; while the count is the one found last, nothing is looked at.
///
/// | what happened | what follows |
/// |---|---|
/// | table or column renamed | SQLite rewrote the triggers, so nothing was missed; the log knows it under its first name (`CanonicalNames`) |
/// | column added | a new column list; nothing was missed if every row still holds the column's default |
/// | unique index added or dropped | the triggers learn of it; rows may have been missed if any were written since |
/// | table rebuilt, trigger dropped or altered | the triggers return; rows may have been missed |
/// | table dropped | its history ends |
///
/// Where rows may have been missed, older tokens expire: the column list's `gap` names the first transaction after which
/// the rows can be told again. Tables that nobody touched keep their history. A joined store compares its rows with the log
/// (`UnverifiedRows`).
package enum Drift {
    package struct Report: Sendable, Equatable {
        package var findings: [Finding] = []
        /// Column lists whose rows may have changed unseen.
        package var gaps: [Int64] = []
        /// Column lists on which a program's newer triggers ran before ours, so that the open raw changes may not stand in
        /// the order in which they happened.
        package var disordered: [Int64] = []

        package init(findings: [Finding] = [], gaps: [Int64] = [], disordered: [Int64] = []) {
            self.findings = findings
            self.gaps = gaps
            self.disordered = disordered
        }
    }

    package enum Finding: Sendable, Equatable {
        case tableRenamed(id: Int64, from: String, to: String)
        /// The table has other columns now, under a new id.
        case columnsChanged(table: String, oldID: Int64, newID: Int64)
        case triggersRestored(table: String)
        case tableDropped(table: String)
        /// The table is no longer one that can be tracked.
        case trackingEnded(table: String, reason: Refusal)
    }

    /// Whether the schema changed since it was last looked at. Only reads.
    package static func isSuspected(_ db: Database) throws -> Bool {
        try StoreSchema.schemaVersion(db) != StoreSchema.integer(.schemaVersion, db)
    }

    /// Repairs capture after changes of the schema, and records what was written before, so that expired tokens have a
    /// successor. For opening a store, inside a write transaction.
    @discardableResult
    package static func check(_ db: Database, _ environment: CaptureEnvironment = .system) throws -> Report {
        guard try StoreSchema.exists(db), try isSuspected(db) else { return Report() }
        return try TransactionRecorder.recordExternalReportingDrift(db, environment).drift
    }

    /// Brings triggers and column lists in order, without recording anything. A migration that this process runs calls it
    /// after each statement that changes a tracked table's columns, so that what it then writes is captured.
    ///
    /// The caller records or records next, in the same SQLite transaction, and passes `disordered` to `openSpans` and `gaps`
    /// to `expire`.
    package static func repairIfNeeded(_ db: Database) throws -> Report {
        guard try isSuspected(db) else { return Report() }
        var report = Report()
        report.findings = try TableRenames(db).run()
        for table in try TrackedTable.fetchTracked(db) {
            var repair = TableRepair(db, table)
            try repair.run(&report)
        }
        try StoreSchema.noteSchemaVersion(db)
        return report
    }

    /// Makes tokens older than a transaction expire for these column lists.
    package static func expire(_ tables: [Int64], before number: Int64, _ db: Database) throws {
        for table in tables { try TrackedTable.set(gap: number, of: table, db) }
    }
}
