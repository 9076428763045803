import AnnalsCore
import AnnalsSQLite
package import GRDB

/// The relation between a store's tables and the space's tables.
///
/// | the store has | the space has | result |
/// |---|---|---|
/// | the same | the same | alike |
/// | more tables, or columns with a default | less | *additions*: a schema entry brings them to the space before transactions use them |
/// | less | more of those, since an entry that the store applied | *behind*: their values are deferred until the store has migrated |
/// | what it lacked before | the same | *caught up*: the deferred values are written to its rows |
/// | anything else | something else | refused, with the name of the table |
package struct SchemaComparison: Sendable {
    /// What a schema entry must add to the space.
    package var additions = SchemaAdditions()
    /// What the store still lacks.
    package var behind = MissingSchema()
    /// The store has some or all of what it lacked, but its rows do not have the log's values there yet.
    package var isCaughtUp = false

    package var isAlike: Bool { additions.isEmpty && behind.isEmpty && !isCaughtUp }

    package init() {}

    /// Throws `AnnalsError` of code `schemaRefused`, which names the first table that differs and the difference.
    ///
    /// - Parameter renames: renames that are not in the outbox yet; see `SpaceRename`.
    package init(
        _ here: TrackedTables, _ space: SpaceSchema, missingSchema: MissingSchema, renames: [SpaceRename] = [], operation: String = "sync"
    ) throws {
        for table in space.tables where here.table(first: table.name) == nil {
            guard missingSchema.has(table: table.name) else {
                throw SchemaAgreement.refused(
                    operation, "the space has the table \(space.present(table.name)), which is not tracked here",
                    "Declare it as in the space, and track it")
            }
            behind.insert(table: table.name)
        }
        for entry in here.entries {
            guard let theirs = space.table(named: entry.first.name) else {
                additions.tables.append(entry.first)
                continue
            }
            if missingSchema.has(table: theirs.name) { isCaughtUp = true }
            try compare(entry, theirs, space, missingSchema, operation)
        }
        additions.renames = space.news(renames).filter { $0.holds(in: here) }
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
        _ entry: TrackedTables.Entry, _ theirs: DeclaredTable, _ space: SpaceSchema, _ missingSchema: MissingSchema, _ operation: String
    ) throws {
        let own = entry.first
        let more = own.columns.filter { theirs.columnIndex(of: $0.name) == nil }
        let fewer = theirs.columns.filter { own.columnIndex(of: $0.name) == nil }
        let names = (more + fewer).map(\.name).sorted().joined(separator: ", ")
        func refuse(_ difference: String) -> AnnalsError {
            let message = "the table \(entry.definition.name) differs from the space's declaration: \(difference)"
            let hint =
                "Declare it here as in the space. A space accepts new tables, new columns that may be NULL or have a "
                + "constant default, and renames; other changes need another space: leave this one, migrate, and join the other"
            guard more.count == 1, fewer.count == 1 else { return SchemaAgreement.refused(operation, message, hint) }
            let (table, old, new) = (entry.definition.name, space.present(fewer[0].name, of: theirs.name), more[0].name)
            let rename = ".column(\"\(old)\", of: \"\(table)\", to: \"\(new)\")"
            return SchemaAgreement.refused(
                operation, message, "If it was renamed: migrate(label:renames:) with \(rename). \(hint)",
                commandHint: "If it was renamed: annals migrate STORE --rename \(table).\(old)=\(new). \(hint)")
        }
        guard fewer.allSatisfy({ missingSchema.has($0.name, of: own.name) }), more.allSatisfy(SchemaAdditions.isOptional) else {
            throw refuse("its columns (\(names))")
        }
        for column in fewer { behind.insert(column.name, of: own.name) }
        let common = theirs.columns.map(\.name).filter { own.columnIndex(of: $0) != nil }
        let newKeys = own.foreignKeys.filter { key in
            key.columns.contains { theirs.columnIndex(of: $0) == nil && own.columnIndex(of: $0) != nil }
        }
        guard newKeys.allSatisfy({ key in key.columns.count == 1 && more.contains { $0.isKeyOfNothing(key) } }) else {
            throw refuse("its foreign keys (\(names))")
        }
        let newChecks = own.checks(naming: more.map(\.name))
        guard newChecks.allSatisfy({ own.names(in: $0).allSatisfy { name in more.contains { $0.name.isSameIdentifier(as: name) } } }) else {
            throw refuse("its CHECK constraints")
        }
        if let difference = SchemaAgreement.difference(own.arranged(common), theirs.arranged(common)) { throw refuse(difference) }
        for name in common where space.isAdded(name, of: own.name) {
            if missingSchema.has(name, of: own.name) { isCaughtUp = true }
            let columns = [own, theirs].compactMap { table in table.columns.first { $0.name.isSameIdentifier(as: name) } }
            // The table was rebuilt with the column. The space knows the value of older rows.
            if columns.allSatisfy(\.isNotNull), columns.first?.defaultSQL == nil { continue }
            let defaults = columns.map { $0.defaultSQL ?? "NULL" }
            if defaults[0].uppercased() != defaults[1].uppercased() || (defaults[0] != defaults[1] && defaults[0].contains("'")) {
                throw refuse("the default of the column \(name)")
            }
        }
        guard !more.isEmpty else { return }
        additions.columns.append(SchemaAdditions.Columns(table: theirs.name, columns: more, foreignKeys: newKeys, checks: newChecks))
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
