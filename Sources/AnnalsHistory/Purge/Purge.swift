import AnnalsCore
import AnnalsSchema
package import GRDB

/// Deletes the beginning of history in small steps, so that no writer waits long for the lock.
///
/// First the purge stores the horizon, the point up to which history is deleted. From then on older tokens have expired, and
/// nothing reads what is below the horizon. Then it deletes the rows in slices, each in its own transaction. The next purge
/// finishes an interrupted one.
///
/// Numbers must continue to rise (law 10: a token never has two meanings). So the row of the newest transaction stays. If all raw
/// changes of a table are deleted, the id of the newest one and its span stay.
package struct Purge {
    private let db: Database
    /// Returns microseconds that have passed since some start.
    private let microseconds: () -> Int64

    /// Microseconds for which a slice deletes before it releases the lock. Its commit takes additional time.
    static let sliceMicroseconds: Int64 = 10_000
    /// A step within a slice that takes longer than this is too large.
    private static let stepMicroseconds: Int64 = 2_000
    private static let rowsPerStep: ClosedRange<Int64> = 1...4_096

    package struct Slice {
        package var transactions: Int64 = 0
        package var changes: Int64 = 0
        /// Whether nothing is left to delete.
        package var isLast = false
    }

    package init(_ db: Database, microseconds: @escaping () -> Int64) {
        self.db = db
        self.microseconds = microseconds
    }

    /// The point up to which history was purged; zero if it never was.
    package static func horizon(_ db: Database) throws -> Int64 {
        try StoreSchema.integer(.purged, db) ?? 0
    }

    /// Whether rows below the horizon may remain, for example after an interrupted purge. Raw changes are deleted first, and
    /// transactions last.
    package static func isUnfinished(_ db: Database) throws -> Bool {
        try TransactionTable(db).oldest().map { try $0 <= horizon(db) } ?? false
    }

    package static func setHorizon(_ number: Int64, _ db: Database) throws {
        guard try number > horizon(db) else { return }
        // The transaction is about to be deleted, and its time is the first moment from now on.
        if let moment = try HistoryBounds.moment(of: number, db) { try HistoryBounds.note(began: moment, db) }
        try StoreSchema.set(.purged, to: number, db)
    }

    /// Deletes for about ten milliseconds what is below the horizon. Call it inside a write transaction.
    ///
    /// - Parameter step: the number of rows to delete at a time; the slice adapts it to the time that deleting takes.
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

    /// Returns whether all purged raw changes of the table are deleted.
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

    /// Sets everything in a raw change to NULL except its id. Returns the number of changes that were emptied.
    private func empty(_ id: Int64, of table: TrackedTable, in name: String) throws -> Int64 {
        guard try Bool.fetchOne(db, sql: "SELECT op IS NOT NULL FROM \(name) WHERE id = ?", arguments: [id]) ?? false else { return 0 }
        let columns = StoreSchema.changesColumns(table.columns.count, byRowid: table.key.isByRowid).dropFirst()
        try db.execute(sql: "UPDATE \(name) SET \(columns.map { "\($0) = NULL" }.joined(separator: ", ")) WHERE id = ?", arguments: [id])
        return 1
    }

    /// Deletes all spans up to the horizon except the table's newest, which says up to where its raw changes are recorded.
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

    /// Does a step and adapts the size of the next one to its time.
    private func timed(_ step: inout Int64, _ work: () throws -> Int64) throws -> Int64 {
        let start = microseconds()
        let count = try work()
        let size = microseconds() - start > Self.stepMicroseconds ? step / 2 : step * 2
        step = min(max(size, Self.rowsPerStep.lowerBound), Self.rowsPerStep.upperBound)
        return count
    }
}
