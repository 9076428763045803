public import AnnalsCore
public import AnnalsHistory
import AnnalsSchema
import GRDB

/// A row with later work that a revert would overwrite, or that it cannot reach.
public struct RevertObstacle: Hashable, Sendable {
    public enum Reason: String, Hashable, Sendable {
        /// Later transactions changed the same columns.
        case changed
        /// A later transaction deleted the row, or gave it another key.
        case deleted
        /// A later transaction inserted the row again.
        case insertedAgain
        /// The row would refer to another row than before: its parent's key was given to another row since.
        case otherParent
        /// The row's key holds NULL, so it does not identify the row.
        case nullKey
        /// The table is not tracked any more. It has no row here.
        case notTracked
    }

    public var table: String
    public var keyColumns: [String]
    /// The row's key, in the key's order; empty if the reason is `nullKey` or `notTracked`.
    public var key: [Value]
    public var reason: Reason
    /// The columns that later transactions changed; empty if the reason is another one.
    public var columns: [String]
    /// The later transactions that changed this row or these columns, newest first; at most ten of all obstacles.
    public var transactions: [HistoryTransaction] = []
}

/// What is in the way of a revert. It is the `underlying` error of an `AnnalsError` with code `rowsDiffer`.
///
///     } catch let error as AnnalsError {
///         guard let refusal = error.underlying as? RevertRefusal else { throw error }
///         for transaction in refusal.transactions { print("revert first:", transaction.number, transaction.author ?? "") }
///     }
public struct RevertRefusal: Error, Hashable, Sendable {
    /// The first rows in the way, at most ten.
    public var obstacles: [RevertObstacle]
    /// The number of all rows in the way.
    public var count: Int
    /// The transactions to revert first, in this order: newest first, and at most ten.
    public var transactions: [HistoryTransaction]
    /// Whether more transactions may be in the way than these.
    public var hasMore: Bool
    /// The transaction itself wrote the rows again later, after the moments of the revert.
    public var isWithinItself = false
    /// A rebase undid and repeated the work together with other work. The transaction to revert is that of the rebase.
    public var isRebased = false
}

/// Limits of reverting.
enum RevertLimits {
    /// The rows in the way that are named with their transactions.
    static let namedRows = 10
    /// The transactions in the way that are named.
    static let namedTransactions = 10
    /// The rows in the message of an error.
    static let rowsInMessage = 5
    /// The transactions in the hint of an error.
    static let transactionsInHint = 5
}

/// The obstacles of one revert. The first ones are kept, the others only counted.
struct RevertObstacles {
    struct Noted {
        var obstacle: RevertObstacle
        /// nil if no row can be named.
        var entry: TrackedTables.Entry?
        /// For each column, the transaction after which a change of the column is in the way. Other columns do not count.
        var first: [Int: Int64] = [:]
    }

    private(set) var count = 0
    private(set) var noted: [Noted] = []

    mutating func noteLost(table: String) {
        note(Noted(obstacle: RevertObstacle(table: table, keyColumns: [], key: [], reason: .notTracked, columns: [])))
    }

    mutating func noteNullKey(_ table: RowTable) {
        note(Noted(obstacle: RevertObstacle(table: table.name, keyColumns: [], key: [], reason: .nullKey, columns: [])))
    }

    /// - Parameters:
    ///   - row: a row with the key.
    ///   - columns: the indices of the columns that the revert would overwrite; for other reasons than `changed` of those that it changes.
    mutating func note(
        _ entry: TrackedTables.Entry, _ row: [Value], _ reason: RevertObstacle.Reason, columns: [Int], _ undone: UndoneChange
    ) {
        let definition = entry.definition
        note(
            Noted(
                obstacle: RevertObstacle(
                    table: definition.name, keyColumns: definition.primaryKey.map { definition.columns[$0].name },
                    key: definition.primaryKey.map { row[$0] }, reason: reason,
                    columns: reason == .changed ? columns.map { definition.columns[$0].name } : []),
                entry: entry, first: Dictionary(columns.map { ($0, undone.first($0)) }, uniquingKeysWith: min)))
    }

    private mutating func note(_ obstacle: Noted) {
        count += 1
        if noted.count < RevertLimits.namedRows { noted.append(obstacle) }
    }

    // MARK: Words

    var words: String {
        let named = noted.prefix(RevertLimits.rowsInMessage).map { Self.words($0.obstacle) }
        return named.joined(separator: "; ") + (count > named.count ? " and \(count - named.count) more" : "")
    }

    private static func words(_ obstacle: RevertObstacle) -> String {
        let row = "\(ManualEdit.text(obstacle.key, obstacle.keyColumns)) of \(obstacle.table)"
        return switch obstacle.reason {
        case .changed: "\(row) (\(obstacle.columns.joined(separator: ", ")))"
        case .deleted: "\(row) was deleted"
        case .insertedAgain: "\(row) was inserted again"
        case .otherParent: "\(row) would refer to another row, which got the key of its parent since"
        case .nullKey: "a row of \(obstacle.table) with NULL in its key"
        case .notTracked: "the table \(obstacle.table) is not tracked any more"
        }
    }

    static func name(_ table: RowTable, _ key: [Value]) -> String {
        let names = table.definition.primaryKey.map { table.definition.columns[$0].name }
        return "\(ManualEdit.text(key, names)) of \(table.name)"
    }
}

extension RevertRefusal {
    /// Leaves out each revert together with what it reverted, because neither is in the way any more. Does nothing if they are all.
    mutating func leaveOutRevertedWork() {
        var out: Set<Int64> = []
        for transaction in transactions where !out.contains(transaction.number) {
            let reverted = transaction.contextName.flatMap { context in
                context.hasPrefix("revert of ") ? Int64(context.dropFirst("revert of ".count).prefix { $0 != "-" }) : nil
            }
            if let reverted, transactions.contains(where: { $0.number == reverted }) { out.formUnion([transaction.number, reverted]) }
        }
        if out.count < transactions.count { transactions.removeAll { out.contains($0.number) } }
    }

    /// The error that names what is in the way.
    func error(_ subject: RevertSubject, _ obstacles: RevertObstacles, _ db: Database) throws -> AnnalsError {
        let because = "because rows were changed after it: \(obstacles.words)"
        let first = try wordsToRevertFirst(subject, db)
        let (leave, overwrite) = ("leaves these rows as they are", "overwrites later changes")
        return AnnalsError(
            .rowsDiffer, operation: subject.operation, "\(subject.cannot), \(because)",
            hint: "Nothing was changed; \(first)later: .keep \(leave), and later: .overwrite \(overwrite)",
            commandHint: "Nothing was changed; \(first)--skip-changed \(leave), and --force \(overwrite)", underlying: self)
    }

    private func wordsToRevertFirst(_ subject: RevertSubject, _ db: Database) throws -> String {
        if isRebased, let rebase = transactions.first {
            return
                "a rebase repeated this work with other work of this replica: revert \(rebase.number) instead, which undoes all that it repeated, or "
        }
        if isWithinItself, transactions.isEmpty { return "\(subject.name) itself wrote them again later: choose other moments, or " }
        guard !transactions.isEmpty else { return "" }
        let named = try transactions.prefix(RevertLimits.transactionsInHint).map { transaction in
            let seconds = Double(transaction.timestamp.milliseconds(rounded: .down)) / 1_000
            let sql = "SELECT strftime('%Y-%m-%dT%H:%M:%SZ', ?, 'unixepoch')"
            let time = try String.fetchOne(db, sql: sql, arguments: [seconds])
            let author = transaction.author.map { "by \($0)" } ?? transaction.origin.name
            return "\(transaction.number) (\([author, time].compactMap(\.self).joined(separator: ", ")))"
        }
        let more = hasMore || transactions.count > named.count ? " and more" : ""
        return "revert \(named.joined(separator: ", "))\(more) first\(named.count > 1 ? ", in this order" : ""), or "
    }
}
