import AnnalsCore
import AnnalsSQLite
import GRDB
import GRDBSQLite

/// Computes the expressions of `sql:` policies, in a connection of its own that has no file.
///
/// An expression may come from another replica by way of the log, so it is given nothing to do harm with: no table, no
/// attached file, no extension, and a bound on its work. It sees `:base`, `:stored`, `:incoming` and the stored row's
/// columns by their names.
package final class PolicyExpression: Sendable {
    package enum Failure: Error, Hashable {
        /// SQLite does not understand the expression; its own words.
        case invalid(String)
        /// It fails on these values, or takes too long.
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

    /// Throws `invalid` when the expression means nothing to SQLite, given a row with these columns.
    package func check(_ expression: String, columns: [String]) throws {
        try connection.inDatabase { db in _ = try Self.prepare(db, expression, columns) }
    }

    /// - Parameter base: nil where the author believed that there was no row; the expression sees NULL then.
    func evaluate(_ expression: String, base: Value?, stored: Value, incoming: Value, columns: [String], row: [Value]) throws -> Value {
        try connection.inDatabase { db in
            let statement = try Self.prepare(db, expression, columns)
            for (place, value) in ([base ?? .null, stored, incoming] + row).enumerated() { statement.bind(place + 1, value) }
            do {
                guard try statement.step() else { throw Failure.failed("it has no value") }
            } catch let error as DatabaseError {
                throw Failure.failed(error.message ?? "")
            }
            return statement.value(0)
        }
    }

    /// The values stand before the expression, so that they have the same numbers whatever it names.
    private static func prepare(_ db: Database, _ expression: String, _ columns: [String]) throws -> PreparedStatement {
        let names = ["base", "stored", "incoming"]
        let values = names.map { ":\($0)" } + columns.indices.map { "?\($0 + names.count + 1)" }
        let row = (names.map { "annals_\($0)" } + columns).map(SQL.quote)
        // The line break ends a comment that the expression may end with.
        let sql = """
            WITH annals_row(\(row.joined(separator: ", "))) AS (SELECT \(values.joined(separator: ", ")))
            SELECT (\(expression)
            ) FROM annals_row
            """
        do {
            let checked = try db.makeStatement(sql: sql)
            guard checked.columnCount == 1, checked.isReadonly else { throw Failure.invalid("it is more than one value") }
            let statement = try PreparedStatement(db, sql)
            guard statement.parameterCount == values.count else {
                throw Failure.invalid("it sees :base, :stored, :incoming and the row's columns, and no other parameter")
            }
            return statement
        } catch let error as DatabaseError {
            throw Failure.invalid(error.message ?? "")
        }
    }
}
