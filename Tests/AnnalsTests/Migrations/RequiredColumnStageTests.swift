import Annals
import AnnalsTesting
import Testing

/// Stages without code that make a column required.
@Suite("A lightweight stage that requires", .timeLimit(.minutes(20)))
struct RequiredColumnStageTests {
    private enum V1: VersionedSchema {
        static let versionIdentifier = SchemaVersion(1)

        static func define(_ db: Database) throws {
            try db.execute(
                sql: """
                    CREATE TABLE todo (
                        id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT, "the color" TEXT, rank INTEGER CHECK (rank > 0) UNIQUE);
                    CREATE TABLE step (id TEXT PRIMARY KEY NOT NULL, todo INTEGER REFERENCES todo(id) ON DELETE CASCADE);
                    CREATE TABLE log (text TEXT);
                    CREATE INDEX todo_color ON todo("the color");
                    CREATE TRIGGER todo_log AFTER INSERT ON todo BEGIN INSERT INTO log VALUES (NEW.id); END;
                    CREATE VIEW red AS SELECT id FROM todo WHERE "the color" = 'red';
                    """)
        }
    }

    private enum V2: VersionedSchema {
        static let versionIdentifier = SchemaVersion(2)

        static func define(_ db: Database) throws {
            try db.execute(
                sql: """
                    CREATE TABLE todo (
                        id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL DEFAULT 'it''s new',
                        rank INTEGER CHECK (rank > 0) UNIQUE, "the color" TEXT NOT NULL DEFAULT 'red', done INTEGER NOT NULL DEFAULT 0);
                    CREATE TABLE step (id TEXT PRIMARY KEY NOT NULL, todo INTEGER REFERENCES todo(id) ON DELETE CASCADE);
                    CREATE TABLE log (text TEXT);
                    CREATE INDEX todo_color ON todo("the color");
                    CREATE TRIGGER todo_log AFTER INSERT ON todo BEGIN INSERT INTO log VALUES (NEW.id); END;
                    CREATE VIEW red AS SELECT id FROM todo WHERE "the color" = 'red';
                    """)
        }
    }

    private static let required = ["todo.title", "todo.the color"]

    private static func manager(_ requirements: [String] = required) throws -> StagedMigrationManager {
        try StagedMigrationManager(
            [V1.self, V2.self], stages: [.lightweight(from: V1.self, to: V2.self, requiring: requirements)])
    }

    private func texts(_ store: Store, _ sql: String) async throws -> [String] {
        try await store.read { db in try String.fetchAll(db, sql: sql) }
    }

    @Test(arguments: [true, false])
    func `rows without a value get the default, and everything else stays`(isTracked: Bool) async throws {
        let file = try TemporaryFile("todo.db")
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        if isTracked { configuration.tables = .tables(["todo", "step"]) }
        configuration.stages = try StagedMigrationManager([V1.self])
        let old = try Store(path: file.path, configuration: configuration)
        try await old.write { db in
            try db.execute(
                sql: """
                    INSERT INTO todo VALUES (1, 'Milk', NULL, 1), (2, NULL, 'blue', NULL), (9, 'gone', NULL, 3);
                    DELETE FROM todo WHERE id = 9; INSERT INTO step VALUES ('s', 1);
                    """)
        }
        try old.close()
        configuration.stages = try Self.manager()
        let store = try Store(path: file.path, configuration: configuration)
        let before = isTracked ? try await store.latestToken() : nil
        let rows = "SELECT id || title || coalesce(rank, '-') || \"the color\" || done FROM todo ORDER BY id"
        #expect(try await texts(store, rows) == ["1Milk1red0", "2it's new-blue0"])
        #expect(try await texts(store, "SELECT id FROM step") == ["s"])
        #expect(try await texts(store, "SELECT text FROM log") == ["1", "2", "9"])
        try await store.write { db in try db.execute(sql: "INSERT INTO todo (title) VALUES ('next')") }
        // The highest key that was ever used counts, the trigger and the reference work, and the index is there.
        #expect(try await texts(store, "SELECT max(id) FROM todo") == ["10"])
        #expect(try await texts(store, "SELECT text FROM log") == ["1", "2", "9", "10"])
        try await store.write { db in try db.execute(sql: "DELETE FROM todo WHERE id = 1") }
        #expect(try await texts(store, "SELECT id FROM step") == [])
        #expect(
            try await texts(store, "SELECT name FROM sqlite_master WHERE name LIKE 'todo%' ORDER BY 1") == [
                "todo", "todo_color", "todo_log",
            ])
        await #expect(throws: AnnalsError.self) { try await store.write { db in try db.execute(sql: "UPDATE todo SET title = NULL") } }
        guard let before else { return }
        #expect(try await store.verify().isEmpty)
        let changed = try await store.touchedRows(HistoryRequest(after: before).tables("todo")).map(\.key).map(\.description).sorted()
        #expect(Set(changed) == ["[1]", "[10]"])
    }

    @Test(
        arguments: [
            [], ["todo.title"], required + ["todo.rank"], required + ["todo.nil"], required + ["step.todo"],
        ])
    func `a column that is not named, or does not become required, is refused`(requirements: [String]) throws {
        let error = #expect(throws: AnnalsError.self) { try Self.manager(requirements) }
        #expect(error?.code == .usage)
    }

    private enum WithoutDefault: VersionedSchema {
        static let versionIdentifier = SchemaVersion(2)

        static func define(_ db: Database) throws {
            try V1.define(db)
            try db.execute(
                sql: "DROP TABLE log; DROP TRIGGER todo_log; CREATE TABLE log (text TEXT NOT NULL); \(String.triggerOfLog)")
        }
    }

    private enum Retyped: VersionedSchema {
        static let versionIdentifier = SchemaVersion(2)

        static func define(_ db: Database) throws {
            try db.execute(sql: "CREATE TABLE named (id INTEGER PRIMARY KEY, size INTEGER NOT NULL DEFAULT 0)")
        }
    }

    private enum Typed: VersionedSchema {
        static let versionIdentifier = SchemaVersion(1)

        static func define(_ db: Database) throws {
            try db.execute(sql: "CREATE TABLE named (id INTEGER PRIMARY KEY, size TEXT)")
        }
    }

    /// SQLite cannot rename a table whose CHECK names it, with the references of other tables left as they are.
    private enum Naming: VersionedSchema {
        static let versionIdentifier = SchemaVersion(1)

        static func define(_ db: Database) throws {
            try db.execute(sql: "CREATE TABLE named (id INTEGER PRIMARY KEY, size INTEGER CHECK (named.size > -1))")
        }
    }

    private enum NamingRequired: VersionedSchema {
        static let versionIdentifier = SchemaVersion(2)

        static func define(_ db: Database) throws {
            try db.execute(
                sql: "CREATE TABLE named (id INTEGER PRIMARY KEY, size INTEGER NOT NULL DEFAULT 0 CHECK (named.size > -1))")
        }
    }

    @Test(arguments: [0, 1])
    func `another type is refused, and so is a table that cannot be rebuilt`(number: Int) throws {
        let versions: [any VersionedSchema.Type] = number == 0 ? [Typed.self, Retyped.self] : [Naming.self, NamingRequired.self]
        let error = #expect(throws: AnnalsError.self) {
            try StagedMigrationManager(
                versions, stages: [.lightweight(from: versions[0], to: versions[1], requiring: ["named.size"])])
        }
        #expect(error?.code == .usage && error?.message.contains("named") == true)
    }

    @Test func `GRDB's migrator does it with foreign keys off, and other indexes and triggers of the table stay`() async throws {
        let queue = try DatabaseQueue()
        try await queue.write { db in
            try V1.define(db)
            try db.execute(
                sql: """
                    INSERT INTO todo VALUES (1, NULL, NULL, NULL); INSERT INTO step VALUES ('s', 1);
                    CREATE TABLE seen (title TEXT);
                    CREATE INDEX other ON todo(rank);
                    CREATE TRIGGER seeing AFTER UPDATE OF title ON todo BEGIN INSERT INTO seen VALUES (NEW.title); END;
                    """)
        }
        try Self.manager().databaseMigrator.disablingDeferredForeignKeyChecks().migrate(queue)
        let texts = try await queue.write { db in
            try db.execute(sql: "UPDATE todo SET title = 'b'")
            return try String.fetchAll(
                db,
                sql: "SELECT id FROM step UNION ALL SELECT title FROM seen UNION ALL SELECT name FROM sqlite_master WHERE name = 'other'")
        }
        #expect(texts == ["s", "it's new", "b", "other"])
    }

    @Test func `a column without a default is refused`() throws {
        let error = #expect(throws: AnnalsError.self) {
            try StagedMigrationManager(
                [V1.self, WithoutDefault.self],
                stages: [.lightweight(from: V1.self, to: WithoutDefault.self, requiring: ["log.text"])])
        }
        #expect(error?.code == .usage && error?.message.contains("without a constant default") == true)
    }

    @Test func `the space gets the constraint, and a NULL that another replica wrote meanwhile goes to its conflict journal`() async throws
    {
        var configuration = Store.Configuration()
        configuration.tables = .all
        let space = try await TestSpace(replicas: 2, configuration: configuration) { db in
            try V1.define(db)
            try db.execute(sql: "DROP TRIGGER todo_log; INSERT INTO todo VALUES (1, 'Milk', NULL, 1)")
        }
        try await space[0].store.migrate(Self.manager())
        try await space[0].agent.sync()
        try await space[1].store.write { db in try db.execute(sql: "INSERT INTO todo (title) VALUES (NULL)") }
        let error = await #expect(throws: AnnalsError.self) { try await space[1].agent.sync() }
        #expect(error?.code == .waitingForMigration)
        try await space[1].store.migrate(Self.manager())
        try await space.settle()
        for replica in [space[0], space[1]] {
            let rows = try await texts(replica.store, "SELECT title || \"the color\" FROM todo ORDER BY id")
            #expect(rows == ["Milkred"])
            let kinds = try await replica.store.conflicts(limit: 9).map(\.conflict.entry.kind)
            #expect(kinds == [.check, .updateOfDeleted])
            #expect(try await replica.store.verify().isEmpty)
        }
        #expect(try await space.areEqual())
    }
}

extension String {
    fileprivate static let triggerOfLog =
        "CREATE TRIGGER todo_log AFTER INSERT ON todo BEGIN INSERT INTO log VALUES (NEW.id); END"
}
