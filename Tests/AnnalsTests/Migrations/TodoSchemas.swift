import Annals

/// Four versions of an app's schema.
enum Todo {
    enum V1: VersionedSchema {
        static let versionIdentifier = SchemaVersion(1)

        static func define(_ db: Database) throws {
            try db.execute(sql: "CREATE TABLE todo (id TEXT PRIMARY KEY NOT NULL, title TEXT NOT NULL DEFAULT '')")
        }
    }

    /// Adds a column, a table that refers to the old one, and an index.
    enum V2: VersionedSchema {
        static let versionIdentifier = SchemaVersion(2)

        static func define(_ db: Database) throws {
            try db.execute(
                sql: """
                    CREATE TABLE todo (id TEXT PRIMARY KEY NOT NULL, title TEXT NOT NULL DEFAULT '', priority INTEGER NOT NULL DEFAULT 0);
                    CREATE TABLE step (id TEXT PRIMARY KEY NOT NULL, todo TEXT REFERENCES todo(id) ON DELETE CASCADE, text TEXT);
                    CREATE INDEX todo_priority ON todo(priority);
                    CREATE VIEW urgent AS SELECT * FROM todo WHERE priority > 0;
                    """)
        }
    }

    /// Titles are unique.
    enum V3: VersionedSchema {
        static let versionIdentifier = SchemaVersion(3)

        static func define(_ db: Database) throws {
            try db.execute(
                sql: """
                    CREATE TABLE todo (id TEXT PRIMARY KEY NOT NULL, title TEXT NOT NULL UNIQUE, priority INTEGER NOT NULL DEFAULT 0);
                    CREATE TABLE step (id TEXT PRIMARY KEY NOT NULL, todo TEXT REFERENCES todo(id) ON DELETE CASCADE, text TEXT);
                    CREATE INDEX todo_priority ON todo(priority);
                    """)
        }
    }

    /// Urgent titles get a priority from V2 on.
    static func prioritize(_ db: Database) throws {
        try db.execute(sql: "UPDATE todo SET priority = 1 WHERE title LIKE '%!'")
    }

    static let toV2 = MigrationStage.custom(
        label: "priorities", from: V1.self, to: V2.self, didMigrate: { db in try prioritize(db) })

    /// SQLite's way to change a declaration: a new table replaces the old one.
    static let toV3 = MigrationStage.custom(
        label: "unique titles", from: V2.self, to: V3.self,
        willMigrate: { db in
            try db.execute(
                sql:
                    "UPDATE todo SET title = title || ' (' || id || ')' WHERE title IN (SELECT title FROM todo GROUP BY 1 HAVING count(*) > 1)"
            )
        },
        migrate: { db in try rebuild(db) })

    static func rebuild(_ db: Database) throws {
        try db.execute(
            sql: """
                DROP VIEW urgent;
                CREATE TABLE new_todo (id TEXT PRIMARY KEY NOT NULL, title TEXT NOT NULL UNIQUE, priority INTEGER NOT NULL DEFAULT 0);
                INSERT INTO new_todo SELECT id, title, priority FROM todo;
                DROP TABLE todo;
                ALTER TABLE new_todo RENAME TO todo;
                CREATE INDEX todo_priority ON todo(priority);
                """)
    }

    static func manager(upTo count: Int) throws -> StagedMigrationManager {
        let schemas: [any VersionedSchema.Type] = [V1.self, V2.self, V3.self]
        return try StagedMigrationManager(Array(schemas.prefix(count)), stages: Array([toV2, toV3].prefix(count - 1)))
    }

    static func configuration(upTo count: Int) throws -> Store.Configuration {
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        configuration.stages = try manager(upTo: count)
        configuration.tables = .tables(count == 1 ? ["todo"] : ["todo", "step"])
        return configuration
    }
}
