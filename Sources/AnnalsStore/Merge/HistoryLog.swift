import AnnalsCore
import Foundation
import GRDB

/// Appends transactions to history for what merging wrote.
struct HistoryLog {
    let db: Database
    /// What the process calls itself in history.
    let process: String

    /// What a transaction of history is about.
    struct Heading {
        var id: TransactionID
        var time: HybridTime
        var author: String?
        var context: String?
        var origin: HistoryOrigin
        var replica: ReplicaID?
        var position: Position?
    }

    /// Spans are raw changes per table; without any there was nothing to tell.
    func append(_ heading: Heading, spans: [(layoutID: Int64, first: Int64, last: Int64)]) throws {
        guard !spans.isEmpty else { return }
        try db.cachedStatement(
            sql: """
                INSERT INTO annals_transactions
                    (number, id, time, time_counter, author, context, process, origin, replica, position, tables)
                VALUES ((SELECT ifnull(max(number), 0) + 1 FROM annals_transactions), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """
        ).execute(arguments: [
            Data(heading.id.bytes), heading.time.milliseconds, Int64(heading.time.counter), heading.author, heading.context, process,
            heading.origin.rawValue, heading.replica.map { Data($0.bytes) }, heading.position?.rawValue,
            spans.map { String($0.layoutID) }.joined(separator: " "),
        ])
        let number = db.lastInsertedRowID
        for span in spans {
            try db.cachedStatement(sql: "INSERT INTO annals_spans (table_id, number, first, last) VALUES (?, ?, ?, ?)")
                .execute(arguments: [span.layoutID, number, span.first, span.last])
        }
    }
}

/// Where a transaction of history came from, as `annals_transactions.origin` keeps it.
enum HistoryOrigin: Int64 {
    case local = 0
    case external = 1
    case migration = 2
    case imported = 3
    /// Local work undone and laid on top again around what was pulled.
    case rebase = 4
}
