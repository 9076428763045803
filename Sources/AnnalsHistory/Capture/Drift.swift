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
///
/// If rows may have been missed, older tokens expire: the column list's `gap` is the first transaction after which the rows can be
/// reconstructed again. Other tables keep their history. A joined store compares its rows with the log (`UnverifiedRows`).
package enum Drift {
    package struct Report: Sendable, Equatable {
        package var findings: [Finding] = []
        /// Column lists with rows that may have changed without capture.
        package var gaps: [Int64] = []
        /// Column lists on which a program's newer triggers ran before the capture triggers. So the order of the unrecorded raw
        /// changes may differ from the order in which they happened.
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
    /// The caller records next, in the same SQLite transaction. It passes `disordered` to `openSpans` and `gaps` to `expire`.
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
