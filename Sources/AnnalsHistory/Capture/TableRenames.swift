package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Follows tables that got other names: their capture triggers stand on them still.
package struct TableRenames {
    private let db: Database

    package init(_ db: Database) {
        self.db = db
    }

    /// Tracked tables whose triggers stand on a table of another name: SQLite moved them there.
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

    /// All at once, since tables may have swapped their names. In a joined store the space is told next.
    package func run() throws -> [Drift.Finding] {
        let renamed = try pending()
        guard !renamed.isEmpty else { return [] }
        if try StoreSchema.isReplica(db) {
            try CanonicalNames.keep(ofTablesNamed: renamed.map(\.table.name), db)
            try SpaceRename.tell(renamed.map { SpaceRename(table: $0.table.first.table, column: nil, name: $0.name) }, db)
        }
        // Retired lists of the same table go with it, so that its history stays under one name.
        try TrackedTable.rename(renamed.map { ($0.table.name, $0.name) }, db)
        return renamed.filter { !$0.name.isSameIdentifier(as: $0.table.name) }
            .map { .tableRenamed(id: $0.table.id, from: $0.table.name, to: $0.name) }
    }
}

/// The first names of a column list that continues another.
struct RepairedTableNames {
    private let db: Database
    private let new: NewNames
    private let old: TrackedTable
    private let isContinued: Bool

    /// nil in a store that is not joined.
    ///
    /// - Parameter isContinued: the old triggers stand on the table as they were, so columns are where they were.
    init?(_ db: Database, _ old: TrackedTable, isContinued: Bool) throws {
        guard let new = try NewNames(db) else { return nil }
        (self.db, self.new, self.isContinued) = (db, new, isContinued)
        self.old = try TrackedTable.fetchAll(db).first { $0.id == old.id } ?? old
    }

    package func give(to list: TrackedTable) throws {
        let first = old.first
        let known = list.columns.enumerated().map { place, column -> String? in
            if isContinued { return place < first.columns.count ? first.columns[place] : nil }
            return old.columns.firstIndex { $0.isSameIdentifier(as: column) }.map { first.columns[$0] }
        }
        let columns = try new.columns(list.columns, of: first.table, known: known)
        try CanonicalNames.set(CanonicalNames.Names(table: first.table, columns: columns), of: list, db)
        guard isContinued else { return }
        let renamed = old.columns.indices.filter { !old.columns[$0].isSameIdentifier(as: list.columns[$0]) }
        try SpaceRename.tell(renamed.map { SpaceRename(table: first.table, column: first.columns[$0], name: list.columns[$0]) }, db)
    }
}
