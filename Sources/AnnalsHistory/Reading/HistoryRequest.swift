import AnnalsSQLite
public import Foundation
package import GRDB

/// Which transactions of history are asked for. Each restriction added leaves fewer.
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
    var excludedAuthors: [String?] = []
    package var tableNames: [String] = []
    package var columnNames: [String] = []
    package var origins: HistoryOriginFilter?
    package var maximum: Int?

    /// All transactions, or those after a point. The transaction that the token names is not among them.
    public init(after token: HistoryToken? = nil) {
        after = token.map { .token($0) }
    }

    /// Transactions committed here after a date.
    public init(after date: Date) {
        after = .moment(date.milliseconds(rounded: .down))
    }

    public init(after transaction: HistoryTransaction) {
        after = .token(transaction.token)
    }

    /// Only those before the one that the token names.
    public func before(_ token: HistoryToken?) -> Self { with { $0.before = token.map { .token($0) } } }

    /// Only those committed here before a date.
    public func before(_ date: Date) -> Self { with { $0.before = .moment(date.milliseconds(rounded: .up)) } }

    /// From a text to a text, each a token as `HistoryBounds.resolve` reads it or a date: later than the one, earlier than
    /// the other.
    ///
    /// - Throws: `AnnalsError`, as `HistoryBounds.resolve`.
    package init(after: String?, before: String?, _ bounds: HistoryBounds, _ db: Database) throws {
        self.init(after: try after.map { try bounds.resolve($0, db) })
        guard let before else { return }
        self.before = try ISODate.milliseconds(before).map { .moment($0) } ?? .token(bounds.resolve(before, db))
    }

    /// Only these authors'. nil stands for transactions without an author.
    public func authors(_ names: String?...) -> Self { with { $0.authors = ($0.authors ?? []) + names } }

    public func excludingAuthors(_ names: String?...) -> Self { with { $0.excludedAuthors += names } }

    /// Only those that changed one of the tables. Of their changes, only those in these tables are read.
    public func tables(_ names: String...) -> Self { with { $0.tableNames += names } }

    /// Only those that updated a row in one of these columns. Of their changes, only those are read.
    public func updating(_ columns: String...) -> Self { with { $0.columnNames += columns } }

    public func origins(_ filter: HistoryOriginFilter) -> Self { with { $0.origins = filter } }

    /// The same request for what comes after a point that it has reached.
    public func continuing(after token: HistoryToken) -> Self { with { $0.after = .token(token) } }

    /// At most so many, the oldest first.
    public func limit(_ transactions: Int) -> Self { with { $0.maximum = transactions } }

    private func with(_ change: (inout Self) -> Void) -> Self {
        var copy = self
        change(&copy)
        return copy
    }
}

extension Date {
    /// Since 1970; the furthest there is for a date beyond what that can count.
    package func milliseconds(rounded rule: FloatingPointRoundingRule) -> Int64 {
        let milliseconds = (timeIntervalSince1970 * 1_000).rounded(rule)
        return Int64(exactly: milliseconds) ?? (milliseconds > 0 ? .max : .min)
    }
}
