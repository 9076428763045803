import AnnalsCore
import AnnalsSQLite
package import AnnalsWire
package import GRDB

/// The difference between a schema and an older one, if rows of the older schema stay valid: new tables, new columns that have a
/// default, and tables, columns and constraints that were removed. Also added constraints, if the rows of their author satisfy them.
///
/// Replicas that lack them continue to sync; see `SchemaComparison`. All names are canonical names, except the new names in
/// renames.
package struct SchemaAdditions: Hashable, Sendable {
    /// New columns of one table, with the foreign keys that they belong to, and the CHECK constraints that name only them.
    package struct Columns: Hashable, Sendable {
        package var table: String
        package var columns: [DeclaredTable.Column]
        package var foreignKeys: [DeclaredTable.ForeignKey]
        package var checks: [String]

        package init(
            table: String, columns: [DeclaredTable.Column], foreignKeys: [DeclaredTable.ForeignKey], checks: [String] = []
        ) {
            self.table = table
            self.columns = columns
            self.foreignKeys = foreignKeys
            self.checks = checks
        }

        /// The constraints that one of the columns is the last to appear in.
        fileprivate func checks(endingAt columnIndex: Int) -> [String] {
            checks.filter { check in
                let words = Set(SQLToken.all(in: check).compactMap { $0.identifier?.foldedIdentifier })
                return columns.lastIndex { words.contains($0.name.foldedIdentifier) } == columnIndex
            }
        }
    }

    package var tables: [DeclaredTable] = []
    package var columns: [Columns] = []
    package var renames: [SpaceRename] = []
    package var removals: [SpaceRemoval] = []
    /// New declarations of tables that have fewer constraints: NOT NULL, UNIQUE, CHECK and foreign keys. A declaration may also lack
    /// columns that had such a constraint, and it has the new columns.
    ///
    /// Each row that satisfies the old declaration satisfies the new one. A replica with the old declaration applies no entry after this
    /// one before it is migrated.
    package var relaxed: [DeclaredTable] = []
    /// New declarations of tables that have more constraints: NOT NULL, UNIQUE and CHECK.
    ///
    /// The rows of the entry's author satisfy them, and the entry conflicts with every other transaction. So the rows of the log satisfy
    /// them from the entry on. A replica with the old declaration applies no entry after this one before it is migrated.
    package var tightened: [DeclaredTable] = []
    /// The statements that create the tables and their indexes, from an entry of the log, by table name.
    package var statements: [String: [String]] = [:]

    package init() {}

    package var isEmpty: Bool { !areRows && renames.isEmpty && removals.isEmpty && redeclared.isEmpty }

    /// The new declarations of tables that the space has.
    package var redeclared: [DeclaredTable] { relaxed + tightened }

    /// Whether there are new tables or columns.
    package var areRows: Bool { !tables.isEmpty || !columns.isEmpty }

    /// Whether a row can be complete without the column: the column may be NULL, has a constant default, or came with a rebuilt table that
    /// was filled with a constant.
    package static func isOptional(_ column: DeclaredTable.Column) -> Bool {
        guard let value = column.addedSQL else { return !column.isNotNull }
        return isLiteral(value) && !(column.isNotNull && value.uppercased() == "NULL")
    }

    /// Whether the default is a constant. SQLite adds no other default to a table that holds rows.
    package static func isLiteral(_ sql: String) -> Bool {
        let text = sql.trimmingPrefix { $0 == "+" || $0 == "-" || $0 == " " }
        if ["NULL", "TRUE", "FALSE"].contains(text.uppercased()) || Double(text) != nil { return true }
        guard let first = text.first, text.last == "'", text.count > 1 else { return false }
        let quoted = first == "x" || first == "X" ? text.dropFirst() : text[...]
        guard quoted.first == "'", quoted.count > 1 else { return false }
        return !quoted.dropFirst().dropLast().replacing("''", with: "").contains("'")
    }

    /// The additions that no entry names.
    package func missing(in entries: [SchemaEntry]) -> SchemaAdditions {
        func layouts(_ table: String) -> [TableLayout] {
            entries.flatMap(\.tracked).filter { $0.name.isSameIdentifier(as: table) }
        }
        var missing = SchemaAdditions()
        missing.tables = tables.filter { layouts($0.name).isEmpty }
        for var change in columns {
            let named = layouts(change.table).flatMap(\.columns)
            change.columns.removeAll { column in named.contains { $0.isSameIdentifier(as: column.name) } }
            if !change.columns.isEmpty { missing.columns.append(change) }
        }
        // Tables that got more columns after an entry had named them.
        for table in tables where !layouts(table.name).isEmpty {
            let named = layouts(table.name).flatMap(\.columns)
            let columns = table.columns.filter { column in !named.contains { $0.isSameIdentifier(as: column.name) } }.filter(
                Self.isOptional)
            let keys = table.foreignKeys.filter { key in columns.contains { key.columns == [$0.name] } }
            let checks = table.checks(naming: columns.map(\.name))
            if !columns.isEmpty { missing.columns.append(Columns(table: table.name, columns: columns, foreignKeys: keys, checks: checks)) }
        }
        // Of several renames of one thing, the last one counts.
        let told = entries.flatMap(\.renames)
        missing.renames = renames.filter { rename in told.last(where: rename.isAbout)?.name != rename.name }
        let removed = entries.flatMap(\.removals)
        missing.removals = removals.filter { removal in !removed.contains(where: removal.isSame) }
        (missing.relaxed, missing.tightened) = (relaxed, tightened)
        return missing
    }

    /// The additions that an entry names. A table belongs to the entry that creates it, with the columns that it has now. Other
    /// entries name a table for its columns only.
    package func named(in entry: SchemaEntry) -> SchemaAdditions {
        let others = missing(in: [entry])
        var named = SchemaAdditions()
        named.tables = tables.filter { entry.makes($0.name) }
        for var change in columns {
            let rest = others.columns.first { $0.table == change.table }?.columns ?? []
            change.columns.removeAll { rest.contains($0) }
            if !change.columns.isEmpty { named.columns.append(change) }
        }
        named.renames = entry.renames.filter(renames.contains)
        named.removals = removals.filter { removal in entry.removals.contains(where: removal.isSame) }
        named.relaxed = relaxed.filter { entry.redeclares($0.name) }
        named.tightened = tightened.filter { entry.redeclares($0.name) }
        return named
    }
}

extension SchemaEntry {
    /// Whether the entry adds the table.
    fileprivate func makes(_ table: String) -> Bool { creates(table) && !drops(table) }

    /// Whether the entry drops the table and creates it again: it replaces the table's declaration, and the rows stay.
    package func redeclares(_ table: String) -> Bool { creates(table) && drops(table) }

    private func creates(_ table: String) -> Bool {
        statements.contains { sql in
            let tokens = SQLToken.all(in: sql)
            guard tokens.count > 2, tokens[0].isWord("CREATE"), tokens[1].isWord("TABLE") else { return false }
            return tokens[2].name?.isSameIdentifier(as: table) ?? false
        }
    }

    private func drops(_ table: String) -> Bool {
        statements.compactMap(SpaceRemoval.init(statement:)).contains { $0.isSame(as: SpaceRemoval(table: table)) }
    }
}

// MARK: As statements

extension SchemaAdditions {
    /// The statements of a table and its indexes, as the store has them.
    package static func statements(of table: String, _ db: Database) throws -> [String] {
        try String.fetchAll(
            db,
            sql: """
                SELECT sql FROM main.sqlite_master WHERE type IN ('table', 'index') AND tbl_name = ? COLLATE NOCASE AND sql IS NOT NULL
                ORDER BY type DESC, rowid
                """, arguments: [table])
    }

    package static func statements(_ change: Columns) -> [String] {
        change.columns.enumerated().map { columnIndex, column in
            var words = ["ALTER TABLE \(SQL.quote(change.table)) ADD COLUMN \(SQL.quote(column.name))"]
            if !column.declaredType.isEmpty { words.append(column.declaredType) }
            if !column.collation.isSameIdentifier(as: Collation.binary) { words.append("COLLATE \(SQL.quote(column.collation))") }
            if column.isNotNull { words.append("NOT NULL") }
            if let value = column.addedSQL { words.append("DEFAULT \(value)") }
            words += change.checks(endingAt: columnIndex).map { "CHECK (\(runnable($0)))" }
            // A foreign key over several columns cannot be added with one of them; see `SchemaComparison`.
            for key in change.foreignKeys where key.columns.first?.isSameIdentifier(as: column.name) ?? false {
                words.append("REFERENCES \(SQL.quote(key.parentTable))")
                // A reference to the key of a table that does not exist names no columns.
                if !key.parentColumns.isEmpty { words.append("(\(key.parentColumns.map(SQL.quote).joined(separator: ", ")))") }
                words.append("ON DELETE \(key.onDelete.rawValue) ON UPDATE \(key.onUpdate.rawValue)")
            }
            return words.joined(separator: " ")
        }
    }

    private static let operators: Set<String> = ["<=", "<>", "<<", ">=", ">>", "==", "!=", "||", "->"]

    /// The expression of a CHECK constraint as SQLite reads it. `DeclaredTable.checks` has spaces between all signs, also within `>=`.
    private static func runnable(_ check: String) -> String {
        var text = ""
        var last = ""
        for token in SQLToken.all(in: check).map(\.text) {
            text += (text.isEmpty || operators.contains(last + token) ? "" : " ") + token
            last = token
        }
        return text
    }

    /// A declaration that is sufficient for other tables to refer to the table.
    package static func outline(_ table: DeclaredTable) -> String {
        var parts = table.columns.map { "\(SQL.quote($0.name)) \($0.declaredType)" }
        parts += table.generatedColumns.map { SQL.quote($0.name) }
        parts.append("PRIMARY KEY (\(table.primaryKey.map { SQL.quote(table.columns[$0].name) }.joined(separator: ", ")))")
        return "CREATE TABLE \(SQL.quote(table.name)) (\(parts.joined(separator: ", ")))"
    }
}

extension SchemaEntry {
    /// The renames among the entry's statements.
    package var renames: [SpaceRename] { statements.compactMap(SpaceRename.init(statement:)) }

    /// The removed tables and columns among the entry's statements.
    package var removals: [SpaceRemoval] {
        statements.compactMap(SpaceRemoval.init(statement:)).filter { $0.column != nil || !redeclares($0.table) }
    }

    /// The statements that SQLite can run: all except renames and removals, whose names are canonical names.
    package var declarations: [String] {
        statements.filter { SpaceRename(statement: $0) == nil && SpaceRemoval(statement: $0) == nil }
    }
}
