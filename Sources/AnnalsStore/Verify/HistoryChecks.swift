import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// Whether history's own tables fit together: numbers without gaps, spans without gaps, every raw change there.
struct HistoryChecks {
    let db: Database

    /// Tables and facts without which nothing else can be looked at.
    func missingTables() throws -> [Finding] {
        let lost = try OwnTables.history.filter { try !db.tableExists($0) }
        guard lost.isEmpty else { return [Finding(.history, "tables of history are gone: \(lost.joined(separator: ", "))")] }
        guard try StoreSchema.text(.storeID, db) != nil else { return [Finding(.history, "the store's identity is gone from annals_meta")] }
        let gone = try Meta(db).text(.replica) == nil ? [] : OwnTables.replica.filter { try !db.tableExists($0) }
        return gone.isEmpty ? [] : [Finding(.log, "tables of the replica are gone: \(gone.joined(separator: ", "))")]
    }

    /// Tracked tables without their raw changes' or notes' table.
    func missingLists() throws -> [Finding] {
        try TrackedTable.fetchTracked(db).compactMap { table in
            let own = [StoreSchema.changesTable(table.id), StoreSchema.notesTable(table.id)]
            if try own.allSatisfy({ try db.tableExists($0) }) { return nil }
            return Finding(.history, "the table of raw changes is gone", table: table.name)
        }
    }

    func run() throws -> [Finding] {
        try numbers() + spansWithoutTransaction() + transactionsWithoutSpan() + TrackedTable.fetchAll(db).flatMap { try spans($0) }
    }

    private func numbers() throws -> [Finding] {
        let missing = try TransactionTable(db).gaps(from: Purge.horizon(db))
        guard missing != 0 else { return [] }
        return [Finding(.history, "\(missing) transactions are missing from history")]
    }

    private func spansWithoutTransaction() throws -> [Finding] {
        let count = try SpanTable(db).countWithoutTransaction(after: Purge.horizon(db))
        return count == 0 ? [] : [Finding(.history, "\(count) spans of raw changes belong to no transaction")]
    }

    /// A transaction names the tables it changed, and has a span in each that is still known.
    private func transactionsWithoutSpan() throws -> [Finding] {
        let known = Set(try TrackedTable.fetchAll(db).map(\.id))
        let span = try SpanTable(db).find()
        // The newest transaction stays when it is purged, without its raw changes.
        let rows = try TransactionTable(db).rows(after: HistoryBounds(db).oldest.number)
        var count = 0
        while let row = try rows.next() {
            let tables: String = try row.value("tables")
            for id in TransactionTable.lists(tables) where known.contains(id) {
                span.bind(1, id)
                span.bind(2, try row.number("number") as Int64)
                if try !span.step() { count += 1 }
                span.reset()
            }
        }
        return count == 0 ? [] : [Finding(.history, "\(count) spans of raw changes are missing")]
    }

    private func spans(_ table: TrackedTable) throws -> [Finding] {
        var first: Int64?
        var last: Int64 = 0
        var findings: [Finding] = []
        let cursor = try SpanTable(db).rows(of: table.id, after: Purge.horizon(db))
        while let row = try cursor.next() {
            let begins: Int64 = try row.number("first")
            if first != nil, begins != last + 1, findings.isEmpty {
                findings.append(
                    Finding(
                        .history, "the raw changes of transaction \(try row.number("number") as Int64) do not follow those before it",
                        table: table.name))
            }
            first = first ?? begins
            last = try row.number("last")
        }
        // A list that is not in use any more may be without one.
        guard try db.tableExists(StoreSchema.changesTable(table.id)) else {
            return first == nil ? [] : findings + [Finding(.history, "the table of raw changes is gone", table: table.name)]
        }
        return try findings + missing(table, from: first, recorded: last)
    }

    private func missing(_ table: TrackedTable, from first: Int64?, recorded last: Int64) throws -> [Finding] {
        let changes = StoreSchema.changesTable(table.id)
        let newest = try Int64.fetchOne(db, sql: "SELECT max(id) FROM main.\(changes)") ?? 0
        // What was purged may be gone or not; the newest raw change of a purged table stays.
        guard let first = first ?? (newest > 0 ? newest : nil) else { return [] }
        let end = max(last, newest)
        let count =
            try Int64.fetchOne(db, sql: "SELECT count(*) FROM main.\(changes) WHERE id BETWEEN ? AND ?", arguments: [first, end]) ?? 0
        let missing = end - first + 1 - count
        return missing == 0 ? [] : [Finding(.history, "\(missing) raw changes are missing from history", table: table.name)]
    }
}
