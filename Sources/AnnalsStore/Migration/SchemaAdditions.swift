import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import AnnalsWire
import GRDB

/// What a schema has beyond another that rows of the other can do without: new tables, and new columns that have a default.
///
/// Whoever lacks them goes on; see `SchemaStanding`. All names are first names, apart from what renames give.
struct SchemaAdditions: Hashable, Sendable {
    /// New columns of one table, with the foreign keys that they are part of.
    struct Columns: Hashable, Sendable {
        var table: String
        var columns: [DeclaredTable.Column]
        var foreignKeys: [DeclaredTable.ForeignKey]
    }

    var tables: [DeclaredTable] = []
    var columns: [Columns] = []
    var renames: [SpaceRename] = []
    /// What makes the tables and their indexes, where an entry of the log told; by the tables' names.
    var statements: [String: [String]] = [:]

    init() {}

    var isEmpty: Bool { !areRows && renames.isEmpty }

    /// Whether there is anything that rows can be in.
    var areRows: Bool { !tables.isEmpty || !columns.isEmpty }

    /// Whether rows that lack the column can be told without it: it may be NULL or has a constant for a default.
    static func isOptional(_ column: DeclaredTable.Column) -> Bool {
        guard let value = column.defaultSQL else { return !column.isNotNull }
        return isLiteral(value) && !(column.isNotNull && value.uppercased() == "NULL")
    }

    /// A default that is the same whenever it is asked for. SQLite adds no other to a table that holds rows.
    static func isLiteral(_ sql: String) -> Bool {
        let text = sql.trimmingPrefix { $0 == "+" || $0 == "-" || $0 == " " }
        if ["NULL", "TRUE", "FALSE"].contains(text.uppercased()) || Double(text) != nil { return true }
        guard let first = text.first, text.last == "'", text.count > 1 else { return false }
        let quoted = first == "x" || first == "X" ? text.dropFirst() : text[...]
        guard quoted.first == "'", quoted.count > 1 else { return false }
        return !quoted.dropFirst().dropLast().replacing("''", with: "").contains("'")
    }

    /// Those that another schema does not have.
    func missing(in schema: SpaceSchema) -> SchemaAdditions {
        var missing = SchemaAdditions()
        missing.tables = tables.filter { schema.table(named: $0.name) == nil }
        for change in columns {
            guard let table = schema.table(named: change.table) else { continue }
            let columns = change.columns.filter { table.place(of: $0.name) == nil }
            guard !columns.isEmpty else { continue }
            missing.columns.append(Columns(table: change.table, columns: columns, foreignKeys: change.foreignKeys))
        }
        missing.renames = schema.news(renames)
        return missing
    }

    /// Those that no entry names.
    func missing(in entries: [SchemaEntry]) -> SchemaAdditions {
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
        // A table that got more columns since somebody was told of it.
        for table in tables where !layouts(table.name).isEmpty {
            let named = layouts(table.name).flatMap(\.columns)
            let columns = table.columns.filter { column in !named.contains { $0.isSameIdentifier(as: column.name) } }.filter(
                Self.isOptional)
            let keys = table.foreignKeys.filter { key in columns.contains { key.columns == [$0.name] } }
            if !columns.isEmpty { missing.columns.append(Columns(table: table.name, columns: columns, foreignKeys: keys)) }
        }
        // The last word counts.
        let told = entries.flatMap(\.renames)
        missing.renames = renames.filter { rename in told.last(where: rename.isAbout)?.name != rename.name }
        return missing
    }

    /// Those that an entry names. A table is brought, as it is by now, by the entry that makes it; others name it for its columns only.
    func named(in entry: SchemaEntry) -> SchemaAdditions {
        let others = missing(in: [entry])
        var named = SchemaAdditions()
        named.tables = tables.filter { entry.makes($0.name) }
        for var change in columns {
            let rest = others.columns.first { $0.table == change.table }?.columns ?? []
            change.columns.removeAll { rest.contains($0) }
            if !change.columns.isEmpty { named.columns.append(change) }
        }
        named.renames = entry.renames.filter(renames.contains)
        return named
    }
}

extension SchemaEntry {
    /// Whether one of its statements makes the table.
    fileprivate func makes(_ table: String) -> Bool {
        statements.contains { sql in
            let tokens = SQLToken.all(in: Array(sql.utf8))
            return tokens.count > 2 && tokens[0].isWord("CREATE") && tokens[1].isWord("TABLE") && tokens[2].text.isSameIdentifier(as: table)
        }
    }
}

// MARK: As statements

extension SchemaAdditions {
    /// The statements that make them, and the tables that they touch: of those that get columns, the key and the new columns.
    func entry(version: Int64, _ db: Database, in own: TrackedTables) throws -> SchemaEntry {
        var statements: [String] = []
        var tracked: [TableLayout] = []
        for table in tables {
            statements += try FirstStatements(db, own).statements(of: table.name)
            tracked.append(table.layout)
        }
        for change in columns {
            statements += Self.statements(change)
            let table = own.table(first: change.table)?.first
            let key = table.map { table in table.primaryKey.map { table.columns[$0].name } } ?? []
            tracked.append(TableLayout(name: change.table, columns: key + change.columns.map(\.name), key: Array(key.indices)))
        }
        try Self.checkForReceivers(statements)
        return SchemaEntry(version: version, statements: statements + renames.map(\.statement), tracked: tracked, isBreaking: false)
    }

    /// A table and its indexes as the store has them.
    static func statements(of table: String, _ db: Database) throws -> [String] {
        try String.fetchAll(
            db,
            sql: """
                SELECT sql FROM main.sqlite_master WHERE type IN ('table', 'index') AND tbl_name = ? COLLATE NOCASE AND sql IS NOT NULL
                ORDER BY type DESC, rowid
                """, arguments: [table])
    }

    static func statements(_ change: Columns) -> [String] {
        change.columns.map { column in
            var words = ["ALTER TABLE \(SQL.quote(change.table)) ADD COLUMN \(SQL.quote(column.name))"]
            if !column.declaredType.isEmpty { words.append(column.declaredType) }
            if !column.collation.isSameIdentifier(as: Collation.binary) { words.append("COLLATE \(SQL.quote(column.collation))") }
            if column.isNotNull { words.append("NOT NULL") }
            if let value = column.defaultSQL { words.append("DEFAULT \(value)") }
            // A key of several columns cannot be added with one of them; see `SchemaComparison`.
            for key in change.foreignKeys where key.columns.first?.isSameIdentifier(as: column.name) ?? false {
                words.append("REFERENCES \(SQL.quote(key.parentTable))(\(key.parentColumns.map(SQL.quote).joined(separator: ", ")))")
                words.append("ON DELETE \(key.onDelete.rawValue) ON UPDATE \(key.onUpdate.rawValue)")
            }
            return words.joined(separator: " ")
        }
    }
}

// MARK: From an entry

extension SchemaAdditions {
    /// What an entry of the log adds to the space's schema.
    ///
    /// Its statements are tried on an empty database that knows the space's tables by their columns and keys. So nothing but
    /// what they declare counts, whatever else they say.
    ///
    /// - Parameter tried: what was tried before; an entry that is not among them is tried here.
    /// - Throws: `AnnalsError` of code schemaRefused where this program cannot make sense of them.
    init(_ entry: SchemaEntry, to space: SpaceSchema, tried: TriedSchemas = TriedSchemas()) throws {
        if let refusal = try tried.verdict(on: entry) { throw Self.refused("\(refusal.statement): \(refusal.reason)", nil) }
        let queue = try DatabaseQueue()
        self = try queue.writeWithoutTransaction { db in try SchemaAdditions(entry, to: space, tryingOn: db) }
        try queue.close()
    }

    private init(_ entry: SchemaEntry, to space: SpaceSchema, tryingOn db: Database) throws {
        for table in space.tables { try db.execute(sql: Self.outline(table)) }
        renames = entry.renames.filter { rename in Self.isKnown(rename, space, entry) }
        for sql in entry.statements where SpaceRename(statement: sql) == nil {
            do {
                let statement = try db.makeStatement(sql: sql)
                try statement.execute()
            } catch let error as DatabaseError where Self.isRepeated(error) {
                // The space has the column or the table already.
                continue
            } catch let error as DatabaseError where sql.uppercased().hasPrefix("CREATE INDEX") {
                _ = error  // It keeps no row out.
            } catch {
                throw Self.refused((error as? DatabaseError)?.message ?? "SQLite refused it", error)
            }
        }
        let reader = SchemaReader(db)
        for layout in entry.tracked {
            guard let table = try reader.table(layout.name), layout.columns.allSatisfy({ table.place(of: $0) != nil }) else {
                throw Self.refused("the table \(layout.name) is not what its statements make", nil)
            }
            guard let known = space.table(named: layout.name) else {
                guard !StoreSchema.isOwnName(table.name) else { throw Self.refused("a table with a name of ours", nil) }
                tables.append(table)
                statements[table.name] = try Self.statements(of: table.name, db)
                continue
            }
            // Generated columns stand in the outline as any other.
            let columns = table.columns.filter { column in
                known.place(of: column.name) == nil && !known.generatedColumns.contains { $0.name.isSameIdentifier(as: column.name) }
            }
            guard !columns.isEmpty else { continue }
            guard columns.allSatisfy(Self.isOptional) else { throw Self.refused("a column of \(layout.name) that needs a value", nil) }
            let keys = table.foreignKeys.filter { key in key.columns.contains { known.place(of: $0) == nil } }
            self.columns.append(Columns(table: known.name, columns: columns, foreignKeys: keys))
        }
    }

    /// A rename of what is not there is nobody's business.
    private static func isKnown(_ rename: SpaceRename, _ space: SpaceSchema, _ entry: SchemaEntry) -> Bool {
        let new = entry.tracked.filter { $0.name.isSameIdentifier(as: rename.table) }
        guard let column = rename.column else { return space.table(named: rename.table) != nil || !new.isEmpty }
        return space.table(named: rename.table)?.place(of: column) != nil
            || new.contains { $0.columns.contains { $0.isSameIdentifier(as: column) } }
    }

    /// Refuses at its author what every receiver would refuse.
    ///
    /// - Throws: `AnnalsError` of code schemaRefused, naming the table.
    static func checkForReceivers(_ statements: [String]) throws {
        guard let refusal = try SchemaTrial.refusal(of: statements) else { return }
        throw AnnalsError(
            .schemaRefused, operation: "sync",
            "the other replicas would refuse this schema change (\(refusal.statement)): \(refusal.reason)",
            hint: "Declare the table without it, or stop tracking the table; nothing was sent, and local work goes on")
    }

    private static func isRepeated(_ error: DatabaseError) -> Bool {
        let message = error.message ?? ""
        return message.hasPrefix("duplicate column name") || message.hasSuffix("already exists")
    }

    /// Enough of a table for others to refer to it.
    static func outline(_ table: DeclaredTable) -> String {
        var parts = table.columns.map { "\(SQL.quote($0.name)) \($0.declaredType)" }
        parts += table.generatedColumns.map { SQL.quote($0.name) }
        parts.append("PRIMARY KEY (\(table.primaryKey.map { SQL.quote(table.columns[$0].name) }.joined(separator: ", ")))")
        return "CREATE TABLE \(SQL.quote(table.name)) (\(parts.joined(separator: ", ")))"
    }

    private static func refused(_ reason: String, _ underlying: (any Error)?) -> AnnalsError {
        AnnalsError(
            .schemaRefused, operation: "sync", "the log has a schema change that this program cannot take in: \(reason)",
            hint: "Use a program that has what it needs; nothing was changed", underlying: underlying)
    }
}

extension SchemaEntry {
    /// What of the space is called otherwise from here on.
    var renames: [SpaceRename] { statements.compactMap(SpaceRename.init(statement:)) }
}
