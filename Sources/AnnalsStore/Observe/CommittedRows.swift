import AnnalsCore
package import AnnalsHistory
import AnnalsReplica
import AnnalsRows
package import GRDB

/// The rows that changed between a token and the state that a read transaction sees.
///
/// For code that keeps the result of a request and needs only the changes.
package struct CommittedRows: Sendable {
    /// The latest point of history in that read.
    package var token: HistoryToken
    /// nil if history cannot say: it does not reach back to the token, some writes are not recorded, or more rows changed than the
    /// limit. Then all rows may have changed.
    package var rows: Set<PersistentIdentifier>?
    /// Rows that got another key in a sync since, one element for each.
    package var renumbered: [RenumberedRow]
}

extension Store {
    /// Reads history from a token to the state that this access sees.
    ///
    /// - Parameters:
    ///   - tables: only rows of these tables; empty: all tables.
    ///   - limit: the maximum number of rows; beyond it the rows are not listed.
    ///   - isWanted: selects changes.
    package func committedRows(
        _ db: Database, after token: HistoryToken?, tables: [String], limit: Int, _ isWanted: (HistoryChange) -> Bool
    ) throws -> CommittedRows {
        let latest = try HistoryBounds(db).latest
        guard let token else { return CommittedRows(token: latest, rows: nil, renumbered: []) }
        let renumbered = try RenumberedRows.load(db, after: token.number).composed()
        guard try !RecordedRead.isOpen(db) else { return CommittedRows(token: latest, rows: nil, renumbered: renumbered) }
        var rows: Set<PersistentIdentifier>? = []
        do {
            let reader = try HistoryReader(db, tables: schema.tables(db))
            var request = HistoryRequest(after: token)
            request.tableNames = tables
            try reader.forEachTransaction(request) { transaction in
                try reader.forEachChange(in: transaction, request) { change in
                    guard isWanted(change) else { return }
                    rows?.formUnion(change.touchedRows)
                    if rows?.count ?? 0 > limit { throw Enough() }
                }
                return true
            }
        } catch is Enough {
            rows = nil
        } catch let error as AnnalsError where error.code == .tokenExpired || error.code == .tokenUnknown {
            rows = nil
        }
        return CommittedRows(token: latest, rows: rows, renumbered: renumbered)
    }
}

/// Ends a visit when the limit of rows is exceeded.
private struct Enough: Error {}
