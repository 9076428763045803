package import AnnalsCore
import AnnalsHistory
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Tables of this store with constraints that the space has removed; see `SchemaAdditions.relaxed`.
///
/// Later rows of the space may violate these constraints. So the store waits before the schema entry until its program has removed them, or
/// it rebuilds the tables if it takes its schema from the log.
package struct StricterTables: Error {
    /// The new declarations, the statements that create them, and the new columns of the same entry.
    private let additions: SchemaAdditions
    /// The schema of the space with the new declarations.
    private let space: SpaceSchema
    /// What differs first.
    private let difference: String

    /// nil if this store has none.
    ///
    /// - Parameters:
    ///   - additions: an entry's additions to the space.
    ///   - before: the schema of the space without them.
    package init?(_ here: TrackedTables, _ additions: SchemaAdditions, before: SpaceSchema) {
        var after = before
        after.add(additions)
        self.init(here, additions, before: before, after: after)
    }

    private init?(_ here: TrackedTables, _ additions: SchemaAdditions, before: SpaceSchema, after: SpaceSchema) {
        var (own, first) = (SchemaAdditions(), "")
        for table in additions.relaxed {
            guard let entry = here.table(first: table.name), let difference = Self.difference(entry.first, table, before) else { continue }
            if own.relaxed.isEmpty { first = "\(entry.definition.name): \(difference)" }
            own.relaxed.append(table)
            own.statements[table.name] = additions.statements.first { $0.key.isSameIdentifier(as: table.name) }?.value
            own.columns += additions.columns.filter { $0.table.isSameIdentifier(as: table.name) }
        }
        guard !own.relaxed.isEmpty else { return nil }
        (self.additions, space, difference) = (own, after, first)
    }

    /// The tables that are stricter than those of a copy of the space at a later position; nil if there are none.
    package init?(_ here: TrackedTables, of db: Database, than copy: Database) throws {
        guard let before = try SpaceSchema.load(db), let after = try SpaceSchema.load(copy) else { return nil }
        let theirs = try TrackedTables.load(copy)
        var additions = SchemaAdditions()
        for table in after.tables {
            guard let own = here.table(first: table.name)?.first, Self.difference(own, table, before) != nil else { continue }
            additions.relaxed.append(table)
            additions.statements[table.name] = try CanonicalStatements(copy, theirs).statements(of: table.name)
            let columns = table.columns.filter { own.columnIndex(of: $0.name) == nil }
            additions.columns.append(SchemaAdditions.Columns(table: table.name, columns: columns, foreignKeys: []))
        }
        self.init(here, additions, before: before, after: after)
    }

    /// The constraints that a table here has and the new declaration does not have, in a few words.
    private static func difference(_ own: DeclaredTable, _ new: DeclaredTable, _ before: SpaceSchema) -> String? {
        let removed = own.columns.filter { new.columnIndex(of: $0.name) == nil }
        if let known = before.table(named: new.name), let column = removed.first(where: { before.isConstrained($0.name, of: known) }) {
            return "the column \(column.name)"
        }
        let common = new.columns.map(\.name).filter { own.columnIndex(of: $0) != nil }
        let (own, new) = (own.arranged(common), new.arranged(common))
        return SchemaAgreement.isRelaxed(own, from: new) ? nil : SchemaAgreement.difference(own, new)
    }

    package var error: AnnalsError {
        AnnalsError(
            .waitingForMigration, operation: "sync", "the space has removed a constraint that this store has in the table \(difference)",
            hint:
                "Bring the schema up to date, then sync again. Local work can continue. To let each sync change the schema: set the policy "
                + "schema of the space to take",
            commandHint: "Bring the schema up to date, then sync again. Local work can continue. To let each sync change the schema: "
                + "annals policy STORE set space --on schema take", underlying: self)
    }

    // MARK: Rebuilding

    /// Rebuilds the tables with their new declarations. Triggers and foreign keys of the connection must be off. To be called after
    /// everything is recorded, in the same SQLite transaction.
    ///
    /// - Throws: `AnnalsError` with code `waitingForMigration` if this is not possible because of other tables, views or triggers.
    package func rebuild(_ db: Database, _ step: StoreStep) throws {
        let names = try LocalNames(db, space, additions)
        let renamed = RenamedStatements(tables: space.tables, names: names.map)
        for table in additions.relaxed {
            let statements = try renamed.rename(additions.statements[table.name] ?? [], of: table.name)
            do {
                let added = additions.columns.filter { $0.table.isSameIdentifier(as: table.name) }.flatMap { names.change($0).columns }
                try rebuild(names.map.table(table.name), by: statements, added, db)
            } catch let cause as DatabaseError {
                var error = error
                error.underlying = cause
                throw error
            }
        }
        step.forgetComparison()
        try step.recordExternal()
        try names.save(additions, db)
        step.forgetComparison()
    }

    /// - Parameter added: new columns, with the values that old rows get.
    private func rebuild(_ name: String, by statements: [String], _ added: [DeclaredTable.Column], _ db: Database) throws {
        guard let old = try SchemaReader(db).table(name), let statement = statements.first else { throw error }
        let kept = try otherObjects(of: old, db)
        let sequence =
            try old.isAutoincrement
            ? Int64.fetchOne(db, sql: "SELECT seq FROM main.sqlite_sequence WHERE name = ?", arguments: [old.name]) : nil
        let tables = RebuiltTables(db)
        try tables.putAside(name, isDropped: true)
        let copy = "annals_rebuilt"
        try db.execute(sql: try Self.statement(statement, creating: copy))
        guard let new = try SchemaReader(db).table(copy), try isUnused(old.columns.filter { new.columnIndex(of: $0.name) == nil }, old, db)
        else { throw error }
        var columns = new.columns.map(\.name).filter { old.columnIndex(of: $0) != nil }
        if !new.isWithoutRowid, new.rowidAlias == nil, new.columnIndex(of: "rowid") == nil { columns.append("rowid") }
        let list = columns.map(SQL.quote).joined(separator: ", ")
        let added = added.filter { new.columnIndex(of: $0.name) != nil && old.columnIndex(of: $0.name) == nil }
        let values = try added.map(AddedColumn.value)
        try db.execute(
            sql: """
                INSERT INTO main.\(copy) (\((columns + added.map(\.name)).map(SQL.quote).joined(separator: ", ")))
                SELECT \(list)\(values.map { _ in ", ?" }.joined()) FROM main.\(SQL.quote(name))
                """, arguments: StatementArguments(values.map(\.databaseValue)))
        try db.execute(sql: "DROP TABLE main.\(SQL.quote(name)); PRAGMA legacy_alter_table = ON")
        defer { SQLiteStatements.putBack("PRAGMA legacy_alter_table = OFF", on: db) }
        try db.execute(sql: "ALTER TABLE main.\(copy) RENAME TO \(SQL.quote(old.name))")
        for sql in statements.dropFirst() { try create(sql, db) }
        for sql in kept { try create(sql, db) }
        if let sequence {
            try db.execute(sql: "DELETE FROM main.sqlite_sequence WHERE name = ?", arguments: [old.name])
            try db.execute(sql: "INSERT INTO main.sqlite_sequence (name, seq) VALUES (?, ?)", arguments: [old.name, sequence])
        }
        try tables.finish()
    }

    /// An index that does not reject rows is local to the store.
    private func create(_ sql: String, _ db: Database) throws {
        do {
            try db.makeStatement(sql: sql).execute()
        } catch let error as DatabaseError where sql.uppercased().hasPrefix("CREATE INDEX") {
            _ = error
        }
    }

    /// The statement with another name for the table.
    private static func statement(_ sql: String, creating name: String) throws -> String {
        let tokens = SQLToken.all(in: sql)
        guard tokens.count > 3, tokens[0].isWord("CREATE"), tokens[1].isWord("TABLE"), tokens[2].isName else {
            throw Corruption(OwnTables.meta)
        }
        return "CREATE TABLE main.\(SQL.quote(name))" + String(decoding: Array(sql.utf8)[tokens[2].range.upperBound...], as: UTF8.self)
    }

    /// The table's indexes that are not unique, and the triggers of programs.
    private func otherObjects(of table: DeclaredTable, _ db: Database) throws -> [String] {
        let unique = table.uniqueIndexes.map(\.name.foldedIdentifier)
        let sql = """
            SELECT name, sql FROM main.sqlite_master
            WHERE tbl_name = ? COLLATE NOCASE AND type IN ('index', 'trigger') AND sql IS NOT NULL AND name NOT LIKE 'annals\\_%' ESCAPE '\\'
            ORDER BY rowid
            """
        return try Row.fetchAll(db, sql: sql, arguments: [table.name]).compactMap { (row: Row) throws -> String? in
            let name: String = try row.value("name")
            return unique.contains(name.foldedIdentifier) ? nil : try row.value("sql")
        }
    }

    /// Whether no view and no trigger names one of the columns.
    private func isUnused(_ columns: [DeclaredTable.Column], _ table: DeclaredTable, _ db: Database) throws -> Bool {
        guard !columns.isEmpty else { return true }
        let sql = """
            SELECT sql FROM main.sqlite_master WHERE type IN ('view', 'trigger') AND name NOT LIKE 'annals\\_%' ESCAPE '\\'
            """
        return try !String.fetchAll(db, sql: sql).contains { text in
            SQLToken.all(in: text).contains { token in columns.contains { token.name?.isSameIdentifier(as: $0.name) ?? false } }
        }
    }
}
