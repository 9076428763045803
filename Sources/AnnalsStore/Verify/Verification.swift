import AnnalsCore
package import AnnalsHistory
import AnnalsReplica
import AnnalsRows
package import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
package import GRDB

/// Checks a store completely (laws 1, 3, 4 and 8).
///
///     for finding in try Verification.run(db) { print(finding.code, finding.message) }
///
/// Nothing in the store is changed. The laws are tested on a copy of the tracked rows in a temporary database, which SQLite keeps
/// in memory or in its temporary folder and deletes at the end.
package enum Verification {
    /// The problems that were found; empty if there are none.
    ///
    /// Call it outside a transaction, because it attaches a temporary database. It takes about as long as two replays from the
    /// latest token to the oldest. Other programs may write meanwhile. Their earlier writes are recorded first, unless a trigger is
    /// missing or altered: then nothing in the store is changed.
    ///
    /// - Parameters:
    ///   - db: a connection to the store.
    ///   - environment: clock and identities; tests pass their own.
    ///   - progress: called with the number of changes that were undone and repeated, and their total. An error ends the verification.
    package static func run(
        _ db: Database, environment: CaptureEnvironment = .system,
        progress: @escaping (_ done: Int64, _ of: Int64) throws -> Void = { _, _ in }
    ) throws -> [Finding] {
        var findings: [Finding] = []
        do {
            // Another program may have dropped tables that are in this connection's schema cache.
            db.clearSchemaCache()
            var hasHistory = false
            try db.inTransaction(.deferred) {
                findings = try WorkCache.with(on: db) { try FileChecks(db: db).run() } + OrphanedTriggers(db).findings()
                hasHistory =
                    try String.fetchOne(
                        db, sql: "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name LIKE 'annals\\_%' ESCAPE '\\'") != nil
                if hasHistory {
                    let checks = [HistoryChecks(db: db).missingTables, OwnTableChecks(db: db).run, HistoryChecks(db: db).missingLists]
                    for check in checks where hasHistory {
                        let found = try check()
                        findings += found
                        hasHistory = found.isEmpty
                    }
                }
                if hasHistory { findings += try TriggerChecks(db: db).run() + ended(db) + unseen(db) + leftOut(db) + contradicted(db) }
                return .rollback
            }
            guard hasHistory else { return findings }
            try Replay.withConnection(db, attaching: "") {
                let check = {
                    findings += try HistoryChecks(db: db).run()
                    // History cannot be compared with a table that was replaced by one without a key. TriggerChecks names such tables.
                    let tables = try TrackedTables.load(db).entries.map(\.definition)
                    guard tables.allSatisfy({ $0.kind == .table && !$0.primaryKey.isEmpty }) else { return }
                    findings += try LawChecks(db, progress: progress).run()
                }
                // Recording would restore the triggers and, if they had been wrong, start history again.
                if findings.contains(where: { $0.code == .trigger }) {
                    try db.inTransaction(.deferred) {
                        try check()
                        return .commit
                    }
                } else {
                    try RecordedRead.run(db, environment, check)
                }
            }
            return findings
        } catch {
            let damage = StoreError.isCorruption(error)
            let isOfProgram = StoreError.isAboutMissingName(error)
            let error = StoreError.translate(error, operation: "verify", path: db.mainFile)
            if isOfProgram { return findings + [Finding(.integrity, "history cannot be compared with the rows here: \(error.message)")] }
            guard damage else { throw error.code == .cancelled ? CancellationError() : error }
            return findings + [Finding(.history, error.message)]
        }
    }

    private static func contradicted(_ db: Database) throws -> [Finding] {
        try LogEvidence.load(db).map { [Finding(.relay, $0.message)] } ?? []
    }

    /// An entry that the relay left out of the log as if it was voided, without an entry that says so.
    private static func leftOut(_ db: Database) throws -> [Finding] {
        guard let state = try ReplicaState.load(db), state.position >= state.head, let entry = try PassedVoids.load(db).first else {
            return []
        }
        let message = "the relay left out the entry at position \(entry.position) as voided, but no entry of its log voids it"
        return [Finding(.log, message)]
    }

    private static func ended(_ db: Database) throws -> [Finding] {
        try EndedTable.fetchAll(db).map { ended in
            let message = "the table \(ended.table) is not tracked any more, because another program replaced it: \(ended.reason.message)"
            return Finding(.unseen, message, table: ended.table)
        }
    }

    private static func unseen(_ db: Database) throws -> [Finding] {
        guard try UnverifiedRows.isNoted(db) else { return [] }
        return [Finding(.unseen, "a table was rebuilt, or an entry was voided: the next sync compares the rows with the space")]
    }
}
