import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// Checks that history's own tables are consistent: transactions and spans have no gaps, and every raw change exists.
struct HistoryChecks {
    let db: Database

    /// Missing tables and values without which nothing else can be checked.
    func missingTables() throws -> [Finding] {
        let lost = try OwnTables.history.filter { try !db.tableExists($0) }
        guard lost.isEmpty else { return [Finding(.history, "tables of history are missing: \(lost.joined(separator: ", "))")] }
        guard try StoreSchema.text(.storeID, db) != nil else {
            return [Finding(.history, "the store's identity is missing from \(OwnTables.meta)")]
        }
        let gone = try Meta(db).text(.replica) == nil ? [] : OwnTables.replica.filter { try !db.tableExists($0) }
        return gone.isEmpty ? [] : [Finding(.log, "tables of the replica are missing: \(gone.joined(separator: ", "))")]
    }

    /// Tracked tables without their table of raw changes, or without a whole table of notes.
    func missingLists() throws -> [Finding] {
        try TrackedTable.fetchTracked(db).compactMap { table in
            guard try db.tableExists(StoreSchema.changesTable(table.id)) else {
                return Finding(.history, "the table of raw changes is missing", table: table.name)
            }
            if try NotesTable(columns: table.columns.count).isWhole(db) { return nil }
            return Finding(.history, "the table of notes about replaced rows is missing or altered", table: table.name)
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

    /// A transaction lists the tables it changed, and has a span in each of them that is still known.
    private func transactionsWithoutSpan() throws -> [Finding] {
        let known = Set(try TrackedTable.fetchAll(db).map(\.id))
        let span = try SpanTable(db).find()
        // A purge leaves the newest transaction, without its raw changes.
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
        // A column list that is no longer in use may have no such table.
        guard try db.tableExists(StoreSchema.changesTable(table.id)) else {
            return first == nil ? [] : findings + [Finding(.history, "the table of raw changes is missing", table: table.name)]
        }
        return try findings + missing(table, from: first, recorded: last)
    }

    private func missing(_ table: TrackedTable, from first: Int64?, recorded last: Int64) throws -> [Finding] {
        let changes = StoreSchema.changesTable(table.id)
        let newest = try Int64.fetchOne(db, sql: "SELECT max(id) FROM main.\(changes)") ?? 0
        // Purged raw changes may still exist or not; the newest raw change of a purged table stays.
        guard let first = first ?? (newest > 0 ? newest : nil) else { return [] }
        let end = max(last, newest)
        let count =
            try Int64.fetchOne(db, sql: "SELECT count(*) FROM main.\(changes) WHERE id BETWEEN ? AND ?", arguments: [first, end]) ?? 0
        let missing = end - first + 1 - count
        return missing == 0 ? [] : [Finding(.history, "\(missing) raw changes are missing from history", table: table.name)]
    }
}
