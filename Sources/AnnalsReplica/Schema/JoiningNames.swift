import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Matches the names in a joining store with the space's tables and columns. A store may use the space's current names, from a copy of
/// the space, or the canonical names, if its program does not know a rename.
package struct JoiningNames {
    private let db: Database
    /// The tables of the copy.
    package let theirs: TrackedTables

    package init(_ db: Database, _ other: Database) throws {
        self.db = db
        theirs = try TrackedTables.load(other)
    }

    /// This store's tables with their canonical names in the space.
    package func named(_ tables: TrackedTables) -> TrackedTables {
        var names = NameMap()
        for (entry, first) in matches(tables) {
            names.add(entry.definition.name, as: first.table, columns: Array(zip(entry.definition.columns.map(\.name), first.columns)))
        }
        return TrackedTables(tables.entries.map { ($0.id, $0.definition) }, canonicalNames: names)
    }

    /// Saves the canonical names for the current layouts.
    package func save(_ tables: TrackedTables) throws {
        var names: [Int64: CanonicalNames.Names] = [:]
        for (entry, first) in matches(tables) {
            let own = CanonicalNames.Names(table: entry.definition.name, columns: entry.definition.columns.map(\.name))
            if first != own { names[entry.id] = first }
        }
        try CanonicalNames.save(names, db)
    }

    private func matches(_ tables: TrackedTables) -> [(TrackedTables.Entry, CanonicalNames.Names)] {
        let others = theirs.entries
        let found = Self.match(
            tables.entries.map(\.definition.name), present: others.map(\.definition.name), first: others.map(\.first.name))
        return zip(tables.entries, found).map { entry, columnIndex in
            let own = entry.definition.columns.map(\.name)
            guard let columnIndex else { return (entry, CanonicalNames.Names(table: entry.definition.name, columns: own)) }
            let (present, first) = (others[columnIndex].definition.columns.map(\.name), others[columnIndex].first.columns.map(\.name))
            let columns = Self.match(own, present: present, first: first)
            return (
                entry,
                CanonicalNames.Names(
                    table: others[columnIndex].first.name, columns: zip(own, columns).map { name, at in at.map { first[$0] } ?? name })
            )
        }
    }

    /// For each name, the index of the table or column with this current name or, failing that, this canonical name.
    private static func match(_ names: [String], present: [String], first: [String]) -> [Int?] {
        var found = names.map { name in present.firstIndex { $0.isSameIdentifier(as: name) } }
        for columnIndex in names.indices where found[columnIndex] == nil {
            let other = first.firstIndex { $0.isSameIdentifier(as: names[columnIndex]) }
            if !found.contains(other) { found[columnIndex] = other }
        }
        return found
    }
}
