import AnnalsCore
import Foundation
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
    /// Own rows that the last exchange gave another integer key, by the identifier they had.
    package var renumbered: [PersistentIdentifier: PersistentIdentifier]
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
        guard let token else { return CommittedRows(token: latest, rows: nil, renumbered: [:]) }
        var rows: Set<PersistentIdentifier> = []
        var rebased = RebasedKeys()
        var isWhole = try !SealedRead.isOpen(db)
        do {
            let reader = try HistoryReader(db, tables: schema.tables(db))
            var request = HistoryRequest(after: token)
            request.tableNames = tables
            try reader.forEachTransaction(request) { transaction in
                do {
                    try reader.forEachChange(in: transaction, request) { change in
                        guard isWhole || transaction.origin == .rebase else { throw Enough() }
                        guard isWanted(change) else { return }
                        if transaction.origin == .rebase { rebased.note(change) }
                        if isWhole { rows.formUnion(change.touchedRows) }
                        if rows.count > limit { isWhole = false }
                    }
                } catch is Enough {}
                return true
            }
        } catch let error as AnnalsError where error.code == .tokenExpired || error.code == .tokenUnknown {
            isWhole = false
        }
        return CommittedRows(token: latest, rows: isWhole ? rows : nil, renumbered: try rebased.renumbered(db))
    }
}

/// Ends a visit: the rest of a transaction would tell nothing more.
private struct Enough: Error {}

/// The keys that a rebase took rows from and gave rows to. Which of them is the same row under two keys the conflict journal
/// tells: of work that the space has not ordered yet it travels in the outbox, afterwards it is in the store.
private struct RebasedKeys {
    private var left: Set<PersistentIdentifier> = []
    private var taken: Set<PersistentIdentifier> = []

    mutating func note(_ change: HistoryChange) {
        switch change.kind {
        case .insert: taken.insert(change.identifier)
        case .delete: left.insert(change.identifier)
        case .update: break
        }
    }

    func renumbered(_ db: Database) throws -> [PersistentIdentifier: PersistentIdentifier] {
        guard !left.isEmpty, !taken.subtracting(left).isEmpty, let state = try ReplicaState.load(db) else { return [:] }
        var next: [PersistentIdentifier: PersistentIdentifier] = [:]
        for entry in try Self.entries(db, of: state) {
            guard entry.kind == .renumber, entry.winner == .incoming, let given = entry.incoming?.first else { continue }
            let old = PersistentIdentifier(table: entry.table, key: entry.key)
            next[old] = PersistentIdentifier(table: entry.table, key: [given])
        }
        var found: [PersistentIdentifier: PersistentIdentifier] = [:]
        for old in left {
            // A row may have been renumbered several times on its way.
            var now = old
            for _ in 0..<next.count {
                guard let step = next[now] else { break }
                now = step
                if taken.contains(now) { found[old] = now }
            }
        }
        return found
    }

    /// The newest last.
    private static func entries(_ db: Database, of state: ReplicaState) throws -> [JournalEntry] {
        var entries = try GRDB.Row.fetchAll(
            db, sql: "SELECT * FROM annals_conflicts WHERE replica = ? ORDER BY id DESC LIMIT \(WatchLimits.journalEntries)",
            arguments: [Data(state.replica.bytes)]
        ).reversed().map { try ConflictJournal.conflict($0).entry }
        let layouts = try LayoutNames(db).all
        for row in try Outbox.rows(db, from: 0) where row.journal > 0 {
            _ = try Outbox.content(db, of: row, layouts: layouts).rest { lines, _ in entries += lines }
        }
        return entries
    }
}
