package import AnnalsCore
import AnnalsSQLite
import GRDB
import Synchronization

/// The value that existing rows have in a column that was added to their table.
package enum AddedColumn {
    private struct Declaration: Hashable {
        var type: String
        var affinity: Affinity
        var defaultSQL: String
    }

    /// A cache. A page in an older layout needs the same defaults many times.
    private static let known = Mutex<[Declaration: Value]>([:])

    /// The value that `ADD COLUMN` gives to existing rows: the column's default, or NULL if it has none. For a column that came with a
    /// rebuilt table, the value with which the table was filled.
    ///
    /// SQLite converts it differently from an inserted value: with `TEXT DEFAULT 1e2` existing rows have '1e2', and new rows have
    /// '100.0'. So the value is read from an empty database.
    package static func value(of column: DeclaredTable.Column) throws -> Value {
        guard let sql = column.addedSQL else { return .null }
        let declaration = Declaration(type: column.declaredType, affinity: column.affinity, defaultSQL: sql)
        if let value = known.withLock({ $0[declaration] }) { return value }
        let value = try ask(sql, column)
        known.withLock { known in
            if known.count >= SchemaLimits.defaultsKnown { known = [:] }
            known[declaration] = value
        }
        return value
    }

    private static func ask(_ sql: String, _ column: DeclaredTable.Column) throws -> Value {
        // Only a STRICT table has a type ANY that converts nothing. All other types have the same affinity in every table.
        let options = column.affinity == .any ? " STRICT" : ""
        return try DatabaseQueue().inDatabase { db in
            try db.execute(sql: "CREATE TABLE t(a INTEGER)\(options); INSERT INTO t VALUES(1)")
            let type = column.declaredType.isEmpty ? "" : SQL.quote(column.declaredType)
            do {
                try db.execute(sql: "ALTER TABLE t ADD COLUMN b \(options.isEmpty ? type : column.declaredType) DEFAULT \(sql)")
            } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                // The default is not a constant. So the column came with a rebuilt table and not with ADD COLUMN.
                try db.execute(sql: "DROP TABLE t; CREATE TABLE t(a INTEGER, b \(type) DEFAULT (\(sql))); INSERT INTO t(a) VALUES(1)")
            }
            let statement = try PreparedStatement(db, "SELECT b FROM t")
            defer { statement.reset() }
            return try statement.step() ? statement.value(0) : .null
        }
    }
}
