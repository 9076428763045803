import AnnalsCore
package import AnnalsHistory
import AnnalsReplica
import AnnalsRows
package import GRDB

/// What a read transaction sees beyond a token: which rows are others than they were there.
///
/// For whoever keeps what a request brought and wants to look only at what changed.
package struct CommittedRows: Sendable {
    /// Where history stands in that read.
    package var token: HistoryToken
    /// nil where history cannot tell: it does not reach back to the token, not all that is written is sealed, or there are more
    /// rows than were asked for. Everything may have changed then.
    package var rows: Set<PersistentIdentifier>?
    /// Rows that a sync gave another key since, one line for each.
    package var renumbered: [RenumberedRow]
}

extension Store {
    /// Looks through history from a token to the state that this access reads.
    ///
    /// - Parameters:
    ///   - tables: only these tables' rows; none for all.
    ///   - limit: of rows; where there are more it is not worth telling them apart.
    ///   - isWanted: which changes count.
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

/// Ends a visit: there are more rows than are worth telling apart.
private struct Enough: Error {}
