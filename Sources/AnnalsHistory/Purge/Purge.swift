import AnnalsCore
import AnnalsSchema
package import GRDB

/// Drops the beginning of history, a little at a time, so that nobody waits long for the write lock.
///
/// First the point up to which history goes is written down: from then on older tokens have expired, and what is below it
/// is seen by no one. Then the rows go, in slices of a transaction each. A purge that was interrupted is finished by the
/// next one.
///
/// Numbers must go on rising (law 10: a token never means two things). So the newest transaction stays as a row, and of a
/// table whose raw changes all go, the newest one stays with its id alone, and its span with it.
package struct Purge {
    private let db: Database
    /// Tells microseconds that pass, from any beginning.
    private let microseconds: () -> Int64

    /// Microseconds for which a slice deletes before it gives the lock back. What follows, committing it, comes on top.
    static let sliceMicroseconds: Int64 = 10_000
    /// A step within a slice that takes longer than this is too large.
    private static let stepMicroseconds: Int64 = 2_000
    private static let rowsPerStep: ClosedRange<Int64> = 1...4_096

    package struct Slice {
        package var transactions: Int64 = 0
        package var changes: Int64 = 0
        /// Whether nothing is left to drop.
        package var isLast = false
    }

    package init(_ db: Database, microseconds: @escaping () -> Int64) {
        self.db = db
        self.microseconds = microseconds
    }

    /// The point up to which history was purged; zero when it never was.
    package static func horizon(_ db: Database) throws -> Int64 {
        try StoreSchema.integer(.purged, db) ?? 0
    }

    /// Whether something below the horizon may be left, such as by a purge that was interrupted: raw changes go first, and
    /// transactions last.
    package static func isUnfinished(_ db: Database) throws -> Bool {
        try TransactionTable(db).oldest().map { try $0 <= horizon(db) } ?? false
    }

    package static func setHorizon(_ number: Int64, _ db: Database) throws {
        guard try number > horizon(db) else { return }
        try StoreSchema.set(.purged, to: number, db)
    }

    /// Deletes for about ten milliseconds what lies below the horizon. Call it inside a write transaction.
    ///
    /// - Parameter step: how many rows are deleted at a time; it is fitted to how long they take.
    package func slice(_ step: inout Int64) throws -> Slice {
        let horizon = try Self.horizon(db)
        let end = microseconds() + Self.sliceMicroseconds
        var slice = Slice()
        for table in try TrackedTable.fetchAll(db) {
            guard try drop(table, horizon, &step, &slice, end) else { return slice }
        }
        guard try dropTransactions(horizon, &step, &slice, end) else { return slice }
        slice.isLast = true
        return slice
    }

    // MARK: Raw changes

    /// Whether all of the table's are dropped.
    private func drop(_ table: TrackedTable, _ horizon: Int64, _ step: inout Int64, _ slice: inout Slice, _ end: Int64) throws -> Bool {
        guard let last = try SpanTable(db).end(of: table.id, upTo: horizon) else { return true }
        let name = "main.\(StoreSchema.changesTable(table.id))"
        let newest = try Int64.fetchOne(db.cachedStatement(sql: "SELECT max(id) FROM \(name)")) ?? 0
        while let first = try Int64.fetchOne(db.cachedStatement(sql: "SELECT min(id) FROM \(name)")), first <= last, first < newest {
            let bound = min(last, newest - 1, first + step - 1)
            slice.changes += try timed(&step) {
                try db.cachedStatement(sql: "DELETE FROM \(name) WHERE id <= ?").execute(arguments: [bound])
                return Int64(db.changesCount)
            }
            guard microseconds() < end else { return false }
        }
        if newest <= last { slice.changes += try empty(newest, of: table, in: name) }
        return try dropSpans(table.id, horizon, &step, end)
    }

    /// Leaves nothing of a raw change but its id. Returns how many went this way.
    private func empty(_ id: Int64, of table: TrackedTable, in name: String) throws -> Int64 {
        guard try Bool.fetchOne(db, sql: "SELECT op IS NOT NULL FROM \(name) WHERE id = ?", arguments: [id]) ?? false else { return 0 }
        let columns = StoreSchema.changesColumns(table.columns.count, byRowid: table.key.isByRowid).dropFirst()
        try db.execute(sql: "UPDATE \(name) SET \(columns.map { "\($0) = NULL" }.joined(separator: ", ")) WHERE id = ?", arguments: [id])
        return 1
    }

    /// Drops all spans up to the horizon but the table's newest, which says up to where its raw changes are recorded.
    private func dropSpans(_ table: Int64, _ horizon: Int64, _ step: inout Int64, _ end: Int64) throws -> Bool {
        let spans = SpanTable(db)
        let newest = try spans.newestTransaction(of: table)
        let limit = min(horizon, (newest ?? 0) - 1)
        while let first = try spans.oldestTransaction(of: table), first <= limit {
            let bound = try spans.transaction(of: table, behind: step - 1, upTo: limit) ?? limit
            _ = try timed(&step) {
                try spans.delete(of: table, upTo: bound)
                return 0
            }
            guard microseconds() < end else { return false }
        }
        if let newest, newest <= horizon { try spans.shorten(of: table, in: newest) }
        return true
    }

    // MARK: Transactions

    private func dropTransactions(_ horizon: Int64, _ step: inout Int64, _ slice: inout Slice, _ end: Int64) throws -> Bool {
        try RenumberedRows.purge(db, through: horizon)
        let transactions = TransactionTable(db)
        let limit = min(horizon, (try transactions.newest() ?? 0) - 1)
        while let first = try transactions.oldest(), first <= limit {
            let bound = min(limit, first + step - 1)
            slice.transactions += try timed(&step) { try transactions.delete(through: bound) }
            guard microseconds() < end else { return false }
        }
        return true
    }

    /// Does a step and fits the next one's size to how long it took.
    private func timed(_ step: inout Int64, _ work: () throws -> Int64) throws -> Int64 {
        let start = microseconds()
        let count = try work()
        let size = microseconds() - start > Self.stepMicroseconds ? step / 2 : step * 2
        step = min(max(size, Self.rowsPerStep.lowerBound), Self.rowsPerStep.upperBound)
        return count
    }
}
