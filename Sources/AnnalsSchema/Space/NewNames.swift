import AnnalsCore
import AnnalsSQLite
package import GRDB

/// Gives canonical names to new tables and columns of a joined store.
///
/// 1. If the space has something with that current name, and the store does not have it yet, the new table or column is the same
///    thing: this program renamed or added what another program renamed or added.
/// 2. Otherwise it gets its own name, unless that is already the canonical name of something else, because the name is reused.
/// 3. Otherwise it gets its name with a suffix. Two programs that make the same change choose the same suffix.
///
/// A table or column that was removed and added again is another one, so it gets a suffix too.
package struct NewNames {
    private let db: Database
    private let space: SpaceSchema?
    private let missingSchema: MissingSchema

    /// nil if the store is not joined, because then nothing has a canonical name.
    package init?(_ db: Database) throws {
        guard try StoreSchema.isReplica(db) else { return nil }
        self.db = db
        space = try SpaceSchema.load(db)
        missingSchema = try MissingSchema.load(db)
    }

    /// The canonical names of a column list. A column that has a canonical name keeps it.
    ///
    /// If the canonical name differs from the column's own name, a rename is stored, so that the space learns the current name.
    ///
    /// - Parameters:
    ///   - known: for each column its canonical name, if it has one.
    ///   - before: the canonical names of the list that this one continues; nil if the table was not tracked.
    package func columns(_ columns: [String], of table: String, known: [String?], before: [String]?) throws -> [String] {
        let others = space?.table(named: table)?.columns.map(\.name) ?? []
        var names = known
        func isFree(_ name: String) -> Bool { !names.contains { $0?.isSameIdentifier(as: name) ?? false } }
        func isSpaces(_ name: String) -> Bool { others.contains { $0.isSameIdentifier(as: name) } }
        // If neither the list before nor the missing schema has a column of the space, this store has removed it.
        func wasRemoved(_ name: String) -> Bool {
            guard let before else { return false }
            let isOwn = before.contains { $0.isSameIdentifier(as: name) } || missingSchema.has(name, of: table)
            return space?.isRemoved(name, of: table) ?? false || isSpaces(name) && !isOwn
        }
        for columnIndex in columns.indices where names[columnIndex] == nil {
            names[columnIndex] = others.first {
                isFree($0) && !wasRemoved($0) && space?.present($0, of: table).isSameIdentifier(as: columns[columnIndex]) ?? false
            }
        }
        for columnIndex in columns.indices where names[columnIndex] == nil {
            let name = columns[columnIndex]
            if isFree(name), !wasRemoved(name) { names[columnIndex] = name }
        }
        var renames: [SpaceRename] = []
        for columnIndex in columns.indices where names[columnIndex] == nil {
            let name = Self.suffixed(columns[columnIndex]) { isFree($0) && !isSpaces($0) && !wasRemoved($0) }
            names[columnIndex] = name
            renames.append(SpaceRename(table: table, column: name, name: columns[columnIndex]))
        }
        try SpaceRename.add(renames, db)
        return zip(names, columns).map { $0 ?? $1 }
    }

    /// The canonical name of a newly tracked table.
    package func table(_ name: String) throws -> String {
        let taken = try TrackedTable.fetchAll(db).filter { list in
            list.state == .tracked && !list.name.isSameIdentifier(as: name) || list.state == .leftover || list.state == .removed
        }.map(\.first.table)
        func isFree(_ name: String) -> Bool {
            !taken.contains { $0.isSameIdentifier(as: name) } && !(space?.isRemoved(name) ?? false)
        }
        let others = space?.tables.map(\.name) ?? []
        if let known = others.first(where: { isFree($0) && space?.present($0).isSameIdentifier(as: name) ?? false }) { return known }
        if isFree(name) { return name }
        let first = Self.suffixed(name) { name in isFree(name) && !others.contains { $0.isSameIdentifier(as: name) } }
        try SpaceRename.add([SpaceRename(table: first, column: nil, name: name)], db)
        return first
    }

    /// The name, or the name with the first suffix that is free.
    package static func free(_ name: String, _ isFree: (String) -> Bool) -> String {
        isFree(name) ? name : suffixed(name, isFree)
    }

    private static func suffixed(_ name: String, _ isFree: (String) -> Bool) -> String {
        var number = 2
        while !isFree("\(name)~\(number)") { number += 1 }
        return "\(name)~\(number)"
    }
}
