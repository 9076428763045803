import AnnalsCore
package import AnnalsHistory
import AnnalsReplica
import AnnalsRows
package import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
package import GRDB

/// Looks for everything that can be off in a store (laws 1, 3, 4 and 8).
///
///     for finding in try Verification.run(db) { print(finding.code, finding.message) }
///
/// Nothing in the store is changed. The laws are tried on a copy of the tracked rows in a temporary database, which
/// SQLite keeps in memory or in its temporary folder and drops at the end.
package enum Verification {
    /// What is off; nothing when all is well.
    ///
    /// Call it outside a transaction: a temporary database is attached. It takes about as long as two replays from the
    /// latest token to the oldest. Other programs may go on writing; what they wrote before is sealed first, unless a
    /// trigger is not as it should be: then nothing in the store is changed.
    ///
    /// - Parameters:
    ///   - db: a connection to the store.
    ///   - environment: clock and identities, which a test gives.
    ///   - progress: told now and then; what it throws ends the verification.
    package static func run(
        _ db: Database, environment: CaptureEnvironment = .system, progress: @escaping () throws -> Void = {}
    ) throws -> [Finding] {
        var findings: [Finding] = []
        do {
            // Another program may have dropped tables that this connection remembers.
            db.clearSchemaCache()
            var hasHistory = false
            try db.inTransaction(.deferred) {
                findings = try FileChecks(db: db).run() + OrphanedTriggers(db).findings()
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
                if hasHistory { findings += try TriggerChecks(db: db).run() + unseen(db) + leftOut(db) + contradicted(db) }
                return .rollback
            }
            guard hasHistory else { return findings }
            try Replay.withConnection(db, attaching: "") {
                let check = {
                    findings += try HistoryChecks(db: db).run()
                    findings += try LawChecks(db, progress: progress).run()
                }
                // Recording would bring the triggers in order, and begin history anew where they were not.
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
            let error = StoreError.translate(error, operation: "verify", path: db.mainFile)
            guard damage else { throw error }
            return findings + [Finding(.history, error.message)]
        }
    }

    private static func contradicted(_ db: Database) throws -> [Finding] {
        try LogEvidence.load(db).map { [Finding(.relay, $0.message)] } ?? []
    }

    /// What the relay left out of the log without its log saying so.
    private static func leftOut(_ db: Database) throws -> [Finding] {
        guard let state = try ReplicaState.load(db), state.position >= state.head, let entry = try PassedVoids.load(db).first else {
            return []
        }
        let message = "the relay left out the entry at position \(entry.position) as if it had been voided, and its log does not say so"
        return [Finding(.log, message)]
    }

    private static func unseen(_ db: Database) throws -> [Finding] {
        guard try UnverifiedRows.isNoted(db) else { return [] }
        return [Finding(.unseen, "another program rebuilt a table, or an entry was voided: sync compares the rows with the space's")]
    }
}
