import AnnalsCore
import AnnalsSQLite
package import AnnalsWire
package import GRDB

/// The relation between a store's tables and the space's tables.
///
/// | the store has | the space has | result |
/// |---|---|---|
/// | the same | the same | alike |
/// | more tables, or columns with a default | less | *additions*: a schema entry brings them to the space before transactions use them |
/// | less | more of those, since an entry that the store applied | *behind*: their values are deferred until the store has migrated |
/// | what it lacked before | the same | *caught up*: the deferred values are written to its rows |
/// | no longer a column or table | the column or table | a *removal*, one of the additions: a schema entry brings it to the space |
/// | a column | no longer the column | *leftover*: its values are exchanged only with replicas that have it too |
/// | a table | no longer the table | *leftover*: it is not tracked any more |
/// | fewer constraints | more | *relaxed*, one of the additions: a schema entry brings the new declaration to the space |
/// | more constraints | fewer | *tightened*, one of the additions: the same, after all work that was written before |
/// | anything else | something else | refused, with the name of the table |
package struct SchemaComparison: Sendable {
    /// What a schema entry must add to the space.
    package var additions = SchemaAdditions()
    /// What the store still lacks.
    package var behind = MissingSchema()
    /// The store has some or all of what it lacked, but its rows do not have the log's values there yet.
    package var isCaughtUp = false

    /// Tables and columns that the space has removed and the store still has.
    package var leftover: [SpaceRemoval] = []

    /// Columns that a rebuild may have renamed; see `checkRenames`.
    private var possibleRenames: [PossibleRename] = []
    /// Tables that another program dropped; see `checkRebuilds`.
    private var dropped: [DroppedTable] = []
    /// The folded names of this store's tables that the space has.
    private var known: Set<String> = []

    package var isAlike: Bool { additions.isEmpty && behind.isEmpty && leftover.isEmpty && !isCaughtUp }

    package init() {}

    /// Throws `AnnalsError` of code `schemaRefused`, which names the first table that differs and the difference.
    ///
    /// - Parameters:
    ///   - renames: renames that are not in the outbox yet; see `SpaceRename`.
    ///   - isMember: The store is in the space. A store that joins neither removes columns nor has leftover ones.
    package init(
        _ here: TrackedTables, _ space: SpaceSchema, missingSchema: MissingSchema, renames: [SpaceRename] = [], operation: String = "sync",
        isMember: Bool = true
    ) throws {
        for table in space.tables where here.table(first: table.name) == nil {
            if missingSchema.has(table: table.name) {
                behind.insert(table: table.name)
            } else if isMember, let list = here.dropped(first: table.name) {
                let removal = SpaceRemoval(table: table.name)
                additions.removals.append(removal)
                dropped.append(DroppedTable(removal: removal, name: list.name, columns: list.columns, isLeftover: list.state == .leftover))
            } else {
                throw SchemaAgreement.refused(
                    operation, "the space has the table \(space.present(table.name)), which is not tracked here",
                    "Declare it as in the space, and track it")
            }
        }
        leftover = here.leftover.map { SpaceRemoval(table: $0.first) }
        try checkReferences(here, operation)
        for entry in here.entries {
            guard let theirs = space.table(named: entry.first.name) else {
                guard space.isRemoved(entry.first.name) else {
                    additions.tables.append(entry.first)
                    continue
                }
                guard isMember else {
                    throw SchemaAgreement.refused(
                        operation, "the space has removed its table \(entry.first.name), which is tracked here",
                        "Untrack it, and join. To give it to the space as a new table, track it afterwards")
                }
                leftover.append(SpaceRemoval(table: entry.first.name))
                continue
            }
            known.insert(entry.definition.name.foldedIdentifier)
            if missingSchema.has(table: theirs.name) { isCaughtUp = true }
            try compare(entry, theirs, space, missingSchema, operation, isMember)
        }
        try checkReferences(space.with(additions.relaxed), here, operation)
        try checkNewReferences(here, operation)
        additions.renames = space.news(renames).filter { $0.holds(in: here) }
    }

    /// Refuses dropped tables to which tables of this store refer.
    private func checkReferences(_ here: TrackedTables, _ operation: String) throws {
        for entry in here.entries {
            let parents = entry.definition.foreignKeys.map(\.parentTable)
            guard let table = dropped.first(where: { table in parents.contains { $0.isSameIdentifier(as: table.name) } }) else { continue }
            throw SchemaAgreement.refused(
                operation, "the table \(table.name) was dropped, and \(entry.definition.name) refers to it",
                "Drop the reference too, or create the table again as it was")
        }
    }

    /// Refuses removed tables to which other tables of the space refer, and new references to tables that the space has removed.
    private func checkReferences(_ space: SpaceSchema, _ here: TrackedTables, _ operation: String) throws {
        if let (child, parent) = space.referrer(to: dropped.map(\.removal.table)) {
            throw SchemaAgreement.refused(
                operation, "the table \(space.present(parent)) was dropped, and \(space.present(child)) refers to it in the space",
                "Drop the reference first, and sync. To get the table back: leave the space, create the table again, and join")
        }
        for entry in here.entries where !space.isRemoved(entry.first.name) {
            guard let parent = entry.first.foreignKeys.map(\.parentTable).first(where: space.isRemoved) else { continue }
            throw SchemaAgreement.refused(
                operation, "the table \(entry.definition.name) refers to \(parent), which the space has removed",
                "Drop the reference, or drop \(entry.definition.name)")
        }
    }

    /// Refuses new columns that refer to a table without history. Other replicas would not have its rows.
    private func checkNewReferences(_ here: TrackedTables, _ operation: String) throws {
        for change in additions.columns {
            guard let key = change.foreignKeys.first(where: { here.table(first: $0.parentTable) == nil }) else { continue }
            throw SchemaAgreement.refused(
                operation,
                "the new column \(key.columns.joined(separator: ", ")) of \(change.table) refers to \(key.parentTable), which is not tracked",
                "Track \(key.parentTable), and sync again", commandHint: "Run annals track STORE \(key.parentTable), and sync again")
        }
    }

    /// A table of the space that another program dropped, with its last local name and columns.
    private struct DroppedTable: Sendable {
        var removal: SpaceRemoval
        var name: String
        var columns: [String]
        /// The file still has it.
        var isLeftover: Bool
    }

    /// Refuses the removal of a dropped table if the file has another table with its columns. A tool that rebuilds a table in several
    /// transactions leaves this state for a moment. To be called before the additions are offered to the space.
    ///
    /// - Parameters:
    ///   - offered: the entries that the outbox has already.
    ///   - tables: all tables of the file.
    package func checkRebuilds(_ offered: () throws -> [SchemaEntry], _ tables: () throws -> [DeclaredTable]) throws {
        guard !dropped.isEmpty else { return }
        let offered = try offered().flatMap(\.removals)
        let others = try tables().filter { $0.kind == .table && !known.contains($0.name.foldedIdentifier) }
        for table in dropped where !table.isLeftover && !offered.contains(where: table.removal.isSame) {
            guard let copy = others.first(where: { other in table.columns.allSatisfy { other.columnIndex(of: $0) != nil } }) else {
                continue
            }
            throw SchemaAgreement.refused(
                "sync", "the table \(table.name) was dropped, and \(copy.name) has all of its columns",
                "If a tool is rebuilding the table, sync again when it is done. If it was renamed: rename \(copy.name) to \(table.name), "
                    + "sync, and rename it with ALTER TABLE. If it was removed: create it again as it was, sync, drop it, and sync; this "
                    + "deletes its rows on all replicas")
        }
    }

    /// A removed and a new column of the same type. A tool that rebuilds a table to rename a column leaves the same trace.
    private struct PossibleRename: Sendable {
        var removal: SpaceRemoval
        var column: String
        var error: AnnalsError
    }

    /// To be called before the additions are offered to the space.
    ///
    /// - Parameter offered: the entries that the outbox has already. Their removed and new columns are known not to be renames.
    /// - Throws: `AnnalsError` with code `schemaRefused` if a column may have been renamed.
    package func checkRenames(_ offered: () throws -> [SchemaEntry]) throws {
        guard !possibleRenames.isEmpty else { return }
        let offered = try offered()
        let layouts = offered.flatMap(\.tracked)
        for rename in possibleRenames where !offered.flatMap(\.removals).contains(where: rename.removal.isSame) {
            let isNew = !layouts.contains { layout in
                layout.name.isSameIdentifier(as: rename.removal.table)
                    && layout.columns.contains { $0.isSameIdentifier(as: rename.column) }
            }
            if isNew { throw rename.error }
        }
    }

    /// Checks whether this store's tables are compatible with a copy of the space at any position. Throws if not.
    @discardableResult
    package static func check(_ here: TrackedTables, of db: Database, with copy: Database) throws -> SchemaComparison {
        let theirs = try SpaceSchema.load(copy) ?? SpaceSchema(TrackedTables.load(copy))
        var missingSchema = try MissingSchema.load(db)
        if let known = try SpaceSchema.load(db) {
            missingSchema.keep(.between(theirs, TrackedTables(known.tables.map { (0, $0) })))
        }
        return try SchemaComparison(here, theirs, missingSchema: missingSchema)
    }

    private mutating func compare(
        _ entry: TrackedTables.Entry, _ theirs: DeclaredTable, _ space: SpaceSchema, _ missingSchema: MissingSchema, _ operation: String,
        _ isMember: Bool
    ) throws {
        let own = entry.first
        let unknown = own.columns.filter { theirs.columnIndex(of: $0.name) == nil }
        let more = isMember ? unknown.filter { !space.isRemoved($0.name, of: theirs.name) } : unknown
        let fewer = theirs.columns.filter { own.columnIndex(of: $0.name) == nil }
        let removed = isMember ? fewer.filter { !missingSchema.has($0.name, of: own.name) } : []
        let names = (more + fewer).map(\.name).sorted().joined(separator: ", ")
        func refuse(_ difference: String) -> AnnalsError {
            let message = "the table \(entry.definition.name) differs from the space's declaration: \(difference)"
            let hint =
                "Declare it here as in the space. A space accepts new tables, new columns that may be NULL or have a constant default, "
                + "removed columns, added and removed constraints, and renames; other changes need another space: leave this one, migrate, "
                + "and join the other"
            guard more.count == 1, fewer.count == 1 else { return SchemaAgreement.refused(operation, message, hint) }
            let (table, old, new) = (entry.definition.name, space.present(fewer[0].name, of: theirs.name), more[0].name)
            let rename = ".column(\"\(old)\", of: \"\(table)\", to: \"\(new)\")"
            let both = "If \(old) was removed and \(new) is another column: add \(old) again, sync, drop it, and sync"
            return SchemaAgreement.refused(
                operation, message, "If it was renamed: migrate(label:renames:) with \(rename). \(both). \(hint)",
                commandHint: "If it was renamed: annals migrate STORE --rename \(table).\(old)=\(new). \(both). \(hint)")
        }
        guard more.allSatisfy(SchemaAdditions.isOptional),
            fewer.allSatisfy({ isMember || missingSchema.has($0.name, of: own.name) })
        else {
            throw refuse("its columns (\(names))")
        }
        var isRelaxed = false
        for column in removed {
            if let reason = space.reasonToKeep(column.name, of: theirs) {
                throw refuse("the column \(space.present(column.name, of: theirs.name)) was removed, and it is \(reason)")
            }
            let removal = SpaceRemoval(table: theirs.name, column: column.name)
            additions.removals.append(removal)
            isRelaxed = isRelaxed || space.isConstrained(column.name, of: theirs)
            // If the store has another column with this name, the old one was not renamed.
            guard entry.definition.columnIndex(of: space.present(column.name, of: theirs.name)) == nil else { continue }
            for new in more where new.affinity == column.affinity {
                possibleRenames.append(PossibleRename(removal: removal, column: new.name, error: refuse("its columns (\(names))")))
            }
        }
        for column in unknown where !more.contains(column) { leftover.append(SpaceRemoval(table: theirs.name, column: column.name)) }
        for column in fewer where !removed.contains(column) { behind.insert(column.name, of: own.name) }
        let common = theirs.columns.map(\.name).filter { own.columnIndex(of: $0) != nil }
        let newKeys = own.foreignKeys.filter { key in
            key.columns.contains { name in more.contains { $0.name.isSameIdentifier(as: name) } }
        }
        guard newKeys.allSatisfy({ key in key.columns.count == 1 && more.contains { $0.isKeyOfNothing(key) } }) else {
            throw refuse("its foreign keys (\(names))")
        }
        let newChecks = own.checks(naming: more.map(\.name))
        let addedChecks = newChecks.filter { own.names(in: $0).allSatisfy { name in more.contains { $0.name.isSameIdentifier(as: name) } } }
        var isTightened = addedChecks.count < newChecks.count
        if isTightened, !isMember { throw refuse("its CHECK constraints") }
        let (mine, other) = (own.arranged(common), theirs.arranged(common))
        if let difference = SchemaAgreement.difference(mine, other) {
            guard isMember else { throw refuse(difference) }
            if SchemaAgreement.isTightened(mine, from: other) {
                isTightened = true
            } else if let difference = SchemaAgreement.differenceBesidesRemovedConstraints(mine, other) {
                throw refuse(difference)
            } else {
                isRelaxed = true
            }
        }
        if isRelaxed, isTightened { throw refuse("constraints were removed and others added. Make two migrations, and sync in between") }
        if common.contains(where: { space.isAdded($0, of: own.name) && missingSchema.has($0, of: own.name) }) { isCaughtUp = true }
        if isRelaxed || isTightened {
            // The declaration that the entry carries has all columns of the space, and no others.
            let missing = fewer.filter { !removed.contains($0) }.map { space.present($0.name, of: theirs.name) }
            guard missing.isEmpty else {
                throw refuse("it lacks columns that the space added (\(missing.joined(separator: ", ")))")
            }
            let old = unknown.filter { !more.contains($0) }.map(\.name)
            guard old.isEmpty else { throw refuse("it has columns that the space has removed (\(old.joined(separator: ", ")))") }
            if space.breaksReferences(own) { throw refuse("a UNIQUE constraint to which a foreign key refers was removed") }
            if isRelaxed { additions.relaxed.append(own) } else { additions.tightened.append(own) }
        }
        guard !more.isEmpty else { return }
        additions.columns.append(SchemaAdditions.Columns(table: theirs.name, columns: more, foreignKeys: newKeys, checks: addedChecks))
    }
}

extension DeclaredTable.Column {
    /// Whether the column belongs to the key and is NULL by default.
    fileprivate func isKeyOfNothing(_ key: DeclaredTable.ForeignKey) -> Bool {
        key.columns.first?.isSameIdentifier(as: name) ?? false && (defaultSQL ?? "NULL").uppercased() == "NULL"
    }
}

extension DeclaredTable {
    /// The table with these columns only, in that order, and with the foreign keys and CHECK constraints that need no other column.
    package func arranged(_ names: [String]) -> DeclaredTable {
        var table = self
        let columnIndexes = names.compactMap(columnIndex(of:))
        table.columns = columnIndexes.map { columns[$0] }
        table.primaryKey = primaryKey.compactMap { columnIndexes.firstIndex(of: $0) }
        table.rowidAlias = rowidAlias.flatMap { columnIndexes.firstIndex(of: $0) }
        let outside = columns.indices.filter { !columnIndexes.contains($0) }.map { columns[$0].name }
        table.foreignKeys = foreignKeys.filter { key in
            !key.columns.contains { name in outside.contains { $0.isSameIdentifier(as: name) } }
        }
        let others = checks(naming: outside)
        table.checks = checks.filter { !others.contains($0) }
        for index in table.foreignKeys.indices {
            table.foreignKeys[index].columnIndexes = table.foreignKeys[index].columns.map(table.columnIndex(of:))
        }
        for index in table.uniqueIndexes.indices {
            for part in table.uniqueIndexes[index].columns.indices {
                let name = table.uniqueIndexes[index].columns[part].name
                table.uniqueIndexes[index].columns[part].columnIndex = name.flatMap(table.columnIndex(of:))
            }
        }
        return table
    }

    /// The table without constraints that concern only these columns: NOT NULL, CHECK and foreign keys.
    package func withoutConstraints(of names: [String]) -> DeclaredTable {
        func isOne(_ name: String) -> Bool { names.contains { $0.isSameIdentifier(as: name) } }
        var table = self
        for index in columns.indices where isOne(columns[index].name) { table.columns[index].isNotNull = false }
        table.foreignKeys.removeAll { $0.columns.allSatisfy(isOne) }
        table.checks.removeAll { self.names(in: $0).allSatisfy(isOne) }
        return table
    }

    /// The CHECK constraints that name one of these columns.
    package func checks(naming columns: [String]) -> [String] {
        checks.filter { check in names(in: check).contains { name in columns.contains { $0.isSameIdentifier(as: name) } } }
    }

    /// The names of this table's columns in an expression, generated ones too.
    package func names(in expression: String) -> [String] {
        let words = Set(SQLToken.all(in: expression).compactMap { $0.identifier?.foldedIdentifier })
        return (columns.map(\.name) + generatedColumns.map(\.name)).filter { words.contains($0.foldedIdentifier) }
    }
}
