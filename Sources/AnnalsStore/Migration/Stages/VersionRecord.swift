import AnnalsSQLite
import GRDB

/// The version of an app's schema in a file, as migrations stored it.
struct VersionRecord {
    static let table = "staged_schema_versions"

    var version: SchemaVersion
    var checksum: String

    /// The newest record; nil if there is none.
    static func load(_ db: Database) throws -> VersionRecord? {
        guard try db.tableExists(table) else { return nil }
        return try Row.fetchAll(db, sql: "SELECT version, checksum FROM main.\(table)")
            .compactMap { row in
                try SchemaVersion(row.value("version")).map { try VersionRecord(version: $0, checksum: row.value("checksum")) }
            }
            .max { $0.version < $1.version }
    }

    func save(_ db: Database) throws {
        try db.execute(
            sql: "CREATE TABLE IF NOT EXISTS main.\(Self.table) (version TEXT PRIMARY KEY NOT NULL, checksum TEXT NOT NULL) WITHOUT ROWID")
        try db.execute(
            sql:
                "INSERT INTO main.\(Self.table) (version, checksum) VALUES (?, ?) ON CONFLICT (version) DO UPDATE SET checksum = excluded.checksum",
            arguments: [version.description, checksum])
    }
}
