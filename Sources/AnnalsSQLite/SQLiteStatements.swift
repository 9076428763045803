package import GRDB
import GRDBSQLite

/// Statements given to SQLite directly, for setting a connection up and back.
///
/// GRDB refuses every statement in an access that was cancelled, and forgets its compiled statements when it sees a change
/// of the schema. Setting a connection back must work after a cancellation too, and TEMP triggers change no table.
package enum SQLiteStatements {
    package static func run(_ sql: String, on db: Database) throws {
        _ = try names(sql, on: db)
    }

    /// Puts a connection back as it was before a step, whatever became of that: GRDB refuses every statement of an access that was
    /// cancelled. There is nobody to tell of an error then.
    package static func putBack(_ sql: String, on db: Database) {
        try? run(sql, on: db)
        // GRDB did not see it, and would look for tables in what was detached.
        db.clearSchemaCache()
    }

    /// The first column of every row.
    package static func names(_ sql: String, on db: Database) throws -> [String] {
        do {
            return try attempt(sql, on: db)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_INTERRUPT {
            // An interrupt lasts for as long as a statement is under way.
            var statement = sqlite3_next_stmt(db.sqliteConnection, nil)
            while let current = statement {
                sqlite3_reset(current)
                statement = sqlite3_next_stmt(db.sqliteConnection, current)
            }
            return try attempt(sql, on: db)
        }
    }

    /// Compiles without running, with the triggers that the statement fires.
    package static func compile(_ sql: String, on db: Database) throws {
        sqlite3_finalize(try prepare(sql, on: db))
    }

    private static func attempt(_ sql: String, on db: Database) throws -> [String] {
        let statement = try prepare(sql, on: db)
        defer { sqlite3_finalize(statement) }
        var names: [String] = []
        var code = sqlite3_step(statement)
        while code == SQLITE_ROW {
            if let text = sqlite3_column_text(statement, 0) { names.append(String(cString: text)) }
            code = sqlite3_step(statement)
        }
        guard code == SQLITE_DONE else { throw error(code, sql, db) }
        return names
    }

    private static func prepare(_ sql: String, on db: Database) throws -> OpaquePointer? {
        var statement: OpaquePointer?
        let code = sqlite3_prepare_v2(db.sqliteConnection, sql, -1, &statement, nil)
        guard code == SQLITE_OK else { throw error(code, sql, db) }
        return statement
    }

    private static func error(_ code: CInt, _ sql: String, _ db: Database) -> DatabaseError {
        DatabaseError(
            resultCode: ResultCode(rawValue: code), message: sqlite3_errmsg(db.sqliteConnection).map { String(cString: $0) }, sql: sql)
    }
}
