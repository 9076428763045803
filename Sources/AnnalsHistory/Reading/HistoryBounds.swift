package import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// The range of a store's history, and the meaning of a token's text.
///
///     let bounds = try HistoryBounds(db)
///     let token = try bounds.resolve("2026-03-01T08:00:00Z", db)
package struct HistoryBounds: Sendable {
    package let storeID: StoreID
    /// The oldest point of the history: a purge deleted what is before. Purged rows need not be deleted yet.
    package let oldest: HistoryToken
    /// The oldest point after which history has every change. Before it, a program wrote to some table without capture. A reader that
    /// follows history learns this by an error; `UnknownRows` has the tables.
    package let complete: HistoryToken
    package let latest: HistoryToken

    /// - Throws: `AnnalsError` with code `notTracked` if the database has no history.
    package init(_ db: Database) throws {
        guard try db.tableExists(OwnTables.transactions), let id = try Self.storeID(db) else {
            throw StoreSchema.noHistory(operation: "history")
        }
        storeID = id
        let last = try TransactionTable(db).newest() ?? 0
        let horizon = try min(Purge.horizon(db), last)
        oldest = HistoryToken(number: horizon, store: id)
        complete = HistoryToken(number: try max(horizon, min(TrackedTable.newestGap(db) ?? 0, last)), store: id)
        latest = HistoryToken(number: last, store: id)
    }

    /// Throws `Corruption`.
    package static func storeID(_ db: Database) throws -> StoreID? {
        guard let text = try StoreSchema.text(.storeID, db) else { return nil }
        guard let id = StoreID(text) else { throw Corruption(StoreSchema.Meta.storeID) }
        return id
    }

    /// Returns a token that is within this store's history.
    ///
    /// - Throws: `AnnalsError` with code `tokenUnknown` for a token of another store or after the latest one, and `tokenExpired`
    ///   for a token before the oldest.
    @discardableResult
    package func check(_ token: HistoryToken) throws -> HistoryToken {
        guard token.isOf(storeID) else {
            throw AnnalsError(
                .tokenUnknown, operation: "history", "the token \(token) belongs to another store",
                hint: "This store's tokens reach from \(oldest) to \(latest)")
        }
        guard token.number >= oldest.number else { throw expired("the token \(token)") }
        guard token.number <= latest.number else {
            throw AnnalsError(
                .tokenUnknown, operation: "history", "the token \(token) is newer than this store's history",
                hint: "The file may be an older copy; its latest token is \(latest)")
        }
        return token
    }

    /// Returns a token after which history has every change, so that a reader can follow it.
    ///
    /// - Throws: as `check`, and `tokenExpired` for a token before `complete`.
    @discardableResult
    package func checkComplete(_ token: HistoryToken) throws -> HistoryToken {
        try check(token)
        guard token.number >= complete.number else {
            throw AnnalsError(
                .tokenExpired, operation: "history",
                "changes after the token \(token) are missing: a program wrote to a table without capture before \(complete)",
                hint: "Read the current rows and continue from \(complete); without a token, all recorded transactions can be read")
        }
        return token
    }

    /// The error for a transaction that was purged, or that never was.
    package func noTransaction(_ number: Int64, operation: String) -> AnnalsError {
        let isPurged = number > 0 && number <= oldest.number
        let hint =
            latest.number > oldest.number
            ? "History has the transactions from \(oldest.number + 1) to \(latest.number)" : "History has no transactions now"
        return AnnalsError(
            isPurged ? .tokenExpired : .tokenUnknown, operation: operation,
            isPurged ? "transaction \(number) is not in history any more" : "history has no transaction \(number)", hint: hint)
    }

    /// The token for a text: a token, a transaction's number, an ISO 8601 date, `start` or `latest`.
    ///
    /// A date means the last transaction committed at or before it. A date without a time means its first moment. A date without an
    /// offset is in UTC.
    ///
    /// - Throws: `AnnalsError` with code `usage` for any other text, and `tokenExpired` for a date before the first moment; otherwise as
    ///   `check`.
    package func resolve(_ text: String, _ db: Database) throws -> HistoryToken {
        if text == "start" { return oldest }
        if text == "latest" { return latest }
        if let token = HistoryToken(text) { return try check(token) }
        if !text.isEmpty, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let number = Int64(text) {
            guard number <= latest.number else {
                throw AnnalsError(
                    .tokenUnknown, operation: "history", "history has no transaction \(number)", hint: "The newest is \(latest.number)")
            }
            return try check(HistoryToken(number: number, store: storeID))
        }
        guard let milliseconds = ISODate.milliseconds(text) else {
            throw AnnalsError(
                .usage, operation: "history", "\(text.isEmpty ? "an empty text" : text) is not a point of history",
                hint: "Use a token of this store's history, a transaction's number, a date such as 2024-06-01T12:00:00Z, start or latest",
                commandHint:
                    "Use a token that annals history prints, a transaction's number, a date such as 2024-06-01T12:00:00Z, start or "
                    + "latest")
        }
        let name = "the date \(text)"
        if let first = try firstMoment(db), milliseconds < first { throw try expired(name, db) }
        return try token(atMilliseconds: milliseconds, db, named: name)
    }

    /// The point after the last transaction that was committed in this store at or before a time, in milliseconds since 1970. If history
    /// begins later than the time and nothing was deleted, it is the oldest point. That serves a list of transactions. It does not say
    /// which rows there were; `resolve` refuses such a time.
    package func token(atMilliseconds moment: Int64, _ db: Database, named name: String) throws -> HistoryToken {
        var number = try TransactionTable(db).newest(committedBy: moment) ?? 0
        // An imported transaction has its author's time. Only its raw changes have the time of its arrival in this store.
        let later = try TransactionTable(db).rows(after: number)
        while let row = try later.next(), try row.value("origin") == TransactionOrigin.imported.rawValue {
            guard let arrival = try Self.arrival(of: row.number("number"), tables: row.value("tables"), db), arrival <= moment else {
                break
            }
            number = try row.number("number")
        }
        // The transaction before the oldest point may be deleted, and then it is not found.
        if number < oldest.number, let first = try firstMoment(db), moment >= first { return oldest }
        guard number >= oldest.number else { throw try expired(name, db) }
        return HistoryToken(number: number, store: storeID)
    }

    // MARK: The first moment

    /// The time from which the rows are known, in milliseconds since 1970; nil if it is not known and no transaction limits it.
    ///
    /// It is the time of the oldest point's transaction, or the start of tracking if there is none.
    private func firstMoment(_ db: Database) throws -> Int64? {
        let known = [try StoreSchema.integer(.began, db), try Self.moment(of: oldest.number, db)].compactMap(\.self)
        if let last = known.max() { return last }
        // An older version of Annals did not note the start.
        return try TransactionTable(db).firstMoment(after: oldest.number)
    }

    /// Notes that nothing is known about the rows before a time. An earlier time than the noted one changes nothing.
    package static func note(began moment: Int64, _ db: Database) throws {
        let moment = min(max(moment, SchemaLimits.facts.lowerBound), SchemaLimits.facts.upperBound)
        if let noted = try StoreSchema.integer(.began, db), noted >= moment { return }
        try StoreSchema.set(.began, to: moment, db)
    }

    /// When a transaction was committed in this store, in milliseconds since 1970; nil if history does not say it.
    package static func moment(of number: Int64, _ db: Database) throws -> Int64? {
        guard let row = try TransactionTable(db).row(number) else { return nil }
        guard try row.value("origin") == TransactionOrigin.imported.rawValue else { return try row.value("time") }
        return try arrival(of: number, tables: row.value("tables"), db)
    }

    private static func arrival(of number: Int64, tables: String, _ db: Database) throws -> Int64? {
        guard let list = TransactionTable.lists(tables).first, let last = try SpanTable(db).end(of: list, in: number) else { return nil }
        let day = try Double.fetchOne(
            db, sql: "SELECT at FROM main.\(StoreSchema.changesTable(list)) WHERE id = ?", arguments: [last])
        return day.map(JulianDay.milliseconds)
    }

    private func expired(_ what: String) -> AnnalsError {
        AnnalsError(
            .tokenExpired, operation: "history", "\(what) is older than the recorded history",
            hint: "The oldest token is \(oldest)")
    }

    private func expired(_ what: String, _ db: Database) throws -> AnnalsError {
        guard let first = try firstMoment(db) else { return expired(what) }
        return AnnalsError(
            .tokenExpired, operation: "history", "\(what) is older than the recorded history",
            hint: "The first moment is \(ISODate.text(milliseconds: first)), and its token is \(oldest)",
            commandHint: "The first moment is \(ISODate.text(milliseconds: first)), and start names it")
    }
}
