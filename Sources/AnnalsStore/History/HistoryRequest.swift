public import Foundation

/// Which transactions of history are asked for. Each restriction added leaves fewer.
///
///     let request = HistoryRequest(after: token).excludingAuthors("till 3").tables("Invoice").limit(50)
public struct HistoryRequest: Hashable, Sendable {
    enum Start: Hashable, Sendable {
        case token(HistoryToken)
        case date(Date)
    }

    var after: Start?
    var before: HistoryToken?
    /// nil in it means transactions without an author.
    var authors: [String?]?
    var excludedAuthors: [String?] = []
    var tableNames: [String] = []
    var columnNames: [String] = []
    var origins: HistoryOriginFilter?
    var maximum: Int?

    /// All transactions, or those after a point. The transaction that the token names is not among them.
    public init(after token: HistoryToken? = nil) {
        after = token.map { .token($0) }
    }

    /// Transactions committed here after a date.
    public init(after date: Date) {
        after = .date(date)
    }

    public init(after transaction: HistoryTransaction) {
        after = .token(transaction.token)
    }

    /// Only those before the one that the token names.
    public func before(_ token: HistoryToken?) -> Self { with { $0.before = token } }

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
