package import GRDB
import GRDBSQLite

/// Runs statements by SQLite directly, to set up a connection and to undo that.
///
/// GRDB refuses every statement in a cancelled access, and drops its compiled statements when it sees a change of the
/// schema. The undo must also work after a cancellation, and TEMP triggers do not change a table.
package enum SQLiteStatements {
    package static func run(_ sql: String, on db: Database) throws {
        _ = try names(sql, on: db)
    }

    /// Undoes the settings of a step on a connection, whether the step succeeded or not. It also works in a cancelled
    /// access, in which GRDB refuses statements. There is no caller that could handle an error, so errors are ignored.
    package static func putBack(_ sql: String, on db: Database) {
        try? run(sql, on: db)
        // GRDB did not see the statement. With its old cache it would look for tables in a detached schema.
        db.clearSchemaCache()
    }

    /// Returns the first column of every row.
    package static func names(_ sql: String, on db: Database) throws -> [String] {
        do {
            return try attempt(sql, on: db)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_INTERRUPT {
            // An interrupt stays in effect as long as any statement runs.
            var statement = sqlite3_next_stmt(db.sqliteConnection, nil)
            while let current = statement {
                sqlite3_reset(current)
                statement = sqlite3_next_stmt(db.sqliteConnection, current)
            }
            return try attempt(sql, on: db)
        }
    }

    /// Compiles a statement and the triggers that it fires, without running it.
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
