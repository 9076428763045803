import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Gives the space's current names to a store that is made from a snapshot. The file has the names of its maker. They are kept if
/// something refers to them that SQLite does not rewrite.
package struct SnapshotNames {
    /// A tracked table of the file.
    package struct Table {
        package var own: String
        package var first: CanonicalNames.Names
    }

    private let db: Database
    private let contents: SnapshotFile.Contents

    package init(_ db: Database, _ contents: SnapshotFile.Contents) {
        self.db = db
        self.contents = contents
    }

    /// The canonical names of a maker's tables, if they differ from the names in its file.
    package static func canonicalNames(_ tables: TrackedTables) -> [String: CanonicalNames.Names] {
        var names: [String: CanonicalNames.Names] = [:]
        for entry in tables.entries {
            let own = CanonicalNames.Names(table: entry.definition.name, columns: entry.definition.columns.map(\.name))
            let first = CanonicalNames.Names(table: entry.first.name, columns: entry.first.columns.map(\.name))
            if own != first { names[entry.definition.name] = first }
        }
        return names
    }

    /// Renames tables and columns before anything is tracked. If SQLite refuses, for example because of a view that it cannot read, the
    /// maker's names stay.
    package func takePresentNames() throws -> [Table] {
        let reader = SchemaReader(db)
        let tables = try contents.tracked.map { name in
            let columns = try reader.table(name)?.columns.map(\.name) ?? []
            let first = contents.canonicalNames[name] ?? CanonicalNames.Names(table: name, columns: columns)
            guard first.columns.count == columns.count else { throw Corruption(OwnTables.snapshotDescription) }
            return (own: name, columns: columns, first: first)
        }
        let original = tables.map { Table(own: $0.own, first: $0.first) }
        guard let present = contents.presentNames ?? (contents.canonicalNames.isEmpty ? nil : [:]) else { return original }
        var names = NameMap()
        for table in tables {
            let now = present[table.first.table.foldedIdentifier]
            let columns = table.first.columns.map { now?.columns[$0.foldedIdentifier] ?? $0 }
            names.add(table.own, as: now?.name ?? table.first.table, columns: Array(zip(table.columns, columns)))
        }
        // A full-text index refers to the names of its table, and SQLite does not rewrite these references.
        guard !names.isEmpty, try FullTextIndexes.withExternalContent(db).isEmpty else { return original }
        do {
            try db.inSavepoint {
                try Renaming(db, names).run()
                return .commit
            }
        } catch is DatabaseError {
            return original
        }
        return tables.map { Table(own: names.table($0.own), first: $0.first) }
    }

    /// Saves the canonical names for the layouts of the tracked tables.
    package static func save(_ tables: [Table], _ db: Database) throws {
        var names: [Int64: CanonicalNames.Names] = [:]
        for list in try TrackedTable.fetchTracked(db) {
            guard let table = tables.first(where: { $0.own.isSameIdentifier(as: list.name) }) else { continue }
            if table.first != CanonicalNames.Names(table: list.name, columns: list.columns) { names[list.id] = table.first }
        }
        try CanonicalNames.save(names, db)
    }
}
