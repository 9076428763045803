import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// The names that a store gives to tables and columns that it creates from the log: the space's current names, or the canonical names, or
/// names with a suffix if the store has something else with that name.
package struct LocalNames {
    /// From canonical names to local names.
    package private(set) var map: NameMap

    package init(_ db: Database, _ space: SpaceSchema, _ additions: SchemaAdditions) throws {
        let tables = try TrackedTables.load(db)
        map = tables.localNames
        let reader = SchemaReader(db)
        for table in additions.tables {
            let wanted = [space.present(table.name), table.name]
            func isFree(_ name: String) -> Bool {
                tables.table(named: name) == nil && !tables.leftover.contains { $0.name.isSameIdentifier(as: name) }
            }
            let name = wanted.first(where: isFree) ?? NewNames.free(table.name, isFree)
            let columns = Self.names(of: table.columns.map(\.name), in: table.name, space, beside: table.generatedColumns.map(\.name))
            map.add(table.name, as: name, columns: columns)
        }
        for change in additions.columns {
            guard let entry = tables.table(first: change.table) else { continue }
            // Other programs may have added columns that are not in the space yet.
            let own = try reader.table(entry.definition.name)
            let others = own.map { $0.columns.map(\.name) + $0.generatedColumns.map(\.name) } ?? []
            let known = zip(entry.first.columns, entry.definition.columns).map { (from: $0.name, to: $1.name) }
            let new = change.columns.map(\.name).filter { entry.first.columnIndex(of: $0) == nil }
            map.add(change.table, as: entry.definition.name, columns: known + Self.names(of: new, in: change.table, space, beside: others))
        }
    }

    private static func names(
        of columns: [String], in table: String, _ space: SpaceSchema, beside others: [String]
    ) -> [(from: String, to: String)] {
        var taken = others
        return columns.map { column in
            let present = space.present(column, of: table)
            func isFree(_ name: String) -> Bool { !taken.contains { $0.isSameIdentifier(as: name) } }
            let name = isFree(present) ? present : NewNames.free(column, isFree)
            taken.append(name)
            return (column, name)
        }
    }

    /// Records the canonical names, after everything is created and tracked.
    package func save(_ additions: SchemaAdditions, _ db: Database) throws {
        let changes = additions.tables.map { ($0.name, $0.columns) } + additions.columns.map { ($0.table, $0.columns) }
        for (table, columns) in changes {
            let own = map.table(table)
            guard let list = try TrackedTable.fetchTracked(db).first(where: { $0.name.isSameIdentifier(as: own) }) else { continue }
            var first = list.first
            first.table = table
            for column in columns.map(\.name) {
                let name = map.column(column, of: table)
                if let columnIndex = list.columns.firstIndex(where: { $0.isSameIdentifier(as: name) }) {
                    first.columns[columnIndex] = column
                }
            }
            try CanonicalNames.set(first, of: list, db)
        }
    }

    /// The additions under local names.
    package func change(_ change: SchemaAdditions.Columns) -> SchemaAdditions.Columns {
        var own = change
        own.table = map.table(change.table)
        for columnIndex in own.columns.indices {
            own.columns[columnIndex].name = map.column(change.columns[columnIndex].name, of: change.table)
        }
        own.foreignKeys = change.foreignKeys.map { map.foreignKey($0, of: change.table) }
        own.checks = change.checks.map { map.expression($0, of: change.table) }
        return own
    }
}

/// Renames that a store follows if it takes its schema from the log.
package enum CurrentNames {
    /// The space's current names that differ from the local names, by local name. If two columns of a table would get one name, its columns
    /// keep theirs.
    package static func differing(_ db: Database, _ space: SpaceSchema, _ tables: TrackedTables) throws -> NameMap {
        var names = NameMap()
        guard space.names != nil || !tables.canonicalNames.isEmpty, try SpaceRename.waiting(db).isEmpty else { return names }
        guard try PendingSchemaEntries.entries(db).allSatisfy(\.renames.isEmpty) else { return names }
        for entry in tables.entries where space.table(named: entry.first.name) != nil {
            let columns = zip(entry.definition.columns, entry.first.columns).map { own, first in
                (from: own.name, to: space.present(first.name, of: entry.first.name))
            }
            let isClear = Set(columns.map(\.to.foldedIdentifier)).count == columns.count
            names.add(entry.definition.name, as: space.present(entry.first.name), columns: isClear ? columns : [])
        }
        return names
    }

    /// Returns false if SQLite refuses the renames, for example because of a view that it cannot read. The sync then continues with the old
    /// names.
    package static func take(_ names: NameMap, _ db: Database, _ step: StoreStep) throws -> Bool {
        guard !names.isEmpty, try FullTextIndexes.withExternalContent(db).isEmpty else { return false }
        do {
            try db.inSavepoint {
                try Renaming(db, names).run()
                return .commit
            }
        } catch is DatabaseError {
            return false
        }
        try step.recordExternal()
        return true
    }
}
