import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import AnnalsStore
import GRDB

/// The tables that a list's request reads, divided into those with history and those without.
struct ListTables {
    private(set) var tracked: [String] = []
    private(set) var haveUntracked = false
    /// What the request reads, in terms of history. A change in history names the written columns but never generated ones, so a
    /// request that reads a generated column depends on all columns of its table.
    private(set) var region: DatabaseRegion

    init(_ region: DatabaseRegion, _ db: Database) throws {
        self.region = region
        let names = Set(try TrackedTable.fetchTracked(db).map { $0.name.foldedIdentifier })
        let tables = try String.fetchAll(
            db.cachedStatement(sql: "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'annals\\_%' ESCAPE '\\'"))
        for table in tables where region.isModified(byEventsOfKind: .insert(tableName: table)) {
            if names.contains(table.foldedIdentifier) { tracked.append(table) } else { haveUntracked = true }
            let generated = try String.fetchAll(
                db.cachedStatement(sql: "SELECT name FROM pragma_table_xinfo(?) WHERE hidden IN (2, 3)"), arguments: [table])
            guard region.isModified(byEventsOfKind: .update(tableName: table, columnNames: Set(generated))) else { continue }
            self.region.formUnion(try Table(table).databaseRegion(db))
        }
    }

    /// - Throws: `AnnalsError` with code `notTracked` if no table has history.
    func check(_ table: String) throws {
        guard tracked.isEmpty else { return }
        throw AnnalsError(
            .notTracked, operation: "list", "no table that the list of \(table) reads has history",
            hint: "Track \(table): a list finds changes in history")
    }
}

extension DatabaseRegion {
    /// Whether a change in history is in these tables and columns.
    func isModified(by change: HistoryChange) -> Bool {
        switch change.kind {
        case .insert: isModified(byEventsOfKind: .insert(tableName: change.table))
        case .delete: isModified(byEventsOfKind: .delete(tableName: change.table))
        case .update:
            isModified(byEventsOfKind: .update(tableName: change.table, columnNames: Set(change.columns.map(\.name))))
        }
    }
}
