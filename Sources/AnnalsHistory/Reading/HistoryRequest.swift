import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
public import Foundation
package import GRDB

/// Selects transactions of history. Each additional restriction selects fewer.
///
///     let request = HistoryRequest(after: token).excludingAuthors("till 3").tables("invoice").limit(50)
public struct HistoryRequest: Hashable, Sendable {
    package enum Start: Hashable, Sendable {
        case token(HistoryToken)
        /// In milliseconds since 1970.
        case moment(Int64)
    }

    package var after: Start?
    package var before: Start?
    /// nil in it means transactions without an author.
    package var authors: [String?]?
    package var writer: WriterName?
    var excludedAuthors: [String?] = []
    package var tableNames: [String] = []
    package var columnNames: [String] = []
    /// With columns: inserts and deletes count too.
    package var wholeRowsCount = false
    /// Changes that are missing before this transaction are no error, because the request did not begin at a token.
    package var acceptedGap: Int64 = 0
    /// The only row, by its key. It needs one table.
    package var row: RowIdentity?
    package var origins: HistoryOriginFilter?
    package var maximum: Int?
    /// The dates of a range given as texts, in milliseconds since 1970.
    private var writtenAfter: Int64?
    private var writtenBefore: Int64?

    /// All transactions, or those after a point. The token's own transaction is not among them.
    public init(after token: HistoryToken? = nil) {
        after = token.map { .token($0) }
    }

    /// Transactions committed in this store after a date.
    public init(after date: Date) {
        after = .moment(date.milliseconds(rounded: .down))
    }

    public init(after transaction: HistoryTransaction) {
        after = .token(transaction.token)
    }

    /// Only transactions before the token's transaction.
    public func before(_ token: HistoryToken?) -> Self { with { $0.before = token.map { .token($0) } } }

    /// Only transactions committed in this store before a date, and one of other programs with writes before and after it.
    public func before(_ date: Date) -> Self { with { $0.before = .moment(date.milliseconds(rounded: .up)) } }

    /// A range given as texts. Each is a token, as `HistoryBounds.resolve` reads it, or a date. Both ends are exclusive. A date may be
    /// before the first moment, because the transactions after it are all known.
    ///
    /// - Throws: `AnnalsError`, as `HistoryBounds.resolve`.
    package init(after: String?, before: String?, _ bounds: HistoryBounds, _ db: Database) throws {
        self.init(
            after: try after.map { text in
                try ISODate.milliseconds(text).map { try bounds.token(atMilliseconds: $0, db, named: "the date \(text)") }
                    ?? bounds.resolve(text, db)
            })
        writtenAfter = after.flatMap(ISODate.milliseconds)
        guard let before else { return }
        writtenBefore = ISODate.milliseconds(before)
        if let writtenAfter, let writtenBefore, writtenAfter >= writtenBefore {
            throw AnnalsError(
                .usage, operation: "history", "the end of the range, \(before), is not after its start, \(after ?? "")",
                hint: "Give the earlier date as the start")
        }
        self.before = try ISODate.milliseconds(before).map { .moment($0) } ?? .token(bounds.resolve(before, db))
    }

    /// Whether a range was given with a date.
    package var hasDates: Bool { writtenAfter != nil || writtenBefore != nil }

    /// Whether a write is between the dates that the request was given as texts. A write with an unknown time is.
    package func holds(_ step: HistoryStep) -> Bool {
        guard let time = step.time?.milliseconds(rounded: .toNearestOrEven) else { return true }
        return writtenAfter.map { time > $0 } ?? true && writtenBefore.map { time < $0 } ?? true
    }

    /// Only transactions of these authors. nil means transactions without an author.
    public func authors(_ names: String?...) -> Self { with { $0.authors = ($0.authors ?? []) + names } }

    /// Only transactions of this author or replica.
    package func written(by writer: WriterName) -> Self { with { $0.writer = writer } }

    public func excludingAuthors(_ names: String?...) -> Self { with { $0.excludedAuthors += names } }

    /// Only transactions that changed one of the tables. Only changes in these tables are read.
    public func tables(_ names: String...) -> Self { with { $0.tableNames += names } }

    /// Only transactions that updated a row in one of these columns. Only these changes are read.
    public func updating(_ columns: String...) -> Self { with { $0.columnNames += columns } }

    public func origins(_ filter: HistoryOriginFilter) -> Self { with { $0.origins = filter } }

    /// The same request, from a point that it has reached.
    public func continuing(after token: HistoryToken) -> Self { with { $0.after = .token(token) } }

    /// To be called before a request continues for the first time. A request that began at a token gets an error if changes after it are
    /// missing; any other only if they are missing later.
    package func begun(_ bounds: HistoryBounds) -> Self {
        if case .token? = after { return self }
        return with { $0.acceptedGap = bounds.complete.number }
    }

    /// At most this number of transactions, oldest first.
    public func limit(_ transactions: Int) -> Self { with { $0.maximum = transactions } }

    /// Whether a transaction is selected by its changes, and not only by its tables.
    var needsChange: Bool { !columnNames.isEmpty || row != nil }

    private func with(_ change: (inout Self) -> Void) -> Self {
        var copy = self
        change(&copy)
        return copy
    }
}

extension Date {
    /// Milliseconds since 1970; for a date beyond the range of `Int64`, its largest or smallest value.
    package func milliseconds(rounded rule: FloatingPointRoundingRule) -> Int64 {
        let milliseconds = (timeIntervalSince1970 * 1_000).rounded(rule)
        return Int64(exactly: milliseconds) ?? (milliseconds > 0 ? .max : .min)
    }
}
