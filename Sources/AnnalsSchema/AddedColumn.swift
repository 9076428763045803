package import AnnalsCore
import AnnalsSQLite
import GRDB
import Synchronization

/// What rows hold in a column that was added to their table.
package enum AddedColumn {
    private struct Declaration: Hashable {
        var type: String
        var affinity: Affinity
        var defaultSQL: String
    }

    /// A page in an older layout asks for the same again and again.
    private static let known = Mutex<[Declaration: Value]>([:])

    /// The default as `ADD COLUMN` gives it to the rows that are there; NULL where there is none.
    ///
    /// SQLite converts it otherwise than a value that is inserted: `TEXT DEFAULT 1e2` is '1e2' in the old rows and '100.0' in new ones.
    /// So an empty database is asked.
    package static func value(of column: DeclaredTable.Column) throws -> Value {
        guard let sql = column.defaultSQL else { return .null }
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
        // Only a STRICT table has columns of type ANY that convert nothing; otherwise its types have the affinities that they have anywhere.
        let options = column.affinity == .any ? " STRICT" : ""
        return try DatabaseQueue().inDatabase { db in
            try db.execute(sql: "CREATE TABLE t(a INTEGER)\(options); INSERT INTO t VALUES(1)")
            let type = column.declaredType.isEmpty ? "" : SQL.quote(column.declaredType)
            do {
                try db.execute(sql: "ALTER TABLE t ADD COLUMN b \(options.isEmpty ? type : column.declaredType) DEFAULT \(sql)")
            } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                // Not a constant: no column was added with it, a table was made anew.
                try db.execute(sql: "DROP TABLE t; CREATE TABLE t(a INTEGER, b \(type) DEFAULT (\(sql))); INSERT INTO t(a) VALUES(1)")
            }
            let statement = try PreparedStatement(db, "SELECT b FROM t")
            defer { statement.reset() }
            return try statement.step() ? statement.value(0) : .null
        }
    }
}
