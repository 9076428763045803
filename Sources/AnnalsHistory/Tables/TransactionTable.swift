package import AnnalsCore
import AnnalsSQLite
import Foundation
package import GRDB

/// The table of transactions, `annals_transactions`: author, time and origin. `number` is the local order and has no gaps.
///
/// Only this file contains SQL on the table.
package struct TransactionTable {
    static let schema = """
        CREATE TABLE IF NOT EXISTS main.annals_transactions(
          number INTEGER PRIMARY KEY, id BLOB NOT NULL, time INTEGER NOT NULL, time_counter INTEGER NOT NULL,
          author TEXT, context TEXT, process TEXT, origin INTEGER NOT NULL, replica BLOB, position INTEGER,
          tables TEXT NOT NULL);
        """

    private let db: Database

    package init(_ db: Database) {
        self.db = db
    }

    // MARK: Numbers

    /// The highest number; nil if there is no transaction.
    package func newest() throws -> Int64? { try number("SELECT max(number) FROM main.annals_transactions") }

    package func oldest() throws -> Int64? { try number("SELECT min(number) FROM main.annals_transactions") }

    package func newest(below limit: Int64) throws -> Int64? {
        try number("SELECT max(number) FROM main.annals_transactions WHERE number < ?", [limit])
    }

    /// The newest transaction that was committed in this store at or before a time, in milliseconds since 1970. Imported transactions
    /// do not count, because they have their authors' times.
    func newest(committedBy moment: Int64) throws -> Int64? {
        try number(
            "SELECT max(number) FROM main.annals_transactions WHERE origin <> ? AND time <= ?",
            [TransactionOrigin.imported.rawValue, moment])
    }

    /// The time of the oldest transaction after a number that was committed in this store, in milliseconds since 1970.
    func firstMoment(after number: Int64) throws -> Int64? {
        try self.number(
            "SELECT time FROM main.annals_transactions WHERE number > ? AND origin <> ? ORDER BY number LIMIT 1",
            [number, TransactionOrigin.imported.rawValue])
    }

    /// The number of transactions after a number. Numbers have no gaps.
    func count(after number: Int64) throws -> Int64 {
        try self.number("SELECT max(number) - min(number) + 1 FROM main.annals_transactions WHERE number > ?", [number]) ?? 0
    }

    /// How many numbers are missing between the first transaction from `number` on and the newest.
    package func gaps(from number: Int64) throws -> Int64 {
        try self.number(
            "SELECT ifnull(max(number) - min(number) + 1, 0) - count(*) FROM main.annals_transactions WHERE number >= ?", [number]) ?? 0
    }

    package func has(_ origin: TransactionOrigin, after number: Int64) throws -> Bool {
        try self.number(
            "SELECT EXISTS (SELECT 1 FROM main.annals_transactions WHERE number > ? AND origin = ?)", [number, origin.rawValue]) == 1
    }

    package func numbers(of origin: TransactionOrigin, after number: Int64) throws -> [Int64] {
        try Int64.fetchAll(
            db, sql: "SELECT number FROM main.annals_transactions WHERE number > ? AND origin = ? ORDER BY number",
            arguments: [number, origin.rawValue])
    }

    package func isImported(_ number: Int64) throws -> Bool {
        try self.number("SELECT origin FROM main.annals_transactions WHERE number = ?", [number])
            == Int64(TransactionOrigin.imported.rawValue)
    }

    private func number(_ sql: String, _ arguments: StatementArguments = []) throws -> Int64? {
        try Int64.fetchOne(db.cachedStatement(sql: sql), arguments: arguments)
    }

    // MARK: Own transactions

    private static let isOwn = "origin IN (\(TransactionOrigin.own.map { String($0.rawValue) }.joined(separator: ", ")))"

    package func countOwn(after number: Int64) throws -> Int {
        try Int(self.number("SELECT count(*) FROM main.annals_transactions WHERE number > ? AND \(Self.isOwn)", [number]) ?? 0)
    }

    package func oldestOwn(after number: Int64) throws -> Int64? {
        try self.number("SELECT min(number) FROM main.annals_transactions WHERE number > ? AND \(Self.isOwn)", [number])
    }

    /// The newest own transaction with this id.
    package func newestOwn(_ id: DatabaseValue, after number: Int64) throws -> Int64? {
        try self.number(
            """
            SELECT number FROM main.annals_transactions
            WHERE number > ? AND id = ? AND \(Self.isOwn) ORDER BY number DESC LIMIT 1
            """, [number, id])
    }

    // MARK: Rows

    private static let select = """
        SELECT number, id, time, time_counter, author, context, process, origin, replica, position, tables FROM main.annals_transactions
        """

    package func row(_ number: Int64) throws -> GRDB.Row? {
        try GRDB.Row.fetchOne(db, sql: "\(Self.select) WHERE number = ?", arguments: [number])
    }

    /// Oldest first.
    package func rows(after number: Int64) throws -> RowCursor {
        try GRDB.Row.fetchCursor(db, sql: "\(Self.select) WHERE number > ? ORDER BY number", arguments: [number])
    }

    package func rowsFromNewest(after number: Int64) throws -> RowCursor {
        try GRDB.Row.fetchCursor(db, sql: "\(Self.select) WHERE number > ? ORDER BY number DESC", arguments: [number])
    }

    /// At most `limit` transactions that satisfy a condition in SQL, oldest first.
    func rows(where condition: String, _ arguments: StatementArguments, limit: Int) throws -> [GRDB.Row] {
        try GRDB.Row.fetchAll(db, sql: "\(Self.select) WHERE \(condition) ORDER BY number LIMIT \(limit)", arguments: arguments)
    }

    /// A condition for `rows(where:_:limit:)`: the transaction changed a table of one of these column lists.
    static func changed(_ lists: [Int64]) -> String {
        SpanTable.existsSQL(lists: lists, number: "annals_transactions.number")
    }

    /// `number` and `tables` of the transactions with an origin, newest first, among the newest `limit` after a number.
    func newest(_ origin: TransactionOrigin, after number: Int64, among limit: Int64) throws -> [GRDB.Row] {
        try GRDB.Row.fetchAll(
            db,
            sql: """
                SELECT number, tables FROM
                  (SELECT number, origin, tables FROM main.annals_transactions WHERE number > ? ORDER BY number DESC LIMIT ?)
                WHERE origin = ? ORDER BY number DESC
                """, arguments: [number, limit, origin.rawValue])
    }

    /// `time`, `time_counter` and `origin` of the newest transaction.
    package func newestTime() throws -> GRDB.Row? {
        try GRDB.Row.fetchOne(
            db.cachedStatement(sql: "SELECT time, time_counter, origin FROM main.annals_transactions ORDER BY number DESC LIMIT 1"))
    }

    /// The column lists of the tables that a transaction changed.
    func lists(of number: Int64) throws -> [Int64] {
        let statement = try db.cachedStatement(sql: "SELECT tables FROM main.annals_transactions WHERE number = ?")
        return try Self.lists(String.fetchOne(statement, arguments: [number]) ?? "")
    }

    /// The column lists of the tables that changed after a transaction, sorted by id.
    func lists(after number: Int64) throws -> [Int64] {
        let lists = try String.fetchAll(
            db, sql: "SELECT DISTINCT tables FROM main.annals_transactions WHERE number > ?", arguments: [number])
        return Set(lists.flatMap(Self.lists)).sorted()
    }

    /// The ids in a value of `tables`.
    package static func lists(_ tables: String) -> [Int64] { tables.split(separator: " ").compactMap { Int64($0) } }

    /// `position` and `author` of imported transactions with one of these positions.
    ///
    /// The table has no index on them, so this reads all of it.
    package func authors(positions: Set<Int64>) throws -> RowCursor {
        let list = positions.sorted().map(String.init).joined(separator: ", ")
        return try GRDB.Row.fetchCursor(
            db, sql: "SELECT position, author FROM main.annals_transactions WHERE position IN (\(list)) AND replica IS NOT NULL")
    }

    /// Visits the own transactions of which writes have these times, with the authors.
    ///
    /// A write has its own time, which is between the time of its transaction and that of the own transaction before. So the
    /// transaction of a write is the first one that is not earlier.
    ///
    /// - Parameter times: in ascending order.
    package func forEachOwn(writtenAt times: [HybridTime], _ visit: (HybridTime, _ number: Int64, _ author: String?) throws -> Void) throws
    {
        var rest = times[...]
        guard let first = rest.first else { return }
        let rows = try GRDB.Row.fetchCursor(
            db,
            sql: """
                SELECT number, time, time_counter, author FROM main.annals_transactions
                WHERE time >= ? AND \(Self.isOwn) ORDER BY number
                """, arguments: [first.milliseconds])
        while let wanted = rest.first, let row = try rows.next() {
            let time = try HybridTime(milliseconds: row.value("time"), counter: row.value("time_counter"))
            guard time >= wanted else { continue }
            while let written = rest.first, written <= time {
                try visit(written, row.number("number"), row.value("author"))
                rest.removeFirst()
            }
        }
    }

    /// The time of the newest transaction before another one that was committed in this store, in milliseconds since 1970.
    package func lastMoment(before number: Int64) throws -> Int64? {
        try self.number(
            "SELECT time FROM main.annals_transactions WHERE number < ? AND origin <> ? ORDER BY number DESC LIMIT 1",
            [number, TransactionOrigin.imported.rawValue])
    }

    // MARK: Writing

    /// - Parameter number: The number of the transaction; nil for the number after the newest.
    /// - Returns: The number of the transaction.
    @discardableResult
    package func insert(
        _ info: TransactionInfo, _ origin: TransactionOrigin, process: String?, replica: ReplicaID? = nil, position: Position? = nil,
        lists: [Int64], as number: Int64? = nil
    ) throws -> Int64 {
        try db.cachedStatement(
            sql: """
                INSERT INTO main.annals_transactions(
                  number, id, time, time_counter, author, context, process, origin, replica, position, tables)
                VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """
        )
        .execute(
            arguments: [
                number, Data(info.id.bytes), info.time.milliseconds, Int64(info.time.counter), info.author, info.contextName, process,
                origin.rawValue, replica.map { Data($0.bytes) }, position?.rawValue, lists.map(String.init).joined(separator: " "),
            ])
        return db.lastInsertedRowID
    }

    /// Returns the number of deleted transactions.
    func delete(through number: Int64) throws -> Int64 {
        try db.cachedStatement(sql: "DELETE FROM main.annals_transactions WHERE number <= ?").execute(arguments: [number])
        let count = Int64(db.changesCount)
        try SerializableTable(db).delete(through: number)
        return count
    }

    /// Removes the positions after `position`, because the log no longer has them.
    package func forgetPositions(after position: Position) throws {
        try db.execute(
            sql: "UPDATE main.annals_transactions SET position = NULL WHERE position > ?", arguments: [position.rawValue])
    }
}
