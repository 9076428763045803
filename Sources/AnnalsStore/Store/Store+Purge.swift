import AnnalsCore
public import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
public import Foundation
import GRDB

extension Store {
    /// Drops the transactions before the one that the token names, which stays.
    ///
    ///     let result = try await store.deleteHistory(before: token)
    ///     print(result.transactions, result.bytes, result.heldBackBy)
    ///
    /// It goes in slices, so that other writers wait a few milliseconds at most, and can be cancelled between two; the
    /// next purge goes on from there. The file does not get smaller: its free room is used again, and `vacuum` gives it
    /// back.
    ///
    /// - Throws: `AnnalsError` with code `tokenUnknown`, `tokenExpired`, `notTracked` or `busy`.
    @discardableResult
    public func deleteHistory(
        before token: HistoryToken, mode: PurgeMode = .respectingConsumers, dryRun: Bool = false,
        progress: @escaping @Sendable (_ done: Int64, _ of: Int64) -> Void = { _, _ in }
    ) async throws -> PurgeResult {
        try await purge(.before(token), mode, dryRun: dryRun, progress: progress)
    }

    /// Drops the transactions that were committed here before a date, and lines of the conflict journal that are older and
    /// that nobody waits for.
    @discardableResult
    public func deleteHistory(
        before date: Date, mode: PurgeMode = .respectingConsumers, dryRun: Bool = false,
        progress: @escaping @Sendable (_ done: Int64, _ of: Int64) -> Void = { _, _ in }
    ) async throws -> PurgeResult {
        let moment = date.milliseconds(rounded: .up)
        return try await purge(.beforeMoment(moment), mode, dryRun: dryRun, progress: progress)
    }

    /// Drops what is before a point that a text names, as `token(named:)` takes it: a transaction that it names stays, and of
    /// a date's what was committed at it or later.
    @discardableResult
    package func deleteHistory(
        before text: String, mode: PurgeMode = .respectingConsumers, dryRun: Bool = false,
        progress: @escaping @Sendable (_ done: Int64, _ of: Int64) -> Void = { _, _ in }
    ) async throws -> PurgeResult {
        let aim: PurgePlan.Aim =
            if let moment = ISODate.milliseconds(text) { .beforeMoment(moment) } else { .before(try await token(named: text)) }
        return try await purge(aim, mode, dryRun: dryRun, progress: progress)
    }

    /// Drops the transactions before this one.
    @discardableResult
    public func deleteHistory(before transaction: HistoryTransaction, mode: PurgeMode = .respectingConsumers) async throws -> PurgeResult {
        try await deleteHistory(before: transaction.token, mode: mode)
    }

    /// Drops what a rule does not keep.
    @discardableResult
    public func purge(
        _ retention: HistoryRetention, mode: PurgeMode = .respectingConsumers, dryRun: Bool = false,
        progress: @escaping @Sendable (_ done: Int64, _ of: Int64) -> Void = { _, _ in }
    ) async throws -> PurgeResult {
        try await purge(.retention(retention), mode, dryRun: dryRun, progress: progress)
    }

    // MARK: The store's own rule

    /// The rule that the store follows by itself: the one it was given, else 30 days when it is joined, and everything when
    /// it is not.
    public func retention() async throws -> HistoryRetention {
        try await translated("purge") { try await database.reading { db in try Retention.load(db) } }
    }

    /// Gives the store a rule, which every sync applies from then on; nil: the usual one again.
    public func setRetention(_ retention: HistoryRetention?) async throws {
        try await managed("purge") { db, _ in
            try Self.requireHistory(db)
            try Retention.save(retention, db)
        }
    }

    /// Applies the store's own rule, for a short time and not more than once an hour.
    ///
    /// - Returns: nil when it was not yet time.
    @discardableResult
    public func purgeWhenDue() async throws -> PurgeResult? {
        let now = configuration.now()
        guard try await read({ db in try StoreSchema.exists(db) && Retention.isDue(db, now: now) }) else { return nil }
        let result = try await purge(.retention(retention()), .respectingConsumers, slices: Retention.slicesWhenDue)
        if !result.isUnfinished { try await managed("purge") { db, _ in try Retention.noteApplied(db, at: now) } }
        return result
    }

    // MARK: In slices

    private func purge(
        _ aim: PurgePlan.Aim, _ mode: PurgeMode, dryRun: Bool = false, slices: Int = .max,
        progress: @escaping @Sendable (_ done: Int64, _ of: Int64) -> Void = { _, _ in }
    ) async throws -> PurgeResult {
        try await bringUpToDate()
        let now = configuration.now()
        let (planned, isWorthIt) = try await managed("purge") { db, _ in
            try Self.requireHistory(db)
            let plan = try PurgePlan(db, aim, mode, push: PushPlace.number(db, HistoryBounds(db)), now: now)
            var outcome = try Self.expected(db, plan)
            if dryRun { outcome.bytes = try Self.expectedBytes(db, plan) }
            if let moment = plan.conflictsBefore, try StoreSchema.isReplica(db) {
                outcome.conflicts = try ConflictJournal.purge(db, before: moment, force: mode == .force, isTrial: dryRun)
            }
            guard !dryRun else { return (outcome, false) }
            try Purge.setHorizon(plan.number, db)
            return (outcome, try outcome.transactions > 0 || Purge.isUnfinished(db))
        }
        var result = planned
        if dryRun { return result }
        if isWorthIt {
            let (changes, before) = (result.changes, try await freeBytes())
            result.isUnfinished = try await !drop(slices: slices) { progress(min($0, changes), changes) }
            result.bytes = try await max(0, freeBytes() - before)
        }
        return result
    }

    /// Drops what lies below the horizon; whether all of it is gone.
    ///
    /// - Parameter progress: told how many raw changes are gone.
    func drop(slices: Int = .max, progress: (Int64) -> Void = { _ in }) async throws -> Bool {
        let clock = configuration.microseconds
        var (step, done) = (Int64(64), Int64(0))
        for _ in 0..<slices {
            try Task.checkCancellation()
            let start = clock()
            let (slice, next) = try await managed("purge") { [step] db, _ in
                var step = step
                return (try Purge(db, microseconds: clock).slice(&step), step)
            }
            step = next
            done += slice.changes
            progress(done)
            if slice.isLast { return true }
            // Whoever waited for the lock has as much time to take it as the slice held it.
            try await configuration.pause(.microseconds(clock() - start))
        }
        return false
    }

    private func freeBytes() async throws -> Int64 {
        try await read { db in
            try (Int64.fetchOne(db, sql: "PRAGMA main.freelist_count") ?? 0) * (Int64.fetchOne(db, sql: "PRAGMA main.page_size") ?? 0)
        }
    }

    /// What a plan will drop, as far as it can be told beforehand.
    private static func expected(_ db: Database, _ plan: PurgePlan) throws -> PurgeResult {
        let bounds = try HistoryBounds(db)
        var result = PurgeResult(oldest: HistoryToken(number: plan.number, store: bounds.storeID))
        result.heldBackBy = plan.heldBackBy
        result.stranded = plan.stranded
        result.transactions = plan.number - bounds.oldest.number
        result.changes = try SpanTable(db).changes(after: bounds.oldest.number, upTo: plan.number)
        return result
    }

    private static func expectedBytes(_ db: Database, _ plan: PurgePlan) throws -> Int64 {
        let size = try HistorySize(db)
        return try Int64(max(0, size.size(after: HistoryBounds(db).oldest.number) - size.size(after: plan.number)))
    }

    /// Gives the file's free room back to the system, by writing the file anew (`VACUUM`).
    ///
    /// Other programs can neither read nor write meanwhile, and the disk needs room for a second copy.
    ///
    /// - Returns: by how many bytes the file became smaller.
    /// - Throws: `AnnalsError` with code `busy` or `diskFull`; the file is as it was then.
    @discardableResult
    public func vacuum() async throws -> Int64 {
        try await translated("vacuum") {
            try await database.writeWithoutTransaction { db in
                func size() throws -> Int64 {
                    try (Int64.fetchOne(db, sql: "PRAGMA main.page_count") ?? 0) * (Int64.fetchOne(db, sql: "PRAGMA main.page_size") ?? 0)
                }
                let before = try size()
                try db.execute(sql: "VACUUM main")
                if try String.fetchOne(db, sql: "PRAGMA main.journal_mode") == "wal" {
                    try db.execute(sql: "PRAGMA main.wal_checkpoint(TRUNCATE)")
                }
                return try before - size()
            }
        }
    }
}

/// The rule that a store keeps for itself.
enum Retention {
    /// Between two times that the rule is applied, in milliseconds.
    private static let pause: Int64 = 3_600_000
    /// Slices of a purge that a sync does on the way; what is left is for the next.
    static let slicesWhenDue = 100

    static func load(_ db: Database) throws -> HistoryRetention {
        guard try StoreSchema.exists(db) else { return .all }
        return try own(db) ?? (ReplicaState.load(db) == nil ? .all : .days(30))
    }

    /// The one that was set; nil for none.
    static func own(_ db: Database) throws -> HistoryRetention? {
        guard let text = try StoreSchema.text(.retention, db) else { return nil }
        guard let rule = try? JSONDecoder().decode(HistoryRetention.self, from: Data(text.utf8)) else {
            throw Corruption("annals_meta.retention")
        }
        return rule
    }

    static func save(_ retention: HistoryRetention?, _ db: Database) throws {
        if let retention {
            try StoreSchema.set(.retention, to: String(decoding: JSONEncoder().encode(retention), as: UTF8.self), db)
        } else {
            try StoreSchema.remove(.retention, db)
        }
    }

    static func isDue(_ db: Database, now: Int64) throws -> Bool {
        let last = try StoreSchema.integer(.retentionApplied, db) ?? 0
        // A clock that was put back must not keep it from ever being due.
        return try (now >= last + pause || now < last) && !load(db).keepsAll
    }

    static func noteApplied(_ db: Database, at now: Int64) throws {
        try StoreSchema.set(.retentionApplied, to: now, db)
    }
}
