import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// Rows of the space violate a constraint that only this store has.
package struct ViolatedConstraint: Error {
    package let cause: DatabaseError
}

/// Tables of this store with constraints that the space does not have yet, without these constraints for a while.
///
/// The log, and the rows without the outbox, may violate such a constraint. So the tables are rebuilt without NOT NULL, UNIQUE and CHECK
/// before rows go back to older states, and get their declaration again before the SQLite transaction ends. No other program sees them
/// without it.
///
/// Triggers and foreign keys of the connection must be off.
package final class LooseTables {
    private struct Table {
        var name: String
        var sql: String
        var objects: [TableObject]
        var uniques: [String]
    }

    private let db: Database
    private var tables: [Table] = []

    package init(_ db: Database) {
        self.db = db
    }

    package var isLoose: Bool { !tables.isEmpty }
    /// Some tables are or were loose.
    package private(set) var wasLoose = false

    // MARK: Without constraints

    /// - Parameter names: names of tables in this store. Tables that are loose already are left out.
    package func loosen(_ names: [String]) throws {
        for name in names where !tables.contains(where: { $0.name.isSameIdentifier(as: name) }) {
            guard let definition = try SchemaReader(db).table(name), let table = try table(definition) else {
                throw Corruption(OwnTables.tables)
            }
            try replacing(definition) { columns in
                try db.execute(sql: RedeclaredTables.statement(Self.loose(table.sql), creating: Self.other))
                try move(columns, from: table.name, to: Self.other)
                try db.execute(sql: "ALTER TABLE main.\(Self.other) RENAME TO \(SQL.quote(table.name))")
            }
            for object in table.objects where object.isIndex || object.isTemporary {
                guard !table.uniques.contains(object.name.foldedIdentifier) else { continue }
                try db.execute(sql: object.statement)
            }
            tables.append(table)
            wasLoose = true
        }
    }

    private func table(_ definition: DeclaredTable) throws -> Table? {
        let name = definition.name
        let table = "SELECT sql FROM main.sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE"
        guard let sql = try String.fetchOne(db, sql: table, arguments: [name]) else { return nil }
        return Table(
            name: name, sql: sql, objects: try TableObject.all(of: name, db),
            uniques: definition.uniqueIndexes.map(\.name.foldedIdentifier))
    }

    /// The statement without NOT NULL, UNIQUE and CHECK. What follows CONSTRAINT and a name may be missing in SQLite.
    package static func loose(_ sql: String) -> String {
        let bytes = Array(sql.utf8)
        var text: [UInt8] = []
        var end = 0
        var depth = 0
        let tokens = SQLToken.all(in: sql)
        var index = 0
        func isWord(_ index: Int, _ word: String) -> Bool { index < tokens.count && tokens[index].isWord(word) }
        func isSymbol(_ index: Int, _ symbol: String) -> Bool { index < tokens.count && tokens[index].isSymbol(symbol) }
        /// The index after the parentheses that open at this index.
        func afterParentheses(_ start: Int) -> Int {
            var (index, open) = (start, 0)
            repeat {
                if isSymbol(index, "(") { open += 1 }
                if isSymbol(index, ")") { open -= 1 }
                index += 1
            } while open > 0 && index < tokens.count
            return index
        }
        /// Replaces the tokens from `index` up to `next`, and a conflict clause after them.
        func replace(upTo next: Int, by new: String) {
            let next = isWord(next, "ON") && isWord(next + 1, "CONFLICT") ? next + 3 : next
            text += bytes[end..<tokens[index].range.lowerBound] + new.utf8
            end = tokens[min(next, tokens.count) - 1].range.upperBound
            index = next
        }
        while index < tokens.count {
            if depth == 1, isWord(index, "NOT"), isWord(index + 1, "NULL") {
                replace(upTo: index + 2, by: "")
            } else if depth == 1, isWord(index, "CHECK"), isSymbol(index + 1, "(") {
                replace(upTo: afterParentheses(index + 1), by: "CHECK (1)")
            } else if depth == 1, isWord(index, "UNIQUE") {
                // Parentheses follow only in a constraint of the table.
                let isOfTable = isSymbol(index + 1, "(")
                replace(upTo: isOfTable ? afterParentheses(index + 1) : index + 1, by: isOfTable ? "CHECK (1)" : "")
            } else {
                if isSymbol(index, "(") { depth += 1 }
                if isSymbol(index, ")") { depth -= 1 }
                index += 1
            }
        }
        return String(decoding: text + bytes[end...], as: UTF8.self)
    }

    // MARK: With constraints

    /// Gives tables their declarations again.
    ///
    /// - Parameter names: the tables that stay as they are.
    /// - Throws: `AnnalsError` with code `waitingForMigration` if a row violates a constraint.
    package func tighten(except names: [String] = []) throws {
        for table in tables where !names.contains(where: { $0.isSameIdentifier(as: table.name) }) {
            guard let definition = try SchemaReader(db).table(table.name) else { throw Corruption(OwnTables.tables) }
            do {
                try replacing(definition) { columns in
                    try db.execute(sql: "ALTER TABLE main.\(SQL.quote(table.name)) RENAME TO \(Self.other)")
                    try db.execute(sql: table.sql)
                    try move(columns, from: Self.other, to: table.name)
                }
                for object in table.objects { try db.execute(sql: object.statement) }
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                throw Self.refused(table.name, error)
            }
            tables.removeAll { $0.name == table.name }
        }
    }

    private static func refused(_ table: String, _ error: DatabaseError) -> AnnalsError {
        AnnalsError(
            .waitingForMigration, operation: "sync",
            "rows of the space do not satisfy a constraint that only this store has in the table \(table): "
                + (error.message ?? "constraint failed"),
            hint: "Change these rows on a replica without the constraint, and sync both; or remove the constraint here. "
                + "Nothing was changed, and local work can continue", underlying: ViolatedConstraint(cause: error))
    }

    // MARK: Both

    private static let other = "annals_loose"

    /// Runs statements that put another table in the place of this one. They get the columns that both have.
    private func replacing(_ table: DeclaredTable, _ body: ([String]) throws -> Void) throws {
        let sequence =
            try table.isAutoincrement
            ? Int64.fetchOne(db, sql: "SELECT seq FROM main.sqlite_sequence WHERE name = ?", arguments: [table.name]) : nil
        var columns = table.columns.map(\.name)
        if table.rowidAlias == nil, let rowid = table.rowidName { columns.append(rowid) }
        do {
            try db.execute(sql: "PRAGMA legacy_alter_table = ON")
            defer { SQLiteStatements.putBack("PRAGMA legacy_alter_table = OFF", on: db) }
            try body(columns)
        }
        guard let sequence else { return }
        try db.execute(sql: "DELETE FROM main.sqlite_sequence WHERE name = ?", arguments: [table.name])
        try db.execute(sql: "INSERT INTO main.sqlite_sequence (name, seq) VALUES (?, ?)", arguments: [table.name, sequence])
    }

    private func move(_ columns: [String], from source: String, to target: String) throws {
        let (list, source) = (columns.map(SQL.quote).joined(separator: ", "), "main.\(SQL.quote(source))")
        try db.execute(sql: "INSERT INTO main.\(SQL.quote(target)) (\(list)) SELECT \(list) FROM \(source); DROP TABLE \(source)")
    }
}

/// An index or a trigger of a table, as SQLite stores its statement. Indexes of constraints have none.
struct TableObject {
    var name: String
    var isIndex: Bool
    var isTemporary: Bool
    private var sql: String

    /// SQLite stores the statement of a TEMP trigger without the word TEMP.
    var statement: String { isTemporary ? "CREATE TEMP" + sql.dropFirst("CREATE".count) : sql }

    /// In the order of their creation, because it decides in which order triggers run.
    static func all(of table: String, _ db: Database) throws -> [TableObject] {
        try ["main", "temp"].flatMap { schema in
            let sql = """
                SELECT type, name, sql FROM \(schema).sqlite_master
                WHERE tbl_name = ? COLLATE NOCASE AND type IN ('index', 'trigger') AND sql IS NOT NULL
                ORDER BY rowid
                """
            return try Row.fetchAll(db, sql: sql, arguments: [table]).map { (row: Row) throws -> TableObject in
                let type: String = try row.value("type")
                return TableObject(
                    name: try row.value("name"), isIndex: type == "index", isTemporary: schema == "temp", sql: try row.value("sql"))
            }
        }
    }
}
