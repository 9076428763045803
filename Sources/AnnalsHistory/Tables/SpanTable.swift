import AnnalsSchema
package import AnnalsSQLite
package import GRDB

/// The table of spans, `annals_spans`: which raw changes of which column list belong to which transaction.
///
/// Only this file contains SQL on the table.
package struct SpanTable {
    static let schema = """
        CREATE TABLE IF NOT EXISTS main.annals_spans(
          table_id INTEGER NOT NULL, number INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
          PRIMARY KEY(table_id, number)) WITHOUT ROWID;
        """

    private let db: Database

    package init(_ db: Database) {
        self.db = db
    }

    // MARK: One column list

    /// A subquery for the last raw change of a column list that belongs to a transaction. `list` is SQL. A trigger does not name the
    /// database.
    static func endSQL(of list: String, in database: String? = "main") -> String {
        "(SELECT last FROM \(database.map { "\($0)." } ?? "")annals_spans WHERE table_id = \(list) ORDER BY number DESC LIMIT 1)"
    }

    /// A condition: a transaction changed a table of one of these column lists. `number` is SQL.
    static func existsSQL(lists: [Int64], number: String) -> String {
        let lists = lists.map(String.init).joined(separator: ", ")
        return "EXISTS (SELECT 1 FROM main.annals_spans AS s WHERE s.table_id IN (\(lists)) AND s.number = \(number))"
    }

    /// The last raw change of a column list up to a transaction; nil if there is none.
    func end(of list: Int64, upTo number: Int64) throws -> Int64? {
        try self.number(
            "SELECT last FROM main.annals_spans WHERE table_id = ? AND number <= ? ORDER BY number DESC LIMIT 1", [list, number])
    }

    /// The last raw change of a column list in a transaction; nil if it has no span there.
    func end(of list: Int64, in number: Int64) throws -> Int64? {
        try self.number("SELECT last FROM main.annals_spans WHERE table_id = ? AND number = ?", [list, number])
    }

    func newestTransaction(of list: Int64) throws -> Int64? {
        try number("SELECT max(number) FROM main.annals_spans WHERE table_id = ?", [list])
    }

    func oldestTransaction(of list: Int64) throws -> Int64? {
        try number("SELECT min(number) FROM main.annals_spans WHERE table_id = ?", [list])
    }

    /// The transaction of the span that follows the `count` oldest spans of a list, among those up to `number`; nil if there is none.
    func transaction(of list: Int64, behind count: Int64, upTo number: Int64) throws -> Int64? {
        try self.number(
            "SELECT number FROM main.annals_spans WHERE table_id = ? AND number <= ? ORDER BY number LIMIT 1 OFFSET ?",
            [list, number, count])
    }

    /// `number`, `first` and `last` of a list's spans after a transaction.
    package func rows(of list: Int64, after number: Int64) throws -> RowCursor {
        try GRDB.Row.fetchCursor(
            db, sql: "SELECT number, first, last FROM main.annals_spans WHERE table_id = ? AND number > ? ORDER BY number",
            arguments: [list, number])
    }

    private func number(_ sql: String, _ arguments: StatementArguments) throws -> Int64? {
        try Int64.fetchOne(db.cachedStatement(sql: sql), arguments: arguments)
    }

    /// Whether a transaction has a raw change in one of these column lists that was written at or before a time, in milliseconds since
    /// 1970.
    func hasChange(in number: Int64, lists: [Int64], upTo milliseconds: Int64) throws -> Bool {
        try lists.contains { list in
            try self.number(
                """
                SELECT 1 FROM main.annals_spans AS s JOIN main.\(StoreSchema.changesTable(list)) AS c ON c.id BETWEEN s.first AND s.last
                WHERE s.table_id = ? AND s.number = ? AND c.at < ? LIMIT 1
                """, [list, number, JulianDay.end(ofMillisecond: milliseconds)]) != nil
        }
    }

    // MARK: Statements for loops

    /// `first` and `last` of list ?1 in transaction ?2.
    package func find() throws -> PreparedStatement {
        try PreparedStatement(db, "SELECT first, last FROM main.annals_spans WHERE table_id = ?1 AND number = ?2")
    }

    /// `last` of the newest span of a list before transaction ?1.
    package func endBefore(of list: Int64) throws -> PreparedStatement {
        try PreparedStatement(
            db, "SELECT last FROM main.annals_spans WHERE table_id = \(list) AND number < ?1 ORDER BY number DESC LIMIT 1")
    }

    /// `number` and `last` of the newest span of a list before transaction ?1 that does not begin after raw change ?2.
    package func holding(of list: Int64) throws -> PreparedStatement {
        try PreparedStatement(
            db,
            """
            SELECT number, last FROM main.annals_spans
            WHERE table_id = \(list) AND number < ?1 AND first <= ?2 ORDER BY number DESC LIMIT 1
            """)
    }

    // MARK: All column lists

    package func newestTransaction(below limit: Int64) throws -> Int64? {
        try number("SELECT max(number) FROM main.annals_spans WHERE number < ?", [limit])
    }

    /// The number of raw changes after one transaction and up to another.
    package func changes(after number: Int64, upTo last: Int64) throws -> Int64 {
        try self.number(
            "SELECT ifnull(sum(last - first + 1), 0) FROM main.annals_spans WHERE number > ? AND number <= ?", [number, last]) ?? 0
    }

    /// The number of spans after a number that belong to no transaction.
    package func countWithoutTransaction(after number: Int64) throws -> Int64 {
        try self.number(
            """
            SELECT count(*) FROM main.annals_spans AS s
            WHERE number > ? AND NOT EXISTS (SELECT 1 FROM main.\(OwnTables.transactions) WHERE number = s.number)
            """, [number]) ?? 0
    }

    // MARK: Writing

    func insert(_ span: TransactionRecorder.Span, of number: Int64) throws {
        try db.cachedStatement(sql: "INSERT INTO main.annals_spans(table_id, number, first, last) VALUES(?, ?, ?, ?)")
            .execute(arguments: [span.table, number, span.ids.lowerBound, span.ids.upperBound])
    }

    /// Inserts a span, or replaces the span that the list has in the transaction.
    package func replace(_ span: TransactionRecorder.Span, of number: Int64) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO main.annals_spans(table_id, number, first, last) VALUES(?, ?, ?, ?)",
            arguments: [span.table, number, span.ids.lowerBound, span.ids.upperBound])
    }

    package func delete(of list: Int64, upTo number: Int64 = .max) throws {
        try db.cachedStatement(sql: "DELETE FROM main.annals_spans WHERE table_id = ? AND number <= ?").execute(arguments: [list, number])
    }

    /// Removes all raw changes from a span except the last.
    func shorten(of list: Int64, in number: Int64) throws {
        try db.cachedStatement(sql: "UPDATE main.annals_spans SET first = last WHERE table_id = ? AND number = ? AND first < last")
            .execute(arguments: [list, number])
    }
}
