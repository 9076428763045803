package import AnnalsCore
package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Copies a database's own schema, and the rows of chosen tables, into an empty attached database.
///
/// Everything of Annals stays behind. Tables that are not chosen come empty. Indexes, views and triggers are made
/// after the rows, so that filling costs no more than it must and no trigger runs.
package struct SchemaCopy {
    /// The attached database that is filled, as a schema name.
    package static let target = "annals_copy"

    package let db: Database
    /// Names of the tables whose rows are copied.
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

    /// Makes the tables, and copies the rows of the chosen ones.
    ///
    /// - Throws: `AnnalsError.schemaRefused` naming the object that cannot be made here, for instance because it
    ///   needs a function, collation or module that this program does not have.
    package func makeTables() throws {
        let objects = try objects()
        let sequence = try String.fetchOne(db, sql: "SELECT name FROM sqlite_master WHERE name = 'sqlite_sequence'") != nil
        for object in objects where object.type == "table" { try create(object) }
        for table in tables { try copyRows(table) }
        if sequence { try copySequence() }
    }

    /// Takes the rows out of the copy whose key holds NULL: they stay in this store.
    ///
    /// To be called before `makeRest`, or the user's triggers would run.
    package func dropLocalRows() throws {
        try db.execute(sql: "PRAGMA \(Self.target).secure_delete = ON")
        for table in tables where table.keyMayBeNull {
            let isLocal = SQL.balanced(table.primaryKey.map { "\(SQL.quote(table.columns[$0].name)) IS NULL" }, operator: "OR")
            try db.execute(sql: "DELETE FROM \(Self.target).\(SQL.quote(table.name)) WHERE \(isLocal)")
        }
    }

    /// Makes what is built on tables: indexes, views and triggers.
    ///
    /// A unique index that the rows do not allow goes to `refused`, which throws or leaves it out.
    package func makeRest(_ refused: (AnnalsError) throws -> Void) throws {
        let objects = try objects()
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

    /// The schema's own statements in an order in which they can be run.
    package func statements() throws -> [String] {
        let objects = try objects()
        return ["table", "index", "view", "trigger"].flatMap { type in objects.filter { $0.type == type }.map(\.sql) }
    }

    /// Copies what stands in the file's header; the page size and encoding must be set before the first table.
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

    /// What is no matter of the object: somebody wants it to stop, or there is no room.
    private static let others: [ResultCode] = [.SQLITE_INTERRUPT, .SQLITE_ABORT, .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_NOMEM]

    private func refused(_ object: Object, _ reason: String, _ underlying: (any Error)? = nil) -> AnnalsError {
        AnnalsError(
            .schemaRefused, operation: "copy", "the \(object.type) \(object.name) cannot be made here: \(reason)",
            hint: "Use a program that has what it needs, or drop it", underlying: underlying)
    }

    private func copyRows(_ table: DeclaredTable) throws {
        let columns = table.columns.map { SQL.quote($0.name) }.joined(separator: ", ")
        let order = table.primaryKey.map { SQL.quote(table.columns[$0].name) }.joined(separator: ", ")
        let name = SQL.quote(table.name)
        try db.execute(
            sql: "INSERT INTO \(Self.target).\(name) (\(columns)) SELECT \(columns) FROM main.\(name) ORDER BY \(order)")
    }

    /// Keeps AUTOINCREMENT's promise that a number is never used twice.
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

/// Puts a CREATE statement of `sqlite_master` into another schema.
enum SchemaStatement {
    /// SQLite keeps definitions as `CREATE TABLE|INDEX|… name …` with the keywords normalised to capitals and single
    /// spaces and without a schema name, so the schema goes right before the name.
    static func qualified(_ sql: String, schema: String) -> String? {
        let prefixes = [
            "CREATE VIRTUAL TABLE ", "CREATE UNIQUE INDEX ", "CREATE TABLE ", "CREATE INDEX ", "CREATE VIEW ", "CREATE TRIGGER ",
        ]
        for prefix in prefixes where sql.uppercased().hasPrefix(prefix) {
            return prefix + schema + "." + (prefix == "CREATE TRIGGER " ? withoutSchemaOfTable(sql) : sql).dropFirst(prefix.count)
        }
        return nil
    }

    /// A trigger's table may be named with its schema, which SQLite keeps, and which is another one there.
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
