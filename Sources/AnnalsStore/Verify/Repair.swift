import AnnalsCore
import AnnalsHistory
import AnnalsReplica
public import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import Foundation
import GRDB

/// One thing that a repair does, or would do.
public enum RepairStep: Hashable, Sendable {
    /// SQLite's indexes are written anew from the rows.
    case rebuildIndexes
    /// Tables of history that are gone are made again, empty.
    case recreateTables([String])
    /// Triggers that stand without Annals' tables, so that every write of these tables fails, are taken away.
    case removeTriggers(tables: [String])
    /// The triggers that capture changes are put back.
    case restoreTriggers(tables: [String])
    /// What history holds cannot be relied on: older tokens expire, and consumers start over from the rows.
    case beginHistoryAnew
    /// The push under way cannot be read: what it held is sent again. What the relay took of it is known by its transactions' ids.
    case beginPushAnew
    /// Which keys were ever given is told again from the rows.
    case recountKeys
    /// Before anything is exchanged, the next sync compares the rows with the space's.
    case compareWithSpace

    /// In words, as what will be done.
    public var message: String {
        switch self {
        case .rebuildIndexes: "write the file's indexes anew from its rows"
        case .recreateTables(let names): "make \(names.joined(separator: ", ")) again, empty"
        case .removeTriggers(let tables):
            "take Annals' triggers away from \(tables.joined(separator: ", ")): history is gone, and annals track begins a new one"
        case .restoreTriggers(let tables): "put back the triggers that capture changes of \(tables.joined(separator: ", "))"
        case .beginHistoryAnew: "begin history anew with the rows as they are: older tokens expire, and consumers start over"
        case .beginPushAnew: "put the push under way together anew"
        case .recountKeys: "tell again from the rows which integer keys were given"
        case .compareWithSpace: "have the next sync compare the rows with the space's before anything else"
        }
    }
}

/// What was off, what was done about it, and what is still off.
public struct RepairReport: Sendable {
    public var findings: [Finding]
    /// In the order in which they are done.
    public var steps: [RepairStep]
    /// nil when nothing was done.
    public var remaining: [Finding]?

    package init(findings: [Finding], steps: [RepairStep], remaining: [Finding]? = nil) {
        self.findings = findings
        self.steps = steps
        self.remaining = remaining
    }
}

/// Rebuilds what can be rebuilt of a store: indexes, triggers, tables of history, counters. No row of the user's is
/// touched.
///
/// Rows are what the user has; history is what is told about them. So where the two disagree the rows stand, and history
/// begins anew. A joined store's rows are then compared with the log at its next sync (`UnverifiedRows`), which finds what was
/// written unseen.
struct Repair {
    let db: Database
    let environment: CaptureEnvironment
    /// The keys that the program gave itself, where the store's space is sealed.
    var spaceKeys: SpaceKeyRing?

    /// What would be done about these findings.
    func plan(_ findings: [Finding]) throws -> [RepairStep] {
        guard !findings.isEmpty else { return [] }
        var steps: [RepairStep] = []
        if findings.contains(where: Self.isAboutIndex) { steps.append(.rebuildIndexes) }
        let left = try OrphanedTriggers(db).tables
        if !left.isEmpty { steps.append(.removeTriggers(tables: left)) }
        guard try StoreSchema.exists(db), try StoreSchema.text(.storeID, db) != nil else { return steps }
        guard try OwnTableChecks(db: db).areRepairable() else { return steps }
        let missing = try missingTables()
        if !missing.isEmpty { steps.append(.recreateTables(missing)) }
        let triggers = Set(findings.filter { $0.code == .trigger }.compactMap(\.table)).sorted()
        if !triggers.isEmpty { steps.append(.restoreTriggers(tables: triggers)) }
        let doubtful: Set<Finding.Code> = [.history, .rows, .replay]
        if findings.contains(where: { doubtful.contains($0.code) }) { steps.append(.beginHistoryAnew) }
        if try StoreSchema.isReplica(db), !isPushReadable() { steps.append(.beginPushAnew) }
        let needsLog = doubtful.union([.log, .trigger])
        if try StoreSchema.isReplica(db), findings.contains(where: { needsLog.contains($0.code) }) {
            steps += [.recountKeys, .compareWithSpace]
        }
        return steps
    }

    /// Does it, in one SQLite transaction.
    func run(_ steps: [RepairStep]) throws {
        guard !steps.isEmpty else { return }
        try db.inTransaction(.immediate) {
            for step in steps { try perform(step) }
            return .commit
        }
    }

    private func perform(_ step: RepairStep) throws {
        switch step {
        case .rebuildIndexes:
            try db.execute(sql: "REINDEX")
        case .recreateTables:
            try recreateTables()
        case .removeTriggers:
            try OrphanedTriggers(db).remove(db)
        case .restoreTriggers:
            try restoreTriggers()
        case .beginHistoryAnew:
            try beginAnew()
        case .beginPushAnew:
            try Push.thaw(db)
        case .recountKeys:
            try OwnTableChecks(db: db).dropUnreadable(in: "annals_highest")
            try HighestKeys.noteRows(db, TrackedTables.load(db))
        case .compareWithSpace:
            try UnverifiedRows.note(db)
        }
    }

    // MARK: Steps

    private func isPushReadable() -> Bool {
        (try? Push.check(db)) != nil
    }

    private static func isAboutIndex(_ finding: Finding) -> Bool {
        finding.code == .integrity && ["missing from index", "entries in index"].contains { finding.message.contains($0) }
    }

    private func missingTables() throws -> [String] {
        let own = try TrackedTable.fetchTracked(db).flatMap { [StoreSchema.changesTable($0.id), StoreSchema.notesTable($0.id)] }
        return try ([TransactionTable.name, SpanTable.name] + own).filter { try !db.tableExists($0) }
    }

    private func recreateTables() throws {
        let newest = try newestNumber()
        try OwnObjects.createCommonTables(db)
        for table in try TrackedTable.fetchTracked(db) {
            if try !db.tableExists(StoreSchema.changesTable(table.id)) {
                try StoreSchema.createChangesTable(db, id: table.id, columns: table.columns.count, byRowid: table.key.isByRowid)
                try SpanTable(db).delete(of: table.id)
            }
            if try !db.tableExists(StoreSchema.notesTable(table.id)) {
                try StoreSchema.createNotesTable(
                    db, id: table.id, columns: table.columns.count, key: table.key.places, byRowid: table.key.isByRowid)
            }
        }
        try begin(after: newest)
        try StoreSchema.noteSchemaVersion(db)
    }

    /// As any look at the store does that finds the schema changed: older tokens expire, and a joined store's rows are in
    /// doubt.
    private func restoreTriggers() throws {
        try StoreSchema.set(.schemaVersion, to: nil, db)
        try TransactionRecorder.recordExternal(db, environment)
    }

    private func beginAnew() throws {
        if try StoreSchema.isReplica(db) { try keepUnsentWork() }
        // Also of rows that cannot be read: somebody may have a token of theirs.
        let newest = try newestNumber()
        try OwnTableChecks(db: db).dropUnreadable(in: TransactionTable.name, SpanTable.name)
        try begin(after: newest)
    }

    /// Moves to the outbox what can be read of history. What cannot is found when the rows are compared with the log.
    private func keepUnsentWork() throws {
        do {
            try db.inSavepoint {
                try TransactionRecorder.recordExternal(db, environment)
                let state = try ReplicaState.load(db)
                let filler = OutboxFiller(
                    db: db, tables: try TrackedTables.load(db), limits: OutboxLimits(),
                    footprintKey: { try state?.cipher(spaceKeys, operation: "verify")?.footprintKey ?? .none }, author: { state?.name })
                try filler.fill()
                return .commit
            }
        } catch  where StoreError.isCorruption(error) {
            return
        } catch let error as AnnalsError where error.code != .missingKey {
            return
        }
    }

    /// The highest number that any trace of history names: numbers must go on rising.
    private func newestNumber() throws -> Int64 {
        let limit = CountedNumbers.range.upperBound - 1
        var numbers = [try Purge.horizon(db), try TrackedTable.newestGap(db) ?? 0]
        if try db.tableExists(TransactionTable.name) { try numbers.append(TransactionTable(db).newest(below: limit) ?? 0) }
        if try db.tableExists(SpanTable.name) { try numbers.append(SpanTable(db).newestTransaction(below: limit) ?? 0) }
        try numbers.append(ConsumerTable.newest(below: limit, db) ?? 0)
        try numbers.append(Meta(db).integer(.outboxed) ?? 0)
        return numbers.filter { $0 < limit }.max() ?? 0
    }

    /// History ends with a transaction without changes, and reaches no further back: so whoever had read up to now learns
    /// that rows may be others.
    private func begin(after newest: Int64) throws {
        var clock = try StoreClock.load(db)
        let time = clock.tick(now: environment.now())
        try StoreClock.save(clock, db)
        let info = TransactionInfo(id: environment.makeTransactionID(), time: time, origin: .external)
        try TransactionTable(db).insert(info, .external, process: environment.processName, lists: [], as: newest + 1)
        for table in try TrackedTable.fetchAll(db) where try db.tableExists(StoreSchema.changesTable(table.id)) {
            let last = try Int64.fetchOne(db, sql: "SELECT max(id) FROM main.\(StoreSchema.changesTable(table.id))")
            try Evictions.forget(db, table.id)
            guard let last else { continue }
            try SpanTable(db).replace(.init(table: table.id, ids: last...last), of: newest + 1)
        }
        try Purge.setHorizon(newest + 1, db)
        if try StoreSchema.isReplica(db) { try Meta(db).set(.outboxed, newest + 1) }
    }
}
