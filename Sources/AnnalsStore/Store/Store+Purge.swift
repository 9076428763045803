import AnnalsCore
public import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsSQLite
public import Foundation
import GRDB

extension Store {
    /// Deletes the transactions before the token's transaction, which stays.
    ///
    ///     let result = try await store.deleteHistory(before: token)
    ///     print(result.transactions, result.bytes, result.heldBackBy)
    ///
    /// It works in slices, so that other writers wait at most a few milliseconds. It can be cancelled between two slices, and the
    /// next purge continues. The file does not become smaller: its free space is reused, and `vacuum` returns it to the system.
    ///
    /// - Throws: `AnnalsError` with code `tokenUnknown`, `tokenExpired`, `notTracked` or `busy`.
    @discardableResult
    public func deleteHistory(
        before token: HistoryToken, mode: PurgeMode = .respectingConsumers, dryRun: Bool = false,
        progress: @escaping @Sendable (_ done: Int64, _ of: Int64) -> Void = { _, _ in }
    ) async throws -> PurgeResult {
        try await purge(.before(token), mode, dryRun: dryRun, progress: progress)
    }

    /// Deletes the transactions that were committed in this store before a date, and older entries of the conflict journal that do
    /// not wait for a person.
    @discardableResult
    public func deleteHistory(
        before date: Date, mode: PurgeMode = .respectingConsumers, dryRun: Bool = false,
        progress: @escaping @Sendable (_ done: Int64, _ of: Int64) -> Void = { _, _ in }
    ) async throws -> PurgeResult {
        let moment = date.milliseconds(rounded: .up)
        return try await purge(.beforeMoment(moment), mode, dryRun: dryRun, progress: progress)
    }

    /// Deletes what is before a point, given as in `token(named:)`. A named transaction stays; with a date, everything committed at
    /// or after it stays.
    @discardableResult
    package func deleteHistory(
        before text: String, mode: PurgeMode = .respectingConsumers, dryRun: Bool = false,
        progress: @escaping @Sendable (_ done: Int64, _ of: Int64) -> Void = { _, _ in }
    ) async throws -> PurgeResult {
        let aim: PurgePlan.Aim =
            if let moment = ISODate.milliseconds(text) { .beforeMoment(moment) } else { .before(try await token(named: text)) }
        return try await purge(aim, mode, dryRun: dryRun, progress: progress)
    }

    /// Deletes the transactions before this one.
    @discardableResult
    public func deleteHistory(before transaction: HistoryTransaction, mode: PurgeMode = .respectingConsumers) async throws -> PurgeResult {
        try await deleteHistory(before: transaction.token, mode: mode)
    }

    /// Deletes what the retention does not keep.
    @discardableResult
    public func purge(
        _ retention: HistoryRetention, mode: PurgeMode = .respectingConsumers, dryRun: Bool = false,
        progress: @escaping @Sendable (_ done: Int64, _ of: Int64) -> Void = { _, _ in }
    ) async throws -> PurgeResult {
        try await purge(.retention(retention), mode, dryRun: dryRun, progress: progress)
    }

    // MARK: The store's retention

    /// The retention that the store applies by itself: the one that was set, otherwise 30 days if it is joined, and everything if
    /// it is not.
    public func retention() async throws -> HistoryRetention {
        try await translated("purge") { try await database.reading { db in try Retention.load(db) } }
    }

    /// The retention that was set; nil if the store applies the default.
    package func ownRetention() async throws -> HistoryRetention? {
        try await translated("purge") { try await database.reading { db in try Retention.own(db) } }
    }

    /// Sets the store's retention, which every sync applies from then on; nil restores the default.
    ///
    /// - Throws: `AnnalsError` with code `notTracked`; `usage` if the retention has a share that is not between 0 and 1.
    public func setRetention(_ retention: HistoryRetention?) async throws { try await replaceRetention(by: retention) }

    /// Sets the store's retention, and returns the one that applied before, and whether it had been set.
    @discardableResult
    package func replaceRetention(by retention: HistoryRetention?) async throws -> (before: HistoryRetention, wasSet: Bool) {
        try retention?.check()
        return try await managed("purge") { db, _ in
            try Self.requireHistory(db)
            let before = try (Retention.load(db), Retention.own(db) != nil)
            try Retention.save(retention, db)
            return before
        }
    }

    /// Applies the store's retention, for a short time and at most once an hour.
    ///
    /// - Returns: nil if it is not due yet.
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
            let plan = try PurgePlan(db, aim, mode, push: PushedHistory.end(db, HistoryBounds(db)), now: now)
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

    /// Deletes what is below the horizon. Returns whether all of it is deleted.
    ///
    /// - Parameter progress: called with the number of deleted raw changes.
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
            // The pause is as long as the slice held the lock, so that waiting writers get it.
            try await configuration.pause(.microseconds(clock() - start))
        }
        return false
    }

    private func freeBytes() async throws -> Int64 {
        try await read { db in
            try (Int64.fetchOne(db, sql: "PRAGMA main.freelist_count") ?? 0) * (Int64.fetchOne(db, sql: "PRAGMA main.page_size") ?? 0)
        }
    }

    /// The expected result of a plan, as far as it is known in advance.
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

    /// Returns the file's free space to the system by rewriting the file (`VACUUM`).
    ///
    /// Other programs can neither read nor write meanwhile, and the disk needs space for a second copy.
    ///
    /// - Returns: the number of bytes by which the file became smaller.
    /// - Throws: `AnnalsError` with code `busy` or `diskFull`; the file is unchanged then.
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

/// The store's own retention.
enum Retention {
    /// The minimum time between two applications of the retention, in milliseconds.
    private static let pause: Int64 = 3_600_000
    /// Slices of a purge in one sync; the next sync continues.
    static let slicesWhenDue = 100

    static func load(_ db: Database) throws -> HistoryRetention {
        guard try StoreSchema.exists(db) else { return .all }
        return try own(db) ?? (ReplicaState.load(db) == nil ? .all : .days(30))
    }

    /// The retention that was set; nil if none was.
    static func own(_ db: Database) throws -> HistoryRetention? {
        guard let text = try StoreSchema.text(.retention, db) else { return nil }
        guard let rule = try? JSONDecoder().decode(HistoryRetention.self, from: Data(text.utf8)) else {
            throw Corruption(StoreSchema.Meta.retention)
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
        // If the clock was set back, the retention must still become due.
        return try (now >= last + pause || now < last) && !load(db).keepsAll
    }

    static func noteApplied(_ db: Database, at now: Int64) throws {
        try StoreSchema.set(.retentionApplied, to: now, db)
    }
}
