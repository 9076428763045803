package import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Copies a database's own schema, and the rows of selected tables, to an empty attached database.
///
/// Tables and triggers of Annals are not copied. Tables that are not selected are empty in the copy. Indexes, views and triggers
/// are created after the rows were copied, because this is faster and no trigger runs.
///
/// Left out are tables that are not selected and use functions, collations or modules that this program does not have, with their indexes
/// and triggers, and triggers that name such a table. SQLite cannot create the former here, and the latter would fail in the copy.
package struct SchemaCopy {
    /// The schema name of the attached database.
    package static let target = "annals_copy"

    package let db: Database
    /// The tables with rows to copy.
    package let tables: [DeclaredTable]

    package init(db: Database, tables: [DeclaredTable]) {
        self.db = db
        self.tables = tables
    }

    private struct Object {
        var type: String
        var name: String
        var table: String
        var sql: String
    }

    /// Creates the tables, and copies the rows of the selected ones.
    ///
    /// - Throws: `AnnalsError.schemaRefused` with the name of an object that cannot be created here, for instance because it
    ///   needs a function, collation or module that this program does not have.
    package func makeTables() throws {
        let objects = try creatable()
        let sequence = try String.fetchOne(db, sql: "SELECT name FROM sqlite_master WHERE name = 'sqlite_sequence'") != nil
        for object in objects where object.type == "table" { try create(object) }
        for table in tables { try copyRows(table) }
        if sequence { try copySequence() }
    }

    /// Deletes the rows with NULL in the key from the copy. Such rows are local to this store.
    ///
    /// To be called before `makeRest`, because the user's triggers would run afterwards.
    package func dropLocalRows() throws {
        try db.execute(sql: "PRAGMA \(Self.target).secure_delete = ON")
        for table in tables where table.keyMayBeNull {
            try db.execute(sql: "DELETE FROM \(Self.target).\(SQL.quote(table.name)) WHERE \(table.nullKeyCondition)")
        }
    }

    /// Creates indexes, views and triggers.
    ///
    /// If the rows violate a unique index, `refused` is called. It throws, or the index is left out.
    package func makeRest(_ refused: (AnnalsError) throws -> Void) throws {
        let objects = try creatable()
        for type in ["index", "view", "trigger"] {
            for object in objects where object.type == type {
                do {
                    try create(object)
                } catch let error as AnnalsError where (error.underlying as? DatabaseError)?.resultCode == .SQLITE_CONSTRAINT {
                    try refused(error)
                }
            }
        }
    }

    /// The statements of the schema, in an order in which they can run.
    package func statements() throws -> [String] {
        let objects = try objects()
        return ["table", "index", "view", "trigger"].flatMap { type in objects.filter { $0.type == type }.map(\.sql) }
    }

    /// Copies fields of the file header. The page size and encoding must be set before the first table is created.
    package func copyHeader() throws {
        for pragma in ["user_version", "application_id"] {
            let value = try Int64.fetchOne(db, sql: "PRAGMA main.\(pragma)") ?? 0
            try db.execute(sql: "PRAGMA \(Self.target).\(pragma) = \(value)")
        }
    }

    private func objects() throws -> [Object] {
        let shadows = Set(
            try String.fetchAll(db, sql: "SELECT lower(name) FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow'"))
        return try GRDB.Row.fetchAll(
            db,
            sql: """
                SELECT type, name, tbl_name, sql FROM main.sqlite_master
                WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
                  AND name NOT LIKE 'annals\\_%' ESCAPE '\\' AND tbl_name NOT LIKE 'annals\\_%' ESCAPE '\\'
                ORDER BY rowid
                """
        ).map { try Object(type: $0.value("type"), name: $0.value("name"), table: $0.value("tbl_name"), sql: $0.value("sql")) }
            .filter { !shadows.contains($0.name.lowercased()) && !shadows.contains($0.table.lowercased()) }
    }

    private func creatable() throws -> [Object] {
        let names = try namesLeftOut()
        guard !names.isEmpty else { return try objects() }
        func usesOne(_ sql: String) -> Bool {
            SQLToken.all(in: sql).contains { token in token.name.map { names.contains($0.foldedIdentifier) } ?? false }
        }
        return try objects().filter { object in
            !names.contains(object.table.foldedIdentifier) && !(object.type == "trigger" && usesOne(object.sql))
        }
    }

    /// The tables that are left out.
    package func leftOut() throws -> [UnusableTable] {
        let selected = Set(tables.map(\.name.foldedIdentifier))
        return try UnusableTable.fetchAll(db).filter { table in
            !table.isOnlyInTriggers && !selected.contains(table.table.foldedIdentifier)
        }
    }

    private func namesLeftOut() throws -> Set<String> {
        let unusable = try leftOut()
        var names = Set(unusable.map(\.table.foldedIdentifier))
        // Without their module, SQLite takes the internal tables of a virtual table for ordinary ones.
        if unusable.contains(where: { $0.missing.contains { $0.kind == .module } }) {
            names.formUnion(try SchemaReader(db).tables().filter { $0.kind == .shadow }.map(\.name.foldedIdentifier))
        }
        return names
    }

    private func create(_ object: Object) throws {
        guard let statement = SchemaStatement.qualified(object.sql, schema: Self.target) else {
            throw refused(object, "its definition cannot be read")
        }
        do {
            try db.execute(sql: statement)
        } catch let error as DatabaseError where !Self.others.contains(error.resultCode) {
            throw refused(object, error.message ?? "SQLite refused it", error)
        }
    }

    /// Errors that the object did not cause: an interruption, or no space.
    private static let others: [ResultCode] = [.SQLITE_INTERRUPT, .SQLITE_ABORT, .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_NOMEM]

    private func refused(_ object: Object, _ reason: String, _ underlying: (any Error)? = nil) -> AnnalsError {
        AnnalsError(
            .schemaRefused, operation: "copy", "the \(object.type) \(object.name) cannot be created here: \(reason)",
            hint: "Use a program that provides what it needs, or drop it",
            commandHint: "Load an extension that provides what it needs with --load-extension, or drop it", underlying: underlying)
    }

    private func copyRows(_ table: DeclaredTable) throws {
        let columns = table.columns.map { SQL.quote($0.name) }.joined(separator: ", ")
        let order = table.primaryKey.map { SQL.quote(table.columns[$0].name) }.joined(separator: ", ")
        let name = SQL.quote(table.name)
        try db.execute(
            sql: "INSERT INTO \(Self.target).\(name) (\(columns)) SELECT \(columns) FROM main.\(name) ORDER BY \(order)")
    }

    /// AUTOINCREMENT must never use a number twice, also in the copy.
    private func copySequence() throws {
        for table in tables {
            try db.execute(
                sql: "DELETE FROM \(Self.target).sqlite_sequence WHERE name = ?", arguments: [table.name])
            try db.execute(
                sql: """
                    INSERT INTO \(Self.target).sqlite_sequence (name, seq)
                    SELECT name, seq FROM main.sqlite_sequence WHERE name = ?
                    """, arguments: [table.name])
        }
    }
}

/// Adds a schema name to a CREATE statement of `sqlite_master`.
enum SchemaStatement {
    /// SQLite stores definitions as `CREATE TABLE|INDEX|… name …`, with keywords in capitals, single spaces and no schema name. So
    /// the schema name is inserted before the object's name.
    static func qualified(_ sql: String, schema: String) -> String? {
        let prefixes = [
            "CREATE VIRTUAL TABLE ", "CREATE UNIQUE INDEX ", "CREATE TABLE ", "CREATE INDEX ", "CREATE VIEW ", "CREATE TRIGGER ",
        ]
        for prefix in prefixes where sql.uppercased().hasPrefix(prefix) {
            return prefix + schema + "." + (prefix == "CREATE TRIGGER " ? withoutSchemaOfTable(sql) : sql).dropFirst(prefix.count)
        }
        return nil
    }

    /// Removes the schema name of a trigger's table. SQLite keeps that name in the statement, and the copy has another one.
    private static func withoutSchemaOfTable(_ sql: String) -> String {
        var bytes = Array(sql.utf8)
        let tokens = SQLToken.all(in: sql)
        guard let on = tokens.firstIndex(where: { $0.isWord("ON") }), tokens.indices.contains(on + 2), tokens[on + 2].isSymbol(".") else {
            return sql
        }
        let isApart = tokens[on].range.upperBound < tokens[on + 1].range.lowerBound
        let name = tokens[on + 1].range.lowerBound..<tokens[on + 2].range.upperBound
        bytes.replaceSubrange(name, with: isApart ? [] : [UInt8(ascii: " ")])
        return String(decoding: bytes, as: UTF8.self)
    }
}
