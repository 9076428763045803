import AnnalsCore
import AnnalsSchema
import AnnalsSQLite
import GRDB

/// Checks that SQLite itself does: the file's structure, constraints and foreign keys.
struct FileChecks {
    let db: Database

    func run() throws -> [Finding] {
        try integrity()
            + foreignKeys().map { key, count in
                Finding(.foreignKey, Self.broken(key, count), table: key.table)
            } + mismatchedKeys()
    }

    static func broken(_ key: Key, _ count: Int) -> String {
        "\(count == 1 ? "1 row of \(key.table) has" : "\(count) rows of \(key.table) have") no parent in \(key.parent)"
    }

    private func integrity() throws -> [Finding] {
        do {
            let lines = try String.fetchAll(db, sql: "PRAGMA main.integrity_check(\(VerifyLimits.integrityLines))")
            return lines == ["ok"] ? [] : lines.map { Finding(.integrity, $0) }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            // The schema uses a function or collation that only another program has.
            return [Finding(.integrity, "the file cannot be checked here: \(error.message ?? "SQLite refused it")")]
        }
    }

    struct Key: Hashable {
        var table: String
        var parent: String
    }

    /// Rows without a parent, counted by table and parent.
    func foreignKeys(schema: String = "main") throws -> [(key: Key, count: Int)] {
        var counts: [Key: Int] = [:]
        for table in try tables() {
            guard let cursor = try? GRDB.Row.fetchCursor(db, sql: "PRAGMA \(schema).foreign_key_check(\(SQL.quote(table)))") else {
                continue
            }
            while let row = try cursor.next() { counts[try Key(table: row.value("table"), parent: row.value("parent")), default: 0] += 1 }
        }
        return counts.sorted { ($0.key.table, $0.key.parent) < ($1.key.table, $1.key.parent) }.map { ($0.key, $0.value) }
    }

    /// Foreign keys that SQLite refuses to check, because the parent's columns are not unique or do not exist.
    private func mismatchedKeys() throws -> [Finding] {
        try tables().compactMap { table in
            do {
                _ = try GRDB.Row.fetchOne(db, sql: "PRAGMA main.foreign_key_check(\(SQL.quote(table)))")
                return nil
            } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                return Finding(.foreignKey, error.message ?? "a foreign key cannot be checked", table: table)
            }
        }
    }

    private func tables() throws -> [String] {
        try String.fetchAll(
            db,
            sql: """
                SELECT name FROM main.sqlite_master
                WHERE type = 'table' AND name NOT LIKE 'annals\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name
                """)
    }
}

/// Limits of verification.
enum VerifyLimits {
    /// Lines of output from SQLite's own check.
    static let integrityLines = 20
}
