import AnnalsSQLite
package import GRDB
import GRDBSQLite

/// The full-text indexes of a schema (FTS3, FTS4, FTS5).
///
/// An index with external content holds only what is in the rows of its table. So it can be rebuilt from these rows after they were
/// written without the user's triggers. An index with its own content is treated as a table like any other.
package enum FullTextIndexes {
    /// Rebuilds the indexes with external content from the current rows of their tables.
    package static func rebuild(_ db: Database, schema: String = "main") throws {
        for name in try withExternalContent(db, schema: schema).map(SQL.quote) {
            do {
                try db.execute(sql: "INSERT INTO \(schema).\(name) (\(name)) VALUES ('rebuild')")
            } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                // The indexed table does not exist, so there is nothing to build from.
            }
        }
    }

    /// Names of the indexes that `rebuild` fills.
    package static func withExternalContent(_ db: Database, schema: String = "main") throws -> Set<String> {
        Set(try all(db, schema).filter { !$0.ownsContent && !$0.isContentless }.map(\.name))
    }

    /// Names of the indexes that differ from the rows they index. Reads all indexes completely.
    package static func damaged(_ db: Database) throws -> [String] {
        try all(db, "main").filter { index in
            let name = SQL.quote(index.name)
            let check = index.module == "fts5" ? "(\(name), rank) VALUES ('integrity-check', 1)" : "(\(name)) VALUES ('integrity-check')"
            do {
                try db.execute(sql: "INSERT INTO main.\(name) \(check)")
                return false
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CORRUPT {
                return true
            } catch {
                return false
            }
        }.map(\.name)
    }

    /// Whether SQLite reported corruption of a virtual table's own data. This does not mean that the file is corrupt.
    package static func isAbout(_ error: any Error) -> Bool {
        (error as? DatabaseError)?.extendedResultCode.rawValue == SQLITE_CORRUPT | (1 << 8)
    }

    private struct Index {
        var name: String
        var module: String
        var ownsContent: Bool
        /// The index has only the words and not their source: content=''.
        var isContentless: Bool
    }

    private static func all(_ db: Database, _ schema: String) throws -> [Index] {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT name, sql, EXISTS (SELECT 1 FROM \(schema).sqlite_master c WHERE c.name = m.name || '_content') AS owns
                FROM \(schema).sqlite_master m WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%' ORDER BY name
                """)
        return try rows.compactMap { row in
            let sql: String = try row.value("sql")
            guard let module = SQLText(sql).virtualTableModule?.lowercased(), ["fts3", "fts4", "fts5"].contains(module) else {
                return nil
            }
            let isContentless = sql.lowercased().contains(/content\s*=\s*(''|"")/)
            return try Index(name: row.value("name"), module: module, ownsContent: row.value("owns"), isContentless: isContentless)
        }
    }
}
