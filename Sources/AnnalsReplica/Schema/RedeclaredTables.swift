package import AnnalsCore
import AnnalsHistory
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Tables of this store with constraints that the space has removed, or without some that it has added; see
/// `SchemaAdditions.redeclared`.
///
/// Later rows of the space may violate a removed constraint, and rows of this store an added one. So the store waits before the schema
/// entry until its program has made the same change, or it rebuilds the tables if it takes its schema from the log.
package struct RedeclaredTables: Error {
    /// The new declarations, the statements that create them, and the new columns of the same entry.
    private var additions: SchemaAdditions
    /// The schema of the space without and with the new declarations.
    private let before: SpaceSchema
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
        for table in additions.redeclared {
            guard let entry = here.table(first: table.name), let difference = Self.difference(entry.first, table, before) else { continue }
            if own.redeclared.isEmpty { first = "\(entry.definition.name): \(difference)" }
            if additions.tightened.contains(table) { own.tightened.append(table) } else { own.relaxed.append(table) }
            own.statements[table.name] = additions.statements.first { $0.key.isSameIdentifier(as: table.name) }?.value
            own.columns += additions.columns.filter { $0.table.isSameIdentifier(as: table.name) }
        }
        guard !own.redeclared.isEmpty else { return nil }
        (self.additions, self.before, space, difference) = (own, before, after, first)
    }

    /// The tables that are declared otherwise in a copy of the space at a later position; nil if there are none.
    package init?(_ here: TrackedTables, of db: Database, than copy: Database) throws {
        guard let before = try SpaceSchema.load(db), let after = try SpaceSchema.load(copy) else { return nil }
        let theirs = try TrackedTables.load(copy)
        var additions = SchemaAdditions()
        for table in after.tables {
            guard let own = here.table(first: table.name)?.first, Self.difference(own, table, before) != nil else { continue }
            let known = before.table(named: table.name)
            let added = table.columns.map(\.name).filter { known?.columnIndex(of: $0) == nil }
            let isTightened = !SchemaAgreement.constraints(table.withoutConstraints(of: added))
                .isSubset(of: known.map(SchemaAgreement.constraints) ?? [])
            if isTightened { additions.tightened.append(table) } else { additions.relaxed.append(table) }
            additions.statements[table.name] = try CanonicalStatements(copy, theirs).statements(of: table.name)
            let columns = table.columns.filter { own.columnIndex(of: $0.name) == nil }
            additions.columns.append(SchemaAdditions.Columns(table: table.name, columns: columns, foreignKeys: []))
        }
        self.init(here, additions, before: before, after: after)
    }

    /// What the entry removed and this store still has, or what it added and this store lacks, in a few words. Other differences are
    /// changes that only this store has made.
    private static func difference(_ own: DeclaredTable, _ new: DeclaredTable, _ before: SpaceSchema) -> String? {
        let removed = own.columns.filter { new.columnIndex(of: $0.name) == nil }
        guard let known = before.table(named: new.name) else { return nil }
        if let column = removed.first(where: { before.isConstrained($0.name, of: known) }) { return "the column \(column.name)" }
        let common = new.columns.map(\.name).filter { own.columnIndex(of: $0) != nil }
        let (mine, theirs) = (own.arranged(common), new.arranged(common))
        let own = SchemaAgreement.constraints(mine)
        // Constraints that came with columns which this store lacks are no reason to wait.
        let added = new.columns.map(\.name).filter { known.columnIndex(of: $0) == nil && !common.contains($0) }
        let (old, now) = (SchemaAgreement.constraints(known), SchemaAgreement.constraints(new.withoutConstraints(of: added)))
        let isAlike = own.isDisjoint(with: old.subtracting(now)) && own.isSuperset(of: now.subtracting(old))
        return isAlike ? nil : SchemaAgreement.difference(mine, theirs) ?? "its constraints"
    }

    package var error: AnnalsError {
        AnnalsError(
            .waitingForMigration, operation: "sync", "the space has other constraints than this store in the table \(difference)",
            hint:
                "Bring the schema up to date, then sync again. Local work can continue. To let each sync change the schema: set the policy "
                + "schema of the space to take",
            commandHint: "Bring the schema up to date, then sync again. Local work can continue. To let each sync change the schema: "
                + "annals policy STORE set space --on schema take", underlying: self)
    }

    // MARK: Rebuilding

    /// Whether the outbox must be undone before the tables are rebuilt: its rows may violate a constraint.
    package var addsConstraints: Bool { !additions.tightened.isEmpty }

    /// The tables that lose constraints; nil if there are none.
    package var relaxed: RedeclaredTables? { with { $0.tightened = [] } }
    /// The tables that get constraints; nil if there are none.
    package var tightened: RedeclaredTables? { with { $0.relaxed = [] } }

    private func with(_ change: (inout SchemaAdditions) -> Void) -> RedeclaredTables? {
        var tables = self
        change(&tables.additions)
        return tables.additions.redeclared.isEmpty ? nil : tables
    }

    /// Rebuilds the tables with their new declarations. Triggers and foreign keys of the connection must be off. To be called after
    /// everything is recorded, in the same SQLite transaction.
    ///
    /// - Throws: `AnnalsError` with code `waitingForMigration` if this is not possible because of other tables, views or triggers.
    package func rebuild(_ db: Database, _ step: StoreStep) throws {
        let names = try LocalNames(db, space, additions)
        let renamed = RenamedStatements(tables: space.tables, names: names.map)
        let tables = try step.tables()
        for table in additions.redeclared {
            // The space does not know changes of this store that were not sent.
            guard let own = tables.table(first: table.name)?.first, isKnown(own) else { throw error }
            let statements = try renamed.rename(additions.statements[table.name] ?? [], of: table.name)
            do {
                let added = additions.columns.filter { $0.table.isSameIdentifier(as: table.name) }.flatMap { names.change($0).columns }
                try rebuild(
                    names.map.table(table.name), by: statements, added, isTightened: additions.tightened.contains(table), db)
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

    /// Whether a table has only columns and constraints that the space has or had before the entry.
    private func isKnown(_ own: DeclaredTable) -> Bool {
        guard let known = before.table(named: own.name) else { return false }
        let columns = own.columns.map(\.name)
        let common = columns.filter { known.columnIndex(of: $0) != nil }
        return columns.allSatisfy { known.columnIndex(of: $0) != nil || before.isRemoved($0, of: own.name) }
            && SchemaAgreement.constraints(own.arranged(common)) == SchemaAgreement.constraints(known.arranged(common))
    }

    /// - Parameters:
    ///   - added: new columns, with the values that old rows get.
    ///   - isTightened: The table gets constraints. Older rows may violate them, so older tokens expire.
    private func rebuild(
        _ name: String, by statements: [String], _ added: [DeclaredTable.Column], isTightened: Bool, _ db: Database
    ) throws {
        guard let old = try SchemaReader(db).table(name), let statement = statements.first else { throw error }
        let kept = try otherObjects(of: old, withTemporary: isTightened, db)
        let sequence =
            try old.isAutoincrement
            ? Int64.fetchOne(db, sql: "SELECT seq FROM main.sqlite_sequence WHERE name = ?", arguments: [old.name]) : nil
        let tables = RebuiltTables(db)
        try tables.putAside(name, isDropped: true)
        let copy = "annals_rebuilt"
        // Undone transactions of the outbox refer to columns by their numbers.
        let ordered = ColumnOrder.arrange(statement, like: old.columns.map(\.name))
        try db.execute(sql: try Self.statement(ordered, creating: copy))
        guard let new = try SchemaReader(db).table(copy), !isTightened || old.columns.allSatisfy({ new.columnIndex(of: $0.name) != nil }),
            try isUnused(old.columns.filter { new.columnIndex(of: $0.name) == nil }, old, db)
        else { throw error }
        var columns = new.columns.map(\.name).filter { old.columnIndex(of: $0) != nil }
        if !new.isWithoutRowid, new.rowidAlias == nil, new.columnIndex(of: "rowid") == nil { columns.append("rowid") }
        let list = columns.map(SQL.quote).joined(separator: ", ")
        let added = added.filter { new.columnIndex(of: $0.name) != nil && old.columnIndex(of: $0.name) == nil }
        let values = try added.map(AddedColumn.value)
        try db.execute(
            sql: """
                INSERT OR ABORT INTO main.\(copy) (\((columns + added.map(\.name)).map(SQL.quote).joined(separator: ", ")))
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
        try Drift.expire(tables.drift.narrowed, before: TransactionTable(db).newest() ?? 0, db)
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
    static func statement(_ sql: String, creating name: String) throws -> String {
        let tokens = SQLToken.all(in: sql)
        guard tokens.count > 3, tokens[0].isWord("CREATE"), tokens[1].isWord("TABLE"), tokens[2].isName else {
            throw Corruption(OwnTables.meta)
        }
        return "CREATE TABLE main.\(SQL.quote(name))" + String(decoding: Array(sql.utf8)[tokens[2].range.upperBound...], as: UTF8.self)
    }

    /// The table's indexes that are not unique, and the triggers of programs.
    ///
    /// - Parameter withTemporary: also the TEMP triggers that run while entries are applied.
    private func otherObjects(of table: DeclaredTable, withTemporary: Bool, _ db: Database) throws -> [String] {
        let unique = table.uniqueIndexes.map(\.name.foldedIdentifier)
        return try TableObject.all(of: table.name, db).compactMap { object in
            guard object.isTemporary ? withTemporary : !StoreSchema.isOwnName(object.name) else { return nil }
            return unique.contains(object.name.foldedIdentifier) ? nil : object.statement
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
