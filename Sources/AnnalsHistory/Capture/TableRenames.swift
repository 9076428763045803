import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Follows renamed tables. SQLite moves the capture triggers with a table.
package struct TableRenames {
    private let db: Database

    package init(_ db: Database) {
        self.db = db
    }

    /// Tracked tables whose triggers SQLite moved to another table name.
    package func pending() throws -> [(table: TrackedTable, name: String)] {
        var tables: [String: String] = [:]
        for row in try Row.fetchAll(db, sql: "SELECT name, tbl_name FROM main.sqlite_master WHERE type = 'trigger'") {
            tables[try row.value("name")] = try row.value("tbl_name")
        }
        return try TrackedTable.fetchTracked(db).compactMap { table in
            guard let name = tables[CaptureTriggers.names(id: table.id)[0]], name != table.name else { return nil }
            return (table, name)
        }
    }

    /// Renames all tables at once, because they may have swapped names. In a joined store the renames go to the space later.
    package func run() throws -> [Drift.Finding] {
        var renamed = try pending()
        guard !renamed.isEmpty else { return [] }
        try endCopies(&renamed)
        guard !renamed.isEmpty else { return [] }
        if try StoreSchema.isReplica(db) {
            try CanonicalNames.keep(ofTablesNamed: renamed.map(\.table.name), db)
            try SpaceRename.add(renamed.map { SpaceRename(table: $0.table.first.table, column: nil, name: $0.name) }, db)
        }
        // Retired lists of a table are renamed too, so that its whole history has one name.
        try TrackedTable.rename(renamed.map { ($0.table.name, $0.name) }, db)
        return renamed.filter { !$0.name.isSameIdentifier(as: $0.table.name) }
            .map { .tableRenamed(id: $0.table.id, from: $0.table.name, to: $0.name) }
    }

    /// Ends the history of tables with which a tool rebuilt another table: the other table was dropped, and this one got its name. The
    /// space does not know this one. The history of the other table goes on (`Drift`).
    private func endCopies(_ renamed: inout [(table: TrackedTable, name: String)]) throws {
        guard try StoreSchema.isReplica(db), let space = try SpaceSchema.load(db) else { return }
        let dropped = try TrackedTable.fetchAll(db).filter { $0.state == .dropped && space.table(named: $0.first.table) != nil }
        try renamed.removeAll { copy in
            guard space.table(named: copy.table.first.table) == nil, dropped.contains(where: { $0.name.isSameIdentifier(as: copy.name) })
            else { return false }
            try CaptureTriggers.remove(db, id: copy.table.id)
            try NotesTable(columns: copy.table.columns.count).forget(copy.table.id, db)
            try TrackedTable.set(state: .dropped, of: copy.table.id, db)
            return true
        }
    }
}

/// The canonical names of a column list that continues another.
struct RepairedTableNames {
    private let db: Database
    private let new: NewNames
    private let old: TrackedTable
    private let isContinued: Bool

    /// nil if the store is not joined.
    ///
    /// - Parameter isContinued: the old triggers are unchanged on the table, so columns keep their indices.
    init?(_ db: Database, _ old: TrackedTable, isContinued: Bool) throws {
        guard let new = try NewNames(db) else { return nil }
        (self.db, self.new, self.isContinued) = (db, new, isContinued)
        self.old = try TrackedTable.fetchAll(db).first { $0.id == old.id } ?? old
    }

    package func give(to list: TrackedTable) throws {
        let first = old.first
        let known = list.columns.enumerated().map { columnIndex, column -> String? in
            if isContinued { return columnIndex < first.columns.count ? first.columns[columnIndex] : nil }
            return old.columns.firstIndex { $0.isSameIdentifier(as: column) }.map { first.columns[$0] }
        }
        let columns = try new.columns(list.columns, of: first.table, known: known, before: first.columns)
        try CanonicalNames.set(CanonicalNames.Names(table: first.table, columns: columns), of: list, db)
        guard isContinued else { return }
        let renamed = old.columns.indices.filter { !old.columns[$0].isSameIdentifier(as: list.columns[$0]) }
        try SpaceRename.add(renamed.map { SpaceRename(table: first.table, column: first.columns[$0], name: list.columns[$0]) }, db)
    }
}
