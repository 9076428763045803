package import AnnalsCore
import AnnalsSchema
import Foundation
package import GRDB

/// Groups raw changes into transactions of history.
///
/// Triggers write rows and do not record who wrote them. SQLite has one writer at a time. So a managed write first records
/// everything after each table's newest span as external, runs, and then records its own spans, all before COMMIT. All commits of
/// other programs between two recordings become one transaction of origin external, except for programs that give their name; see
/// `NamedWriters`.
///
///     try queue.write { db in
///         let (_, number) = try TransactionRecorder.managedWrite(db, author: "kiosk 3") { db in
///             try db.execute(sql: "UPDATE player SET score = score + 1")
///         }
///     }
package enum TransactionRecorder {
    /// A range of one table's raw changes that belongs to one transaction.
    package struct Span: Hashable, Sendable {
        package var table: Int64
        package var ids: ClosedRange<Int64>

        package init(table: Int64, ids: ClosedRange<Int64>) {
            self.table = table
            self.ids = ids
        }
    }

    /// Records what other programs wrote. First checks for schema changes.
    ///
    /// Call it inside a write transaction. Returns the number of the newest new transaction; nil if there was nothing to record.
    ///
    /// - Parameter contextName: the context of writes without one.
    @discardableResult
    package static func recordExternal(
        _ db: Database, _ environment: CaptureEnvironment = .system, contextName: String? = nil
    ) throws -> Int64? {
        try recordExternalReportingDrift(db, environment, contextName: contextName).number
    }

    /// - Parameter origin: the origin of the writes, if the caller knows it: a migration that ran since the last recording.
    package static func recordExternalReportingDrift(
        _ db: Database, _ environment: CaptureEnvironment, as origin: TransactionInfo.Origin = .external, contextName: String? = nil
    ) throws -> (number: Int64?, drift: Drift.Report) {
        precondition(db.isInsideTransaction, "recording needs a write transaction")
        guard try StoreSchema.exists(db) else { return (nil, Drift.Report()) }
        return try close(db, environment, divides: origin == .external) { part in
            var clock = try StoreClock.load(db)
            let latest = try part.spans.compactMap { try time(of: $0, db) }.max() ?? environment.now()
            return TransactionInfo(
                id: environment.makeTransactionID(), time: clock.tick(now: latest), author: part.author,
                contextName: part.context ?? contextName, origin: origin)
        }
    }

    /// Runs a write of this process and records it as one transaction, in the same SQLite transaction as its rows.
    ///
    /// Call it inside a write transaction, and roll back that transaction if this throws. The number is nil if the write changed no
    /// row and, in a migration, nothing of the schema. In a store without history it only runs the closure.
    package static func managedWrite<T>(
        _ db: Database, author: String? = nil, contextName: String? = nil, origin: TransactionInfo.Origin = .local,
        _ environment: CaptureEnvironment = .system, _ updates: (Database) throws -> T
    ) throws -> (value: T, number: Int64?) {
        precondition(db.isInsideTransaction, "a managed write needs a write transaction")
        guard try StoreSchema.exists(db) else { return (try updates(db), nil) }
        try recordExternal(db, environment)
        let version = try origin == .migration ? StoreSchema.schemaVersion(db) : nil
        let value = try updates(db)
        let isRecorded = try origin == .migration && StoreSchema.schemaVersion(db) != version
        let (number, _) = try close(db, environment, always: isRecorded) { _ in
            var clock = try StoreClock.load(db)
            return TransactionInfo(
                id: environment.makeTransactionID(), time: clock.tick(now: environment.now()), author: author,
                contextName: contextName, origin: origin)
        }
        return (value, number)
    }

    /// Records that raw changes belong to one transaction of history.
    ///
    /// Spans must begin after the recorded raw changes. `replica` and `position` are those of an imported transaction. Returns the
    /// transaction's number.
    package static func record(
        _ db: Database, spans: [Span], info: TransactionInfo, origin: TransactionOrigin? = nil, process: String?,
        replica: ReplicaID? = nil, position: Position? = nil
    ) throws -> Int64 {
        let number = try TransactionTable(db).insert(
            info, origin ?? TransactionOrigin(info.origin), process: process, replica: replica, position: position,
            lists: spans.map(\.table).sorted())
        for span in spans { try SpanTable(db).insert(span, of: number) }
        return number
    }

    /// The raw changes after each table's newest span, with changes added that the triggers missed. If the caller recorded before its
    /// own writes, these are its own.
    ///
    /// Deletes the notes. `disordered` is from the report of `Drift`. If the changes are divided among writers, `missed` gets the
    /// places of the added changes by column list.
    private static func openSpans(
        _ db: Database, disordered: [Int64], areDivided: Bool, _ missed: inout [Int64: MissedChanges]
    ) throws -> [Span] {
        var spans: [Span] = []
        for open in try UnrecordedRange.fetchAll(db) {
            let order: RawChangeOrder = disordered.contains(open.id) ? .unknown : .asHappened
            var last = open.newest
            var added = MissedChanges(areDivided: areDivided)
            if open.hasNotes { last = try concludeEvictions(db, open, order, &added) }
            if order == .unknown { last = try putInOrder(db, open.id, recorded: open.recorded, newest: last) }
            if open.isWrittenByTriggers, let rows = try TriggerRewriteCheck(db, open.id) {
                last = try rows.follow(recorded: open.recorded, newest: last, &added)
            }
            if last > open.recorded { spans.append(Span(table: open.id, ids: (open.recorded + 1)...last)) }
            missed[open.id] = added
        }
        return spans
    }

    private static func concludeEvictions(
        _ db: Database, _ open: UnrecordedRange, _ order: RawChangeOrder, _ missed: inout MissedChanges
    ) throws -> Int64 {
        guard let table = try TrackedTable.fetch(db, id: open.id), table.state == .tracked else {
            try open.notes.forget(open.id, db)
            return open.newest
        }
        return try Evictions(db, table: table, open: open).conclude(order, &missed)
    }

    /// Replaces unrecorded raw changes in unknown order with their net changes. Returns the id of the newest one.
    private static func putInOrder(_ db: Database, _ id: Int64, recorded: Int64, newest: Int64) throws -> Int64 {
        guard newest - recorded > 1, newest - recorded <= HistoryLimits.changesPutInOrder, let table = try TrackedTable.fetch(db, id: id)
        else {
            return newest
        }
        let day = try Double.fetchOne(db, sql: "SELECT at FROM main.\(StoreSchema.changesTable(id)) WHERE id = ?", arguments: [newest])
        var folder = NetChangeFolder(table.identityRule, order: .unknown)
        try RawChangeReader(cachedIn: db, table).read((recorded + 1)...newest) { folder.add($0) }
        try discard([Span(table: id, ids: (recorded + 1)...newest)], db)
        let writer = try RawChangeWriter(db, table)
        var last = recorded
        for change in folder.finish() {
            last += 1
            try writer.write(
                RawChange(
                    id: last, old: change.old, new: change.new, leftOut: change.leftOut, oldRowid: change.oldRowid,
                    newRowid: change.newRowid),
                at: day)
        }
        return last
    }

    /// Repairs the triggers if the schema changed, and records unrecorded changes; the number is nil if there are none.
    ///
    /// - Parameters:
    ///   - always: records a transaction even if there are no changes.
    ///   - divides: makes a transaction of the work of each writer that gave its name. After a change of the schema there is only one
    ///     transaction, because marks may be missing.
    private static func close(
        _ db: Database, _ environment: CaptureEnvironment, always: Bool = false, divides: Bool = false,
        _ makeInfo: (NamedWriters.Part) throws -> TransactionInfo
    ) throws -> (number: Int64?, drift: Drift.Report) {
        let drift = try Drift.repairIfNeeded(db)
        let writers = try NamedWriters(db)
        var missed: [Int64: MissedChanges] = [:]
        let spans = try openSpans(db, disordered: drift.disordered, areDivided: writers != nil, &missed)
        var parts = try divides && drift == Drift.Report() ? writers?.parts(spans, missed) ?? [] : []
        if parts.isEmpty {
            // Otherwise it looks as if nobody had given a name.
            let isJoined = divides && writers != nil && drift != Drift.Report()
            parts = [
                NamedWriters.Part(context: isJoined ? "no authors: the schema changed between two recordings" : nil, spans: spans)
            ]
        }
        try writers?.forget()
        if parts.count > 1 { parts = try TriggerRewriteCheck.joined(parts, db) }
        if parts.count > 1, try StoreSchema.isReplica(db) { parts = try CutReferences(db).joined(parts) }
        if parts.count == 1, drift.expired.isEmpty, try changedNothing(parts[0].spans, db) {
            try discard(parts[0].spans, db)
            parts[0].spans = []
        }
        guard parts.contains(where: { !$0.spans.isEmpty }) || !drift.expired.isEmpty || always else { return (nil, drift) }
        var newest: Int64?
        for part in parts {
            let info = try makeInfo(part)
            let number = try record(db, spans: part.spans, info: info, process: environment.processName)
            newest = number
            // A gap needs its own transaction. Otherwise no token would follow it.
            try Drift.expire(drift.expired, before: number, db)
            if !drift.gaps.isEmpty { try UnverifiedRows.note(db) }
            try environment.didRecord(db, info, number)
        }
        for span in spans { try TextLengths.look(db, span.table, span.ids) }
        return (newest, drift)
    }

    /// Whether the raw changes cancel each other out. Checked only if this is cheap.
    private static func changedNothing(_ spans: [Span], _ db: Database) throws -> Bool {
        let count = spans.reduce(0) { $0 + $1.ids.count }
        // A single raw change is always a net change.
        guard count > 1, count <= HistoryLimits.changesFoldedAtCommit, !spans.contains(where: { $0.ids.count == 1 }) else { return false }
        for span in spans {
            guard let table = try TrackedTable.fetch(db, id: span.table) else { return false }
            var folder = NetChangeFolder(table.identityRule)
            try RawChangeReader(cachedIn: db, table).read(span.ids) { folder.add($0) }
            guard folder.finish().isEmpty else { return false }
        }
        return true
    }

    private static func discard(_ spans: [Span], _ db: Database) throws {
        for span in spans {
            try db.execute(
                sql: "DELETE FROM main.\(StoreSchema.changesTable(span.table)) WHERE id >= ?", arguments: [span.ids.lowerBound])
        }
    }

    /// The time of a span's last change, in milliseconds since 1970.
    private static func time(of span: Span, _ db: Database) throws -> Int64? {
        // The changes that the recorder added may have no time, or an earlier one.
        let sql = """
            SELECT at FROM main.\(StoreSchema.changesTable(span.table)) WHERE id BETWEEN ? AND ? AND at IS NOT NULL
              AND NOT (\(RawChangeReader.isPlaced))
            ORDER BY id DESC LIMIT 1
            """
        return try Double.fetchOne(db.cachedStatement(sql: sql), arguments: [span.ids.lowerBound, span.ids.upperBound])
            .map(JulianDay.milliseconds)
    }
}

extension TransactionOrigin {
    package init(_ origin: TransactionInfo.Origin) {
        self =
            switch origin {
            case .local: .local
            case .external: .external
            case .migration: .migration
            case .undo: .undo
            }
    }

    /// The origin of an own transaction in the log; nil for one that is not own.
    package var inLog: TransactionInfo.Origin? {
        switch self {
        case .local: .local
        case .external: .external
        case .migration: .migration
        case .undo: .undo
        case .imported, .rebase: nil
        }
    }
}

/// Julian day numbers, as SQLite uses them.
enum JulianDay {
    /// Milliseconds since 1970-01-01 UTC.
    package static func milliseconds(_ day: Double) -> Int64 {
        Int64(exactly: ((day - 2_440_587.5) * 86_400_000).rounded()) ?? 0
    }

    static func day(_ milliseconds: Int64) -> Double { 2_440_587.5 + Double(milliseconds) / 86_400_000 }

    /// The day at which a millisecond since 1970 ends, if times are rounded to milliseconds.
    static func end(ofMillisecond milliseconds: Int64) -> Double { 2_440_587.5 + (Double(milliseconds) + 0.5) / 86_400_000 }

    /// The first day after the year 9999, where SQLite's dates end.
    private static let end = 5_373_484.5

    static func isDate(_ day: Double) -> Bool { day >= 0 && day < end }

    /// The moment of a stored day, in whole milliseconds; nil for NULL, and for what is no day of SQLite's.
    static func date(_ value: Value) -> Date? {
        guard case .real(let day) = value, isDate(day) else { return nil }
        return Date(timeIntervalSince1970: Double(milliseconds(day)) / 1_000)
    }
}
