import AnnalsSQLite
package import GRDB

/// Gives first names to tables and columns that a joined store has come to have.
///
/// 1. What the space has by now under that name, and this store under none, is that: a program renames, or adds, what another did.
/// 2. Otherwise its own name, unless something else has that for its first name: a name that is used anew.
/// 3. Then the name with a suffix, which two programs that do the same choose alike.
package struct NewNames {
    private let db: Database
    private let space: SpaceSchema?

    /// nil where the store is not joined, and nothing has a first name.
    package init?(_ db: Database) throws {
        guard try StoreSchema.isReplica(db) else { return nil }
        self.db = db
        space = try SpaceSchema.load(db)
    }

    /// A column list's names; a place that has a first name already keeps it.
    ///
    /// What gets another first name than its own is noted, so that the space learns what it is called.
    package func columns(_ columns: [String], of table: String, known: [String?]) throws -> [String] {
        let others = space?.table(named: table)?.columns.map(\.name) ?? []
        var names = known
        func isFree(_ name: String) -> Bool { !names.contains { $0?.isSameIdentifier(as: name) ?? false } }
        func isSpaces(_ name: String) -> Bool { others.contains { $0.isSameIdentifier(as: name) } }
        for place in columns.indices where names[place] == nil {
            names[place] = others.first { isFree($0) && space?.present($0, of: table).isSameIdentifier(as: columns[place]) ?? false }
        }
        for place in columns.indices where names[place] == nil && isFree(columns[place]) { names[place] = columns[place] }
        var told: [SpaceRename] = []
        for place in columns.indices where names[place] == nil {
            let name = Self.suffixed(columns[place]) { isFree($0) && !isSpaces($0) }
            names[place] = name
            told.append(SpaceRename(table: table, column: name, name: columns[place]))
        }
        try SpaceRename.tell(told, db)
        return zip(names, columns).map { $0 ?? $1 }
    }

    /// The first name of a table that is tracked from now on.
    package func table(_ name: String) throws -> String {
        let taken = try TrackedTable.fetchTracked(db).filter { !$0.name.isSameIdentifier(as: name) }.map(\.first.table)
        func isFree(_ name: String) -> Bool { !taken.contains { $0.isSameIdentifier(as: name) } }
        let others = space?.tables.map(\.name) ?? []
        if let known = others.first(where: { isFree($0) && space?.present($0).isSameIdentifier(as: name) ?? false }) { return known }
        if isFree(name) { return name }
        let first = Self.suffixed(name) { name in isFree(name) && !others.contains { $0.isSameIdentifier(as: name) } }
        try SpaceRename.tell([SpaceRename(table: first, column: nil, name: name)], db)
        return first
    }

    /// The name, or the first with a suffix that is free.
    package static func free(_ name: String, _ isFree: (String) -> Bool) -> String {
        isFree(name) ? name : suffixed(name, isFree)
    }

    private static func suffixed(_ name: String, _ isFree: (String) -> Bool) -> String {
        var number = 2
        while !isFree("\(name)~\(number)") { number += 1 }
        return "\(name)~\(number)"
    }
}
