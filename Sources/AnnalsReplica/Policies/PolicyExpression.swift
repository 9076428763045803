import AnnalsCore
import AnnalsSQLite
import GRDB
import GRDBSQLite

/// Computes the expressions of `sql:` policies, on a separate connection without a file.
///
/// An expression may come from another replica through the log, so it must be harmless: it has no tables, no attached files and no
/// extensions, and the number of its steps is limited. It can use `:base`, `:stored`, `:incoming` and the columns of the stored row
/// by their names.
package final class PolicyExpression: Sendable {
    package enum Failure: Error, Hashable {
        /// SQLite refuses the expression. The text is SQLite's message.
        case invalid(String)
        /// It fails with these values, or takes too long.
        case failed(String)
    }

    private let connection: DatabaseQueue

    package init() throws {
        connection = try DatabaseQueue()
        connection.inDatabase { db in
            sqlite3_limit(db.sqliteConnection, SQLITE_LIMIT_ATTACHED, 0)
            sqlite3_limit(db.sqliteConnection, SQLITE_LIMIT_LENGTH, Int32(PolicyLimits.expressionResultBytes))
            sqlite3_progress_handler(db.sqliteConnection, Int32(PolicyLimits.expressionSteps), { _ in 1 }, nil)
        }
    }

    /// Throws `invalid` if SQLite refuses the expression for a row with these columns.
    package func check(_ expression: String, columns: [String]) throws {
        try connection.inDatabase { db in _ = try Self.prepare(db, expression, columns) }
    }

    /// - Parameter base: nil if the author had seen no row. The expression gets NULL then.
    func evaluate(_ expression: String, base: Value?, stored: Value, incoming: Value, columns: [String], row: [Value]) throws -> Value {
        try connection.inDatabase { db in
            let statement = try Self.prepare(db, expression, columns)
            for (columnIndex, value) in ([base ?? .null, stored, incoming] + row).enumerated() { statement.bind(columnIndex + 1, value) }
            do {
                guard try statement.step() else { throw Failure.failed("it returns no value") }
            } catch let error as DatabaseError {
                throw Failure.failed(error.message ?? "")
            }
            return statement.value(0)
        }
    }

    /// The values come before the expression, so that their parameter numbers do not depend on it.
    private static func prepare(_ db: Database, _ expression: String, _ columns: [String]) throws -> PreparedStatement {
        let names = ["base", "stored", "incoming"]
        let values = names.map { ":\($0)" } + columns.indices.map { "?\($0 + names.count + 1)" }
        let row = (names.map { "annals_\($0)" } + columns).map(SQL.quote)
        // The expression may end with a comment. The line break ends the comment.
        let sql = """
            WITH annals_row(\(row.joined(separator: ", "))) AS (SELECT \(values.joined(separator: ", ")))
            SELECT (\(expression)
            ) FROM annals_row
            """
        do {
            let checked = try db.makeStatement(sql: sql)
            guard checked.columnCount == 1, checked.isReadonly else { throw Failure.invalid("it must be a single value") }
            let statement = try PreparedStatement(db, sql)
            guard statement.parameterCount == values.count else {
                throw Failure.invalid("it can use :base, :stored, :incoming and the row's columns, and no other parameter")
            }
            return statement
        } catch let error as DatabaseError {
            throw Failure.invalid(error.message ?? "")
        }
    }
}
