package import AnnalsSchema
import AnnalsSQLite
package import GRDB

/// For each table with an INTEGER PRIMARY KEY, the highest key that was ever used, also by deleted rows. So a renumbered row
/// never gets a number that another row had. Tables have their canonical names.
package enum HighestKeys {
    package static let schema = "CREATE TABLE annals_highest (name TEXT PRIMARY KEY, key INTEGER NOT NULL) WITHOUT ROWID;"

    package static func load(_ db: Database) throws -> [String: Int64] {
        var keys: [String: Int64] = [:]
        for row in try GRDB.Row.fetchAll(db.cachedStatement(sql: "SELECT name, key FROM annals_highest")) {
            keys[try row.value("name")] = try row.value("key")
        }
        return keys
    }

    package static func save(_ db: Database, _ keys: [String: Int64]) throws {
        for (name, key) in keys {
            try db.cachedStatement(
                sql: """
                    INSERT INTO annals_highest (name, key) VALUES (?, ?)
                    ON CONFLICT (name) DO UPDATE SET key = excluded.key WHERE excluded.key > annals_highest.key
                    """
            ).execute(arguments: [name, key])
        }
    }

    /// Initializes the record from the existing rows.
    package static func noteRows(_ db: Database, _ tables: TrackedTables) throws {
        var keys: [String: Int64] = [:]
        for entry in tables.entries {
            guard let columnIndex = entry.definition.rowidAlias else { continue }
            let column = SQL.quote(entry.definition.columns[columnIndex].name)
            let highest = try Int64.fetchOne(db, sql: "SELECT max(\(column)) FROM \(SQL.quote(entry.definition.name))") ?? 0
            let sequence =
                entry.definition.isAutoincrement
                ? try Int64.fetchOne(db, sql: "SELECT seq FROM sqlite_sequence WHERE name = ?", arguments: [entry.definition.name]) ?? 0 : 0
            keys[entry.first.name] = max(highest, sequence)
        }
        try save(db, keys)
    }
}
