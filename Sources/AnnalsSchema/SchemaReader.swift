import AnnalsCore
import AnnalsSQLite
package import GRDB
internal import GRDBSQLite

/// Reads the declarations in the main schema of a connection. The temp schema and attached files are ignored.
///
///     let invoices = try SchemaReader(db).table("Invoice")
package struct SchemaReader {
    private let db: Database

    package init(_ db: Database) {
        self.db = db
    }

    /// Names of tables, views and virtual tables in the spelling of the schema, without those of SQLite and of Annals.
    package func tableNames() throws -> [String] {
        try kinds().keys
            .filter { !$0.foldedIdentifier.hasPrefix("sqlite_") && !StoreSchema.isOwnName($0) }
            .sorted()
    }

    /// The table or view with that name, in any case; nil if there is none.
    package func table(_ name: String) throws -> DeclaredTable? {
        // One table can be read without a list of all tables, unless the schema has a virtual table: if its module is not loaded,
        // this table may be a shadow table of it.
        let virtual = try db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND rootpage = 0)")
        if try Bool.fetchOne(virtual) ?? false { return try tables(named: [name]).first }
        let one = try db.cachedStatement(sql: "SELECT name, type, wr, strict FROM pragma_table_list(?) WHERE schema = 'main'")
        guard let row = try Row.fetchOne(one, arguments: [name]) else { return nil }
        return try definition(of: row.value("name"), as: Kind(row))
    }

    /// The tables and views with those names that exist, in any case, in the order of the names.
    package func tables(named names: [String]) throws -> [DeclaredTable] {
        let kinds = try kinds()
        return try names.compactMap { name in
            guard let spelled = kinds.keys.first(where: { $0.isSameIdentifier(as: name) }), let kind = kinds[spelled] else { return nil }
            return try definition(of: spelled, as: kind)
        }
    }

    /// All tables that `tableNames` lists.
    package func tables() throws -> [DeclaredTable] {
        let kinds = try kinds()
        return try tableNames().compactMap { name in
            guard let kind = kinds[name] else { return nil }
            return try definition(of: name, as: kind)
        }
    }

    /// Tables that are empty in a file that has only the tracked rows: tables that are not tracked, except full-text indexes that
    /// are rebuilt from tracked rows.
    package func emptyTables(_ tracked: TrackedTables) throws -> [String] {
        let indexes = try FullTextIndexes.withExternalContent(db).union(SpatialIndexes.filled(db))
        return try tables().filter { $0.kind == .table || $0.kind == .virtual }.map(\.name)
            .filter { tracked.table(named: $0) == nil && !indexes.contains($0) }
    }

    private struct Kind {
        var kind: DeclaredTable.Kind
        var isWithoutRowid: Bool
        var isStrict: Bool

        init(_ row: Row) throws {
            kind = try DeclaredTable.Kind(rawValue: row.value("type")) ?? .table
            isWithoutRowid = try row.value("wr")
            isStrict = try row.value("strict")
        }
    }

    private func kinds() throws -> [String: Kind] {
        var kinds: [String: Kind] = [:]
        for row in try Row.fetchAll(db.cachedStatement(sql: "PRAGMA main.table_list")) where try row.value("schema") == "main" {
            kinds[try row.value("name")] = try Kind(row)
        }
        try markShadowsOfUnknownModules(in: &kinds)
        return kinds
    }

    /// SQLite recognizes a shadow table only while its module is loaded. Otherwise the name decides.
    private func markShadowsOfUnknownModules(in kinds: inout [String: Kind]) throws {
        guard kinds.values.contains(where: { $0.kind == .virtual }) else { return }
        let known = Set(try String.fetchAll(db, sql: "SELECT name FROM pragma_module_list").map(\.foldedIdentifier))
        for name in kinds.filter({ $0.value.kind == .virtual }).keys {
            guard let sql = try sql(ofType: "table", name) else { continue }
            guard let module = SQLText(sql).virtualTableModule, !known.contains(module.foldedIdentifier) else { continue }
            let prefix = name.foldedIdentifier + "_"
            for (other, kind) in kinds where kind.kind == .table && other.foldedIdentifier.hasPrefix(prefix) {
                kinds[other]?.kind = .shadow
            }
        }
    }

    /// nil if the object has no statement, as the index of a UNIQUE constraint.
    private func sql(ofType type: String, _ name: String) throws -> String? {
        let statement = try db.cachedStatement(sql: "SELECT sql FROM main.sqlite_master WHERE type = ? AND name = ?")
        return try String.fetchOne(statement, arguments: [type, name])
    }

    private func definition(of name: String, as kind: Kind) throws -> DeclaredTable {
        var table = DeclaredTable(
            name: name, columns: [], generatedColumns: [], primaryKey: [], primaryKeyCollations: [], rowidAlias: nil,
            isAutoincrement: false, isWithoutRowid: kind.isWithoutRowid, isStrict: kind.isStrict, kind: kind.kind, uniqueIndexes: [],
            foreignKeys: [], shape: "")
        // A view or a virtual table may use objects that this connection does not have. Their columns are never needed.
        guard kind.kind == .table || kind.kind == .shadow else { return table }
        let text = SQLText(try sql(ofType: "table", name) ?? "")
        let nameOfColumn = try readColumns(into: &table)
        readExpressions(into: &table, text)
        try readIndexes(into: &table, nameOfColumn: nameOfColumn)
        try readForeignKeys(into: &table)
        table.checks = text.checkExpressions
        table.shape = table.makeShape(text)
        return table
    }

    /// Sets the columns and the primary key. Returns every column's name by SQLite's number of the column.
    private func readColumns(into table: inout DeclaredTable) throws -> [Int: String] {
        var names: [Int: String] = [:]
        var keyParts: [(order: Int, columnIndex: Int)] = []
        for row in try Row.fetchAll(db, sql: "PRAGMA main.table_xinfo(\(SQL.quote(table.name)))") {
            let name: String = try row.value("name")
            names[try row.value("cid")] = name
            let metadata = try columnMetadata(table: table.name, column: name)
            table.isAutoincrement = table.isAutoincrement || metadata.isAutoincrement
            let hidden: Int = try row.value("hidden")
            if hidden == 2 || hidden == 3 {
                table.generatedColumns.append(.init(name: name, kind: hidden == 2 ? .virtual : .stored, collation: metadata.collation))
                continue
            }
            let declared: String = try row.value("type")
            let defaultSQL = try (row.value("dflt_value") as String?).map(Self.spelledOut)
            let order: Int = try row.value("pk")
            if order > 0 { keyParts.append((order, table.columns.count)) }
            table.columns.append(
                .init(
                    name: name, declaredType: declared, affinity: Affinity(declaredType: declared, isStrict: table.isStrict),
                    collation: metadata.collation, isNotNull: try row.value("notnull"), hasDefault: defaultSQL != nil,
                    defaultSQL: defaultSQL))
        }
        table.primaryKey = keyParts.sorted { $0.order < $1.order }.map(\.columnIndex)
        return names
    }

    /// SQLite reads a default of one word or one quoted name as text, but reads the same word as a column's name elsewhere. So it
    /// is written as a text literal.
    private static func spelledOut(_ value: String) -> String {
        let tokens = SQLToken.all(in: value)
        let keywords = ["NULL", "TRUE", "FALSE", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP"]
        guard tokens.count == 1, let word = tokens[0].identifier, !keywords.contains(where: tokens[0].isWord) else { return value }
        return "'\(word.replacing("'", with: "''"))'"
    }

    private func readExpressions(into table: inout DeclaredTable, _ text: SQLText) {
        guard !table.generatedColumns.isEmpty else { return }
        let stored = table.generatedColumns.filter { $0.kind == .stored }.map(\.name)
        for index in table.generatedColumns.indices {
            table.generatedColumns[index].expression = text.generationExpression(of: table.generatedColumns[index].name, inlining: stored)
        }
    }

    private func columnMetadata(table: String, column: String) throws -> (collation: String, isAutoincrement: Bool) {
        var collation: UnsafePointer<CChar>?
        var isAutoincrement: CInt = 0
        let code = sqlite3_table_column_metadata(db.sqliteConnection, "main", table, column, nil, &collation, nil, nil, &isAutoincrement)
        guard code == SQLITE_OK else {
            throw DatabaseError(resultCode: ResultCode(rawValue: code), message: db.lastErrorMessage)
        }
        return (collation.map { String(cString: $0) } ?? Collation.binary, isAutoincrement != 0)
    }

    private func readIndexes(into table: inout DeclaredTable, nameOfColumn: [Int: String]) throws {
        var keyIndex: [DeclaredTable.IndexColumn]?
        for row in try Row.fetchAll(db, sql: "PRAGMA main.index_list(\(SQL.quote(table.name)))") where try row.value("unique") == 1 {
            let name: String = try row.value("name")
            let columns = try Row.fetchAll(db, sql: "PRAGMA main.index_xinfo(\(SQL.quote(name)))")
                .filter { try $0.value("key") == 1 }
                .map { column in
                    let columnName = nameOfColumn[try column.value("cid")]
                    return DeclaredTable.IndexColumn(
                        name: columnName, columnIndex: columnName.flatMap(table.columnIndex(of:)),
                        collation: try column.value("coll") ?? Collation.binary)
                }
            if try row.value("origin") == "pk" {
                keyIndex = columns
                continue
            }
            let sql = try sql(ofType: "index", name)
            table.uniqueIndexes.append(
                .init(
                    name: name, columns: columns, isPartial: try row.value("partial"), isConstraint: try row.value("origin") == "u",
                    sql: sql))
        }
        table.uniqueIndexes.sort { $0.name < $1.name }
        if let keyIndex {
            // An index has a column once. A key that repeats a column equals the key without the repetition.
            table.primaryKey = keyIndex.compactMap(\.columnIndex)
            table.primaryKeyCollations = keyIndex.map(\.collation)
        } else if table.primaryKey.count == 1, !table.isWithoutRowid {
            table.rowidAlias = table.primaryKey[0]
            table.primaryKeyCollations = [Collation.binary]
        }
    }

    private func readForeignKeys(into table: inout DeclaredTable) throws {
        let rows = try Row.fetchAll(db, sql: "PRAGMA main.foreign_key_list(\(SQL.quote(table.name)))")
        let byKey = try Dictionary(grouping: rows) { row -> Int in try row.value("id") }
        // SQLite lists the last declared key first.
        for id in byKey.keys.sorted(by: >) {
            guard let parts = try byKey[id]?.sorted(by: { try ($0.value("seq") as Int) < $1.value("seq") }), let first = parts.first else {
                continue
            }
            let parent = try parent(named: first.value("table"), of: table)
            let columns = try parts.map { part -> String in
                let name: String = try part.value("from")
                return table.columnIndex(of: name).map { table.columns[$0].name } ?? name
            }
            let named: [String] = try parts.compactMap { try $0.value("to") }
            let parentColumns = named.isEmpty ? parent?.key ?? [] : named
            let onDelete: String = try first.value("on_delete")
            let onUpdate: String = try first.value("on_update")
            table.foreignKeys.append(
                DeclaredTable.ForeignKey(
                    columns: columns, columnIndexes: columns.map(table.columnIndex(of:)),
                    parentTable: try parent?.name ?? first.value("table"),
                    parentColumns: parentColumns, parentExists: parent != nil,
                    onDelete: .init(rawValue: onDelete) ?? .noAction, onUpdate: .init(rawValue: onUpdate) ?? .noAction,
                    match: try first.value("match")))
        }
    }

    private func parent(named name: String, of child: DeclaredTable) throws -> (name: String, key: [String])? {
        if name.isSameIdentifier(as: child.name) { return (child.name, child.primaryKey.map { child.columns[$0].name }) }
        let named = try db.cachedStatement(
            sql: "SELECT name FROM main.sqlite_master WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE")
        guard let spelled = try String.fetchOne(named, arguments: [name]) else { return nil }
        let key = try Row.fetchAll(db, sql: "PRAGMA main.table_info(\(SQL.quote(spelled)))")
            .filter { try ($0.value("pk") as Int) > 0 }
            .sorted { try ($0.value("pk") as Int) < $1.value("pk") }
        return (spelled, try key.map { try $0.value("name") })
    }
}

extension DeclaredTable {
    /// A digest of the whole declaration: the text between the parentheses of CREATE TABLE, the options after them, and the unique
    /// indexes that have their own statements.
    fileprivate func makeShape(_ text: SQLText) -> String {
        var parts = ["\(isWithoutRowid)", "\(isStrict)", text.normalizedBody]
        parts += uniqueIndexes.compactMap { $0.sql.map { SQLText($0).normalizedBody } }
        return Digest.sha256(Array(parts.joined(separator: "\u{1F}").utf8)[...]).description
    }
}
