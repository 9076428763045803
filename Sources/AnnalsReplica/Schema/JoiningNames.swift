package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// What a store that joins a space calls the space's tables and columns: the space's present names as a copy of it has them, or their
/// first names, as a program does that has not heard of a rename.
package struct JoiningNames {
    private let db: Database
    /// The copy's tables.
    package let theirs: TrackedTables

    package init(_ db: Database, _ other: Database) throws {
        self.db = db
        theirs = try TrackedTables.load(other)
    }

    /// This store's tables with the first names that they have in the space.
    package func named(_ tables: TrackedTables) -> TrackedTables {
        var names = NameMap()
        for (entry, first) in matches(tables) {
            names.add(entry.definition.name, as: first.table, columns: Array(zip(entry.definition.columns.map(\.name), first.columns)))
        }
        return TrackedTables(tables.entries.map { ($0.id, $0.definition) }, firstNames: names)
    }

    /// Keeps them, as those of the lists that are in use.
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
        return zip(tables.entries, found).map { entry, place in
            let own = entry.definition.columns.map(\.name)
            guard let place else { return (entry, CanonicalNames.Names(table: entry.definition.name, columns: own)) }
            let (present, first) = (others[place].definition.columns.map(\.name), others[place].first.columns.map(\.name))
            let columns = Self.match(own, present: present, first: first)
            return (
                entry,
                CanonicalNames.Names(
                    table: others[place].first.name, columns: zip(own, columns).map { name, at in at.map { first[$0] } ?? name })
            )
        }
    }

    /// For each name the place of what is called so, or was first.
    private static func match(_ names: [String], present: [String], first: [String]) -> [Int?] {
        var found = names.map { name in present.firstIndex { $0.isSameIdentifier(as: name) } }
        for place in names.indices where found[place] == nil {
            let other = first.firstIndex { $0.isSameIdentifier(as: names[place]) }
            if !found.contains(other) { found[place] = other }
        }
        return found
    }
}
