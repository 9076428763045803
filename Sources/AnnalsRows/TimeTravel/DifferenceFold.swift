import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// Folds the changes of consecutive transactions into the differences between the first and the last state, row by row.
///
/// Net changes are written to tables of an attached temporary database, and read sorted by key. The first change of a key has
/// the row before, the last change has the row after. So memory stays constant with any number of changes: SQLite sorts on
/// disk if its cache is too small.
///
///     let fold = DifferenceFold(db, schema: "annals_copy", changes: changes, chosen: chosen)
///     for number in 5...17 { try fold.add(transaction: number) }
///     for table in fold.tables { try fold.forEachRow(of: table) { row in … } }
///
/// Rows are identified by their keys, as the key's index compares them. Rows with NULL in the key are identified by all their
/// values and counted.
final class DifferenceFold {
    private let db: Database
    private let schema: String
    private let changes: NetChanges
    /// nil for everything.
    private let chosen: ChosenDifference?
    private var gathered: [Int64: GatheredTable] = [:]

    init(_ db: Database, schema: String, changes: NetChanges, chosen: ChosenDifference? = nil) {
        self.db = db
        self.schema = schema
        self.changes = changes
        self.chosen = chosen
    }

    /// Adds the changes of a transaction to currently tracked tables. Transactions must be added in their order.
    ///
    /// - Parameter ids: the ids of the tables whose changes are added; nil for all.
    package func add(transaction number: Int64, of ids: Set<Int64>? = nil) throws {
        try add(changes.parts(of: number), number, of: ids)
    }

    /// Adds what the divided transaction of a point did after the point. If `isUndone`, it is undone, after the transaction was added.
    func add(after point: HistoryPoint, of ids: Set<Int64>? = nil, isUndone: Bool = false) throws {
        guard let number = point.dividedTransaction else { return }
        try add(changes.parts(after: point), isUndone ? number + 1 : number, of: ids, isUndone: isUndone)
    }

    private func add(_ parts: [NetChanges.Part], _ number: Int64, of ids: Set<Int64>?, isUndone: Bool = false) throws {
        for part in parts where (chosen?.holds(part.entry) ?? true) && (ids?.contains(part.entry.id) ?? true) {
            let table = try gathered(part.entry)
            try changes.forEachRow(in: part) { change in
                var change = change
                if isUndone { (change.old, change.new) = (change.new, change.old) }
                try table.add(change, number)
            }
        }
    }

    /// The tables with added changes, parents first.
    package var tables: [TrackedTables.Entry] {
        func order(_ entry: TrackedTables.Entry) -> Int { changes.tables.order[entry.definition.name] ?? .max }
        return gathered.values.map(\.entry).sorted { (order($0), $0.id) < (order($1), $1.id) }
    }

    /// Visits the rows of one table that differ, with their values before and after. Can be called again, and does not read the
    /// store.
    package func forEachRow(of entry: TrackedTables.Entry, _ visit: (NetChange) throws -> Void) throws {
        try gathered[entry.id]?.forEachRow(visit)
    }

    /// Visits every change of a table, sorted by key and then by transaction, with at most one change of a key for each transaction.
    func forEachStep(of entry: TrackedTables.Entry, _ visit: (RowIdentity, Int64, NetChange) throws -> Void) throws {
        try gathered[entry.id]?.forEachStep(visit)
    }

    /// Visits the rows of one table that differ and have NULL in the key.
    func forEachLoose(of entry: TrackedTables.Entry, _ visit: (NetChange) throws -> Void) throws {
        try gathered[entry.id]?.forEachLoose(visit)
    }

    /// Removes the temporary tables. For a fold in the connection's own temporary schema, which outlives the fold.
    func drop() throws {
        for table in gathered.values { try table.drop() }
        gathered.removeAll()
    }

    private func gathered(_ entry: TrackedTables.Entry) throws -> GatheredTable {
        if let known = gathered[entry.id] { return known }
        let table = try GatheredTable(db, schema: schema, entry, only: chosen?.row)
        gathered[entry.id] = table
        return table
    }
}
