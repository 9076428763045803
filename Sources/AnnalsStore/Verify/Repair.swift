import AnnalsCore
import AnnalsHistory
import AnnalsReplica
public import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import Foundation
import GRDB

/// One step of a repair.
public enum RepairStep: Hashable, Sendable {
    /// Rebuilds SQLite's indexes from the rows.
    case rebuildIndexes
    /// Creates missing tables of history again, empty.
    case recreateTables([String])
    /// Removes triggers without the tables of Annals, which make every write to these tables fail.
    case removeTriggers(tables: [String])
    /// Restores the capture triggers.
    case restoreTriggers(tables: [String])
    /// History is not reliable. Older tokens expire, and consumers start again from the rows.
    case beginHistoryAnew
    /// The push under way cannot be read. Its transactions are sent again, and their ids identify those that the relay had
    /// accepted.
    case beginPushAnew
    /// Determines the highest used keys from the rows again.
    case recountKeys
    /// Makes the next sync compare the rows with the space's rows before any exchange.
    case compareWithSpace

    /// What the step does, in words.
    public var message: String {
        switch self {
        case .rebuildIndexes: "rebuild the file's indexes from its rows"
        case .recreateTables(let names): "create \(names.joined(separator: ", ")) again, empty"
        case .removeTriggers(let tables):
            "remove Annals' triggers from \(tables.joined(separator: ", ")): history is lost, and tracking them again starts a new one"
        case .restoreTriggers(let tables): "restore the capture triggers of \(tables.joined(separator: ", "))"
        case .beginHistoryAnew: "start history again with the current rows: older tokens expire, and consumers start over"
        case .beginPushAnew: "rebuild the push under way"
        case .recountKeys: "read the used integer keys from the rows again"
        case .compareWithSpace: "make the next sync compare the rows with the space before anything else"
        }
    }
}

/// What was wrong, what was done about it, and what is still wrong.
public struct RepairReport: Sendable {
    public var findings: [Finding]
    /// In the order of execution.
    public var steps: [RepairStep]
    /// nil if nothing was done.
    public var remaining: [Finding]?

    package init(findings: [Finding], steps: [RepairStep], remaining: [Finding]? = nil) {
        self.findings = findings
        self.steps = steps
        self.remaining = remaining
    }
}

/// Rebuilds what can be rebuilt in a store: indexes, triggers, tables of history, counters. No row of the user is changed.
///
/// The rows are the user's data, and history only describes them. So if the two disagree, the rows stay, and history starts again.
/// The next sync of a joined store then compares its rows with the log (`UnverifiedRows`), which finds writes without capture.
struct Repair {
    let db: Database
    let environment: CaptureEnvironment
    /// The keys that the program set, if the store's space is encrypted.
    var spaceKeys: SpaceKeyRing?

    /// The steps for these findings.
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

    /// Performs the steps in one SQLite transaction.
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
            try OwnTableChecks(db: db).dropUnreadable(in: OwnTables.highest)
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
        let tracked = try TrackedTable.fetchTracked(db)
        let own = [OwnTables.transactions, OwnTables.spans] + tracked.map { StoreSchema.changesTable($0.id) }
        let notes = try Set(tracked.map { NotesTable(columns: $0.columns.count) }).filter { try !$0.isWhole(db) }
        return try own.filter { try !db.tableExists($0) } + notes.map(\.name).sorted()
    }

    private func recreateTables() throws {
        let newest = try newestNumber()
        try OwnObjects.createCommonTables(db)
        for table in try TrackedTable.fetchTracked(db) {
            if try !db.tableExists(StoreSchema.changesTable(table.id)) {
                try StoreSchema.createChangesTable(db, id: table.id, columns: table.columns.count, byRowid: table.key.isByRowid)
                try SpanTable(db).delete(of: table.id)
            }
            try NotesTable(columns: table.columns.count).install(db)
        }
        try begin(after: newest)
        try StoreSchema.noteSchemaVersion(db)
    }

    /// The same as after a schema change of another program: older tokens expire, and a joined store's rows are unverified.
    private func restoreTriggers() throws {
        try StoreSchema.set(.schemaVersion, to: nil, db)
        try TransactionRecorder.recordExternal(db, environment)
    }

    private func beginAnew() throws {
        if try StoreSchema.isReplica(db) { try keepUnsentWork() }
        // Includes unreadable rows, because a consumer may hold a token of them.
        let newest = try newestNumber()
        try OwnTableChecks(db: db).dropUnreadable(in: OwnTables.transactions, OwnTables.spans)
        try begin(after: newest)
    }

    /// Moves what is readable in history to the outbox. The comparison of rows with the log finds the rest.
    private func keepUnsentWork() throws {
        do {
            try db.inSavepoint {
                try TransactionRecorder.recordExternal(db, environment)
                let state = try ReplicaState.load(db)
                let filler = OutboxFiller(
                    db: db, tables: try TrackedTables.load(db), limits: OutboxLimits(),
                    footprintKey: { try state?.cipher(spaceKeys, operation: "verify")?.footprintKey ?? .none }, replicaName: { state?.name }
                )
                try filler.fill()
                return .commit
            }
        } catch  where StoreError.isCorruption(error) {
            return
        } catch let error as AnnalsError where error.code != .missingKey {
            return
        }
    }

    /// The highest number that any remaining table of history has, because numbers must continue to rise.
    private func newestNumber() throws -> Int64 {
        let limit = CountedNumbers.range.upperBound - 1
        var numbers = [try Purge.horizon(db), try TrackedTable.newestGap(db) ?? 0]
        if try db.tableExists(OwnTables.transactions) { try numbers.append(TransactionTable(db).newest(below: limit) ?? 0) }
        if try db.tableExists(OwnTables.spans) { try numbers.append(SpanTable(db).newestTransaction(below: limit) ?? 0) }
        try numbers.append(ConsumerTable.newest(below: limit, db) ?? 0)
        try numbers.append(Meta(db).integer(.outboxed) ?? 0)
        return numbers.filter { $0 < limit }.max() ?? 0
    }

    /// Ends history with a transaction without changes, and sets the horizon there. So a consumer that had read everything learns
    /// that rows may differ.
    private func begin(after newest: Int64) throws {
        var clock = try StoreClock.load(db)
        let time = clock.tick(now: environment.now())
        try StoreClock.save(clock, db)
        let info = TransactionInfo(id: environment.makeTransactionID(), time: time, origin: .external)
        try TransactionTable(db).insert(info, .external, process: environment.processName, lists: [], as: newest + 1)
        for table in try TrackedTable.fetchAll(db) where try db.tableExists(StoreSchema.changesTable(table.id)) {
            let last = try Int64.fetchOne(db, sql: "SELECT max(id) FROM main.\(StoreSchema.changesTable(table.id))")
            try NotesTable(columns: table.columns.count).forget(table.id, db)
            guard let last else { continue }
            try SpanTable(db).replace(.init(table: table.id, ids: last...last), of: newest + 1)
        }
        try Purge.setHorizon(newest + 1, db)
        if try StoreSchema.isReplica(db) { try Meta(db).set(.outboxed, newest + 1) }
    }
}
