import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import Foundation
package import GRDB

/// How coarse history is: how many of the newest transactions are groups of other programs' commits, and how long such a group is.
///
/// Everything that other programs commit between two recordings is one transaction. A process that watches the store records each
/// commit. `HistoryReader.forEachStep` gives the single writes of a group.
public struct ExternalHistory: Hashable, Sendable {
    /// How many of the examined transactions have origin external.
    public let transactions: Int
    /// The number of transactions that were examined: all of history, or the newest thousand.
    public let examined: Int64
    /// The longest time between the first and the last write in one of the newest hundred of these external transactions, in
    /// milliseconds; zero if there are none.
    public let longest: Duration

    package init(transactions: Int, examined: Int64, longest: Duration) {
        self.transactions = transactions
        self.examined = examined
        self.longest = longest
    }

    /// Reads a bounded number of rows, whatever the size of the history.
    package init(_ db: Database, _ bounds: HistoryBounds) throws {
        examined = min(bounds.latest.number - bounds.oldest.number, HistoryLimits.externalExamined)
        let rows = try TransactionTable(db).newest(.external, after: bounds.oldest.number, among: HistoryLimits.externalExamined)
        transactions = rows.count
        let spans = try SpanTable(db).find()
        var longest = Duration.zero
        for row in rows.prefix(HistoryLimits.externalMeasured) {
            let (number, tables): (Int64, String) = try (row.number("number"), row.value("tables"))
            var times: [Date] = []
            for list in TransactionTable.lists(tables) {
                spans.bind(1, list)
                spans.bind(2, number)
                defer { spans.reset() }
                guard try spans.step() else { continue }
                times += try Self.ends(of: list, spans.number(0), spans.number(1), db)
            }
            if let first = times.min(), let last = times.max() {
                longest = max(longest, .milliseconds((last.timeIntervalSince(first) * 1_000).rounded()))
            }
        }
        self.longest = longest
    }

    /// The times of the first and the last raw change of a span, as far as they are known.
    private static func ends(of list: Int64, _ first: Int64, _ last: Int64, _ db: Database) throws -> [Date] {
        guard first <= last else { throw Corruption(OwnTables.spans) }
        let room = HistoryLimits.untimedPassed
        func time(_ direction: String, _ from: Int64, _ to: Int64) throws -> Date? {
            let statement = try db.cachedStatement(
                sql: """
                    SELECT at FROM main.\(StoreSchema.changesTable(list)) WHERE id BETWEEN ? AND ? AND at IS NOT NULL
                    ORDER BY id \(direction) LIMIT 1
                    """)
            try statement.setArguments([from, to])
            defer { statement.rewind() }
            return try statement.step() ? JulianDay.date(statement.value(0)) : nil
        }
        return try [time("ASC", first, min(last, first + room)), time("DESC", max(first, last - room), last)].compactMap(\.self)
    }
}
