import AnnalsCore
import AnnalsSQLite
package import GRDB

/// How a store's tables stand to the space's.
///
/// | the store has | the space has | |
/// |---|---|---|
/// | the same | the same | alike |
/// | more tables, or more columns with a default | | *ahead*: a schema entry tells the space, before the work that uses them |
/// | | more of those, since an entry that the store passed | *behind*: what it does not know is kept until it has migrated |
/// | what it was behind by | | *caught up*: what was kept goes into its rows |
/// | anything else | otherwise | refused by name |
package struct SchemaComparison: Sendable {
    /// What the space is to be told.
    package var ahead = SchemaAdditions()
    /// What is still lacked; not what the store has by now.
    package var behind = MissingSchema()
    /// The store has what it lacked, in part or all of it, and its rows are not the log's there yet.
    package var isCaughtUp = false

    package var isAlike: Bool { ahead.isEmpty && behind.isEmpty && !isCaughtUp }

    package init() {}

    /// Throws `AnnalsError` of code schemaRefused, naming the first table that differs and how.
    ///
    /// - Parameter renames: what the space is still to be told of; see `SpaceRename`.
    package init(
        _ here: TrackedTables, _ space: SpaceSchema, missingSchema: MissingSchema, renames: [SpaceRename] = [], operation: String = "sync"
    ) throws {
        for table in space.tables where here.table(first: table.name) == nil {
            guard missingSchema.has(table: table.name) else {
                throw SchemaAgreement.refused(
                    operation, "the space has the table \(space.present(table.name)), which is not tracked here",
                    "Create and track it first")
            }
            behind.insert(table: table.name)
        }
        for entry in here.entries {
            guard let theirs = space.table(named: entry.first.name) else {
                ahead.tables.append(entry.first)
                continue
            }
            if missingSchema.has(table: theirs.name) { isCaughtUp = true }
            try compare(entry, theirs, space, missingSchema, operation)
        }
        ahead.renames = space.news(renames).filter { $0.holds(in: here) }
    }

    /// Whether a copy of the space at some position, and this store's tables, can be one space's.
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
        _ entry: TrackedTables.Entry, _ theirs: DeclaredTable, _ space: SpaceSchema, _ missingSchema: MissingSchema, _ operation: String
    ) throws {
        let own = entry.first
        let more = own.columns.filter { theirs.place(of: $0.name) == nil }
        let fewer = theirs.columns.filter { own.place(of: $0.name) == nil }
        let names = (more + fewer).map(\.name).sorted().joined(separator: ", ")
        func refuse(_ difference: String) -> AnnalsError {
            var hint =
                "Declare it here as the space has it. A space takes new tables, new columns that may be NULL or have a "
                + "constant default, and renames; another form needs another space: leave this one, migrate, and join that"
            if more.count == 1, fewer.count == 1 {
                let old = space.present(fewer[0].name, of: theirs.name)
                hint = "If it was renamed: annals migrate STORE --rename \(entry.definition.name).\(old)=\(more[0].name). " + hint
            }
            return SchemaAgreement.refused(
                operation, "the table \(entry.definition.name) is declared otherwise in the space: \(difference)", hint)
        }
        guard fewer.allSatisfy({ missingSchema.has($0.name, of: own.name) }), more.allSatisfy(SchemaAdditions.isOptional) else {
            throw refuse("its columns (\(names))")
        }
        for column in fewer { behind.insert(column.name, of: own.name) }
        let common = theirs.columns.map(\.name).filter { own.place(of: $0) != nil }
        let newKeys = own.foreignKeys.filter { key in key.columns.contains { theirs.place(of: $0) == nil && own.place(of: $0) != nil } }
        guard newKeys.allSatisfy({ key in key.columns.count == 1 && more.contains { $0.isKeyOfNothing(key) } }) else {
            throw refuse("its foreign keys (\(names))")
        }
        if let difference = SchemaAgreement.difference(own.arranged(common), theirs.arranged(common)) { throw refuse(difference) }
        for name in common where space.isAdded(name, of: own.name) {
            if missingSchema.has(name, of: own.name) { isCaughtUp = true }
            let defaults = [own, theirs].map { table in table.columns.first { $0.name.isSameIdentifier(as: name) }?.defaultSQL ?? "NULL" }
            if defaults[0].uppercased() != defaults[1].uppercased() || (defaults[0] != defaults[1] && defaults[0].contains("'")) {
                throw refuse("the default of the column \(name)")
            }
        }
        if !more.isEmpty { ahead.columns.append(SchemaAdditions.Columns(table: theirs.name, columns: more, foreignKeys: newKeys)) }
    }
}

extension DeclaredTable.Column {
    /// It belongs to the key, and is NULL until somebody gives it a parent.
    fileprivate func isKeyOfNothing(_ key: DeclaredTable.ForeignKey) -> Bool {
        key.columns.first?.isSameIdentifier(as: name) ?? false && (defaultSQL ?? "NULL").uppercased() == "NULL"
    }
}

extension DeclaredTable {
    /// The table as if it had these columns alone, in that order, with the foreign keys that are within them.
    package func arranged(_ names: [String]) -> DeclaredTable {
        var table = self
        let places = names.compactMap(place(of:))
        table.columns = places.map { columns[$0] }
        table.primaryKey = primaryKey.compactMap { places.firstIndex(of: $0) }
        table.rowidAlias = rowidAlias.flatMap { places.firstIndex(of: $0) }
        let outside = columns.indices.filter { !places.contains($0) }.map { columns[$0].name }
        table.foreignKeys = foreignKeys.filter { key in
            !key.columns.contains { name in outside.contains { $0.isSameIdentifier(as: name) } }
        }
        return table
    }
}
