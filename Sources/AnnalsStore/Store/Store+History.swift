package import AnnalsCore
public import AnnalsHistory
import AnnalsReplica
public import AnnalsRows
public import AnnalsSchema
import AnnalsSQLite
import Foundation
import GRDB

extension Store {
    /// How the store stands, other programs' writes recorded first. Asks nobody outside.
    public func status() async throws -> StoreStatus {
        try await bringUpToDate()
        return try await translated("status") { try await database.reading { db in try StoreStatus(db) } }
    }

    /// Rows of tracked tables whose parent is missing, counted by table and parent. Looks at every row that refers to one.
    public func foreignKeyViolations() async throws -> [(table: String, parent: String, count: Int)] {
        try await translated("status") {
            try await database.reading { db in
                try FileChecks(db: db).foreignKeys().map { (table: $0.key.table, parent: $0.key.parent, count: $0.count) }
            }
        }
    }

    /// The point at which history stands now, other programs' writes recorded first.
    ///
    /// - Throws: `AnnalsError` with code `notTracked`.
    public func latestToken() async throws -> HistoryToken {
        try await bringUpToDate()
        return try await translated("history") { try await database.reading { db in try HistoryBounds(db).latest } }
    }

    /// The token that a text names: one that was printed, a transaction's number, an ISO 8601 date, `start` or `latest`.
    ///
    /// - Throws: `AnnalsError` with code `usage`, `tokenUnknown`, `tokenExpired` or `notTracked`.
    package func token(named text: String) async throws -> HistoryToken {
        try await bringUpToDate()
        return try await translated("history") { try await database.reading { db in try HistoryBounds(db).resolve(text, db) } }
    }

    /// A request for what is later than one point and earlier than another, other programs' writes recorded first. Each text
    /// is what `token(named:)` takes; a transaction that one names is not among those asked for, nor is one of just that
    /// date.
    ///
    /// - Throws: `AnnalsError`, as `token(named:)`.
    package func request(after: String?, before: String?) async throws -> HistoryRequest {
        try await bringUpToDate()
        return try await translated("history") {
            try await database.reading { db in try HistoryRequest(after: after, before: before, HistoryBounds(db), db) }
        }
    }

    /// The digest of the tracked rows, and where the replica stood at that very moment.
    package func standingDigest() async throws -> StandingDigest {
        try await bringUpToDate()
        return try await translated("digest") {
            try await database.reading { db in
                guard try StoreSchema.exists(db) else { throw StoreSchema.notTracked }
                let status = try StoreStatus(db)
                return StandingDigest(rows: try StoreDigest.rows(db), position: status.replica?.position, outbox: status.outbox)
            }
        }
    }

    /// Writes the store as it was into a new file; see `Replay`.
    ///
    /// - Parameters:
    ///   - token: the point of history.
    ///   - path: the file.
    ///   - force: replaces a file that is there.
    ///   - progress: told how many of how many transactions are undone.
    public func replay(
        to token: HistoryToken, output path: String, force: Bool = false,
        progress: @escaping @Sendable (_ done: Int64, _ of: Int64) -> Void = { _, _ in }
    ) async throws -> Replay.Outcome {
        let configuration = configuration
        return try await translated("replay") {
            try await database.writeWithoutTransaction { db in
                guard try StoreSchema.exists(db) else { throw StoreSchema.notTracked }
                return try Replay.write(
                    db, to: token, output: path, force: force, environment: StoreStep(db, configuration).environment, progress: progress)
            }
        }
    }

    /// Looks for everything that can be off, and tries on a copy whether history leads to the rows as they are. Nothing is changed.
    /// It takes about as long as two replays from the latest token to the oldest.
    public func verify() async throws -> [Finding] {
        let configuration = configuration
        return try await translated("verify") {
            try await database.writeWithoutTransaction { db in
                try Verification.run(db, environment: StoreStep(db, configuration).environment)
            }
        }
    }

    /// Looks for everything that can be off, and says what `repair` would do about it.
    public func repairPlan() async throws -> RepairReport {
        let configuration = configuration
        schema.forget()
        return try await translated("verify") {
            try await database.writeWithoutTransaction { db in
                let environment = StoreStep(db, configuration).environment
                let findings = try Verification.run(db, environment: environment)
                return RepairReport(findings: findings, steps: try Repair(db: db, environment: environment).plan(findings))
            }
        }
    }

    /// Does what a plan says, and looks again; see `RepairStep`. No row of a table is touched.
    ///
    ///     let report = try await store.repair(store.repairPlan())
    ///     print(report.remaining ?? report.findings)
    public func repair(_ plan: RepairReport) async throws -> RepairReport {
        guard !plan.steps.isEmpty else { return plan }
        let configuration = configuration
        try await translated("verify") {
            try await database.writeWithoutTransaction { db in
                let environment = StoreStep(db, configuration).environment
                try Repair(db: db, environment: environment, spaceKeys: configuration.spaceKeys).run(plan.steps)
            }
        }
        schema.forget()
        // The triggers of a store whose tables are gone may be all that was repaired.
        if try await database.reading({ db in try StoreSchema.exists(db) }) { _ = try await drop() }
        return RepairReport(findings: plan.findings, steps: plan.steps, remaining: try await verify())
    }

    /// Copies the whole file as of one moment, history included, whoever writes meanwhile. The copy appears when it is whole.
    ///
    /// - Parameters:
    ///   - path: the new file.
    ///   - force: replaces a file that is there. Nobody may have it open.
    /// - Throws: `AnnalsError` with code `cannotCreate` when the file exists, is the store itself or cannot be made.
    public func copy(to path: String, force: Bool = false) async throws {
        try await translated("copy") {
            let file = try OutputFile(path, source: try database.reading { db in db.mainFile }, mayReplace: force, operation: "copy")
            do {
                let target = try DatabaseQueue(path: file.temporaryPath)
                defer { try? target.close() }
                try database.backup(to: target)
                try target.close()
                try file.finish()
            } catch {
                file.discard()
                throw (error as? DatabaseError).flatMap(file.failure) ?? error
            }
        }
    }

    /// Records what other programs wrote; a replica's goes into the outbox as well.
    func bringUpToDate() async throws {
        if try await replicaState() == nil { try await recordExternalChanges() } else { _ = try await updateOutbox() }
    }
}

/// A digest of rows together with the place in the space that they belong to.
package struct StandingDigest: Hashable, Sendable {
    package var rows: Digest
    /// nil when the store is not joined.
    package var position: Position?
    /// Local transactions that are in the rows but not in the log.
    package var outbox: Int
}
