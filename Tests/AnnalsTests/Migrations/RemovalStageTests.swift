import Annals
import Testing

/// Stages without code that drop what they name.
@Suite("A lightweight stage that removes")
struct RemovalStageTests {
    private enum V1: VersionedSchema {
        static let versionIdentifier = SchemaVersion(1)

        static func define(_ db: Database) throws {
            try db.execute(
                sql: """
                    CREATE TABLE todo (id TEXT PRIMARY KEY NOT NULL, title TEXT NOT NULL DEFAULT '', color TEXT, rank INTEGER);
                    CREATE TABLE draft (id TEXT PRIMARY KEY NOT NULL, todo TEXT REFERENCES todo(id), body TEXT);
                    CREATE INDEX todo_color ON todo(color);
                    CREATE VIEW red AS SELECT id FROM todo WHERE color = 'red';
                    """)
        }
    }

    private enum V2: VersionedSchema {
        static let versionIdentifier = SchemaVersion(2)

        static func define(_ db: Database) throws {
            try db.execute(
                sql: """
                    CREATE TABLE todo (id TEXT PRIMARY KEY NOT NULL, title TEXT NOT NULL DEFAULT '', rank INTEGER, done INTEGER NOT NULL DEFAULT 0);
                    CREATE VIEW red AS SELECT id FROM todo WHERE done;
                    """)
        }
    }

    private func configuration(_ removals: [String], to versions: [any VersionedSchema.Type] = [V1.self, V2.self]) throws
        -> Store.Configuration
    {
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        configuration.tables = .all
        let stages = versions.count > 1 ? [MigrationStage.lightweight(from: V1.self, to: V2.self, removing: removals)] : []
        configuration.stages = try StagedMigrationManager(versions, stages: stages)
        return configuration
    }

    @Test("columns and tables go with their values, history continues, and other rows stay")
    func removes() async throws {
        let file = try TemporaryFile("todo.db")
        let old = try Store(path: file.path, configuration: configuration([], to: [V1.self]))
        try await old.write { db in
            try db.execute(sql: "INSERT INTO todo VALUES ('a', 'Milk', 'red', 3); INSERT INTO draft VALUES ('d', 'a', 'text')")
        }
        try old.close()
        let store = try Store(path: file.path, configuration: configuration(["todo.color", "draft"]))
        let rows = try await store.read { db in try Row.fetchAll(db, sql: "SELECT * FROM todo").map(\.description) }
        #expect(rows == [#"[id:"a" title:"Milk" rank:3 done:0]"#])
        #expect(try await store.status().tracked == ["todo"])
        let before = try await store.latestToken()
        try await store.write { db in try db.execute(sql: "UPDATE todo SET done = 1") }
        let changed = try await store.touchedRows(HistoryRequest(after: before).tables("todo"))
        #expect(changed == [PersistentIdentifier(table: "todo", key: [.text("a")])])
        #expect(try await store.verify().isEmpty)
    }

    @Test(
        "what is not named is refused, and so is a name that nothing has",
        arguments: [["todo.color"], ["draft"], [], ["todo.color", "draft", "nil"]])
    func named(removals: [String]) throws {
        let error = #expect(throws: AnnalsError.self) { try configuration(removals) }
        #expect(error?.code == .usage)
    }
}
