package import AnnalsCore
public import AnnalsHistory
import AnnalsReplica
public import AnnalsRows
public import AnnalsSchema
import AnnalsSQLite
public import Foundation
import GRDB

extension Store {
    /// The status of the store. Records writes of other programs first. Uses no network.
    public func status() async throws -> StoreStatus {
        try await bringUpToDate()
        return try await translated("status") { try await database.reading { db in try StoreStatus(db) } }
    }

    /// Rows of tracked tables without a parent, counted by table and parent. Checks every row with a reference.
    public func foreignKeyViolations() async throws -> [(table: String, parent: String, count: Int)] {
        try await translated("status") {
            try await database.reading { db in
                try FileChecks(db: db).foreignKeys().map { (table: $0.key.table, parent: $0.key.parent, count: $0.count) }
            }
        }
    }

    /// The latest point of history. Records writes of other programs first.
    ///
    /// - Throws: `AnnalsError` with code `notTracked`.
    public func latestToken() async throws -> HistoryToken {
        try await bringUpToDate()
        return try await translated("history") { try await database.reading { db in try HistoryBounds(db).latest } }
    }

    /// The token for a text: a printed token, a transaction's number, an ISO 8601 date, `start` or `latest`.
    ///
    /// - Throws: `AnnalsError` with code `usage`, `tokenUnknown`, `tokenExpired` or `notTracked`.
    package func token(named text: String) async throws -> HistoryToken {
        try await bringUpToDate()
        return try await translated("history") { try await database.reading { db in try HistoryBounds(db).resolve(text, db) } }
    }

    /// The point of history for a date. If the date is between two commits of other programs that were recorded together, it is a moment
    /// within their transaction. Records writes of other programs first.
    ///
    ///     let point = try await store.point(at: beforeTheMistake)
    ///
    /// - Throws: `AnnalsError` with code `tokenExpired` for a date before the first moment of history, `usage` for one in the future, or
    ///   `notTracked`.
    public func point(at date: Date) async throws -> HistoryPoint {
        try await point(named: ISODate.text(milliseconds: date.milliseconds(rounded: .down)))
    }

    /// Whether any table is, or was, tracked in this database.
    package func hasHistory() async throws -> Bool {
        try await translated("history") { try await database.reading { db in try StoreSchema.exists(db) } }
    }

    /// The point for a text; see `token(named:)`.
    package func point(named text: String) async throws -> HistoryPoint {
        try await refuseFuture(text)
        try await bringUpToDate()
        return try await translated("history") {
            try await database.reading { db in try HistoryPoint(named: text, HistoryBounds(db), db) }
        }
    }

    /// - Throws: `AnnalsError` with code `usage` for a date after now and after the end of history, which is nearly always a mistake.
    package func refuseFuture(_ text: String) async throws {
        guard HistoryToken(text) == nil, Int64(text) == nil, let moment = ISODate.milliseconds(text), moment > configuration.now() else {
            return
        }
        let last = try await translated("history") {
            try await database.reading { db in
                guard try StoreSchema.exists(db), let row = try TransactionTable(db).newestTime() else { return nil as Int64? }
                return try row.value("time")
            }
        }
        guard moment > last ?? .min else { return }
        throw AnnalsError(
            .usage, operation: "history", "\(ISODate.text(milliseconds: moment)) is in the future",
            hint: "Give a date up to now, which is \(ISODate.text(milliseconds: configuration.now()))")
    }

    /// A request for transactions between two points, both exclusive. Records writes of other programs first. The texts are as in
    /// `token(named:)`. Neither a transaction that a text names nor one with exactly that date is included.
    ///
    /// - Throws: `AnnalsError`, as `token(named:)`.
    package func request(after: String?, before: String?) async throws -> HistoryRequest {
        try await bringUpToDate()
        return try await translated("history") {
            try await database.reading { db in try HistoryRequest(after: after, before: before, HistoryBounds(db), db) }
        }
    }

    /// Restricts a request to a row, or to columns of a table.
    package func request(
        _ request: HistoryRequest, row key: [Value]?, of table: String, columns: [String]
    ) async throws -> HistoryRequest {
        try await translated("history") {
            try await database.reading { db in try request.row(key, of: table, columns: columns, db) }
        }
    }

    /// The digest of the tracked rows, and the replica's position at that time.
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

    /// Writes an earlier state of the store into a new file; see `Replay`.
    ///
    /// - Parameters:
    ///   - point: the point of history.
    ///   - path: the file.
    ///   - force: replaces an existing file.
    ///   - leftOut: tables without rows in the file, for example because their rows are not known at that point.
    ///   - progress: called with the number of transactions that are undone, and their total.
    public func replay(
        to point: HistoryPoint, output path: String, force: Bool = false, leavingOut leftOut: [String] = [],
        progress: @escaping @Sendable (_ done: Int64, _ of: Int64) -> Void = { _, _ in }
    ) async throws -> Replay.Outcome {
        let configuration = configuration
        return try await translated("replay") {
            try await database.writeWithoutTransaction { db in
                guard try StoreSchema.exists(db) else { throw StoreSchema.notTracked }
                return try Replay.write(
                    db, to: point, output: path, force: force, leavingOut: leftOut, environment: StoreStep(db, configuration).environment,
                    progress: progress)
            }
        }
    }

    /// Writes the state of the store at the end of a transaction into a new file.
    public func replay(
        to token: HistoryToken, output path: String, force: Bool = false, leavingOut leftOut: [String] = [],
        progress: @escaping @Sendable (_ done: Int64, _ of: Int64) -> Void = { _, _ in }
    ) async throws -> Replay.Outcome {
        try await replay(to: HistoryPoint(token), output: path, force: force, leavingOut: leftOut, progress: progress)
    }

    /// Checks the store completely, and tests on a copy whether history leads to the current rows. Nothing is changed. It takes
    /// about as long as two replays from the latest token to the oldest.
    ///
    /// - Parameter progress: called with the number of changes that were undone and repeated on the copy, and their total. The checks before
    ///   and after this replay are not counted.
    public func verify(
        progress: @escaping @Sendable (_ done: Int64, _ of: Int64) -> Void = { _, _ in }
    ) async throws -> [Finding] {
        let configuration = configuration
        return try await translated("verify") {
            try await database.writeWithoutTransaction { db in
                try Verification.run(db, environment: StoreStep(db, configuration).environment, progress: progress)
            }
        }
    }

    /// Checks the store completely, and returns what `repair` would do.
    ///
    /// - Parameter progress: as of `verify`.
    public func repairPlan(
        progress: @escaping @Sendable (_ done: Int64, _ of: Int64) -> Void = { _, _ in }
    ) async throws -> RepairReport {
        let configuration = configuration
        schema.forget()
        return try await translated("verify") {
            try await database.writeWithoutTransaction { db in
                let environment = StoreStep(db, configuration).environment
                let findings = try Verification.run(db, environment: environment, progress: progress)
                return RepairReport(findings: findings, steps: try Repair(db: db, environment: environment).plan(findings))
            }
        }
    }

    /// Performs the steps of a plan, and checks the store again; see `RepairStep`. No row of a table is changed.
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
        // If the tables of Annals are gone, removing the triggers may have been the only repair.
        if try await database.reading({ db in try StoreSchema.exists(db) }) { _ = try await drop() }
        return RepairReport(findings: plan.findings, steps: plan.steps, remaining: try await verify())
    }

    /// Copies the whole file with its history at one point in time, even while other programs write. The copy appears when it is
    /// complete.
    ///
    /// - Parameters:
    ///   - path: the new file.
    ///   - force: replaces an existing file, which no program may have open.
    /// - Throws: `AnnalsError` with code `cannotCreate` if the file exists, is the store itself or cannot be created.
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

    /// Records writes of other programs. In a replica they also go into the outbox.
    func bringUpToDate() async throws {
        if try await replicaState() == nil { try await recordExternalChanges() } else { _ = try await updateOutbox() }
    }
}

/// A digest of rows with the position in the space that they belong to.
package struct StandingDigest: Hashable, Sendable {
    package var rows: Digest
    /// nil if the store is not joined.
    package var position: Position?
    /// The number of local transactions that are in the rows and not in the log.
    package var outbox: Int
}

extension Store {
    /// The current identifier of a row that had this identifier.
    ///
    ///     let id = try await store.current(noted, since: token)
    ///
    /// An integer key that the space has not ordered yet is provisional: if another replica used the number first, a sync gives the
    /// row another one. Then the old identifier means another row. So pass the time of your identifier.
    ///
    /// - Parameters:
    ///   - identifier: the row's identifier at that time.
    ///   - token: the point of history at which the identifier meant the row. Without it, the identifier counts as older than every
    ///     renumbering in history.
    /// - Returns: the identifier itself if nothing changed. The row may not exist.
    /// - Throws: `AnnalsError`: `tokenExpired`, `tokenUnknown` for a token of another store.
    public func current(_ identifier: PersistentIdentifier, since token: HistoryToken? = nil) async throws -> PersistentIdentifier {
        try await translated("identifier") {
            try await database.reading { db in
                if let token { try HistoryBounds(db).check(token) }
                return try RenumberedRows.load(db, after: token?.number ?? 0).current(identifier, since: token?.number ?? 0)
            }
        }
    }
}
