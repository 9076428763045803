import Annals
import AnnalsTesting
import Foundation
import Testing

@Suite("Staged migrations in a space", .timeLimit(.minutes(20)))
struct StagedSpaceTests {
    private func space(_ count: Int) async throws -> TestSpace {
        var configuration = Store.Configuration()
        configuration.tables = .all
        return try await TestSpace(replicas: count, configuration: configuration) { db in
            try Todo.V1.define(db)
            try db.execute(sql: "INSERT INTO todo VALUES ('a', 'Milk!'), ('b', 'Call')")
        }
    }

    private func texts(_ store: Store, _ sql: String) async throws -> [String] {
        try await store.read { db in try String.fetchAll(db, sql: sql) }
    }

    @Test("what a stage adds is told to the space with the rows that it changed, and a second replica's stage is nothing new")
    func told() async throws {
        let space = try await space(2)
        try await space[0].store.migrate(Todo.manager(upTo: 2))
        try await space.settle()
        try await space[1].store.write { db in try db.execute(sql: "INSERT INTO todo VALUES ('c', 'Late!')") }
        try await space[1].store.migrate(Todo.manager(upTo: 2))
        try await space.settle()
        for replica in [space[0], space[1]] {
            #expect(try await texts(replica.store, "SELECT id || ' ' || priority FROM todo ORDER BY id") == ["a 1", "b 0", "c 0"])
        }
        #expect(try await space.areEqual())
    }

    @Test("a file that was cloned from the space is known by its tables")
    func clone() async throws {
        let space = try await space(1)
        try await space[0].store.migrate(Todo.manager(upTo: 2))
        try await space.settle()
        let file = try TemporaryFile("clone.db")
        let address = try SpaceAddress("test", at: "http://127.0.0.1:1", as: "clone")
        let store = try await address.clone(to: file.path, configuration: Todo.configuration(upTo: 2), over: space.relay)
        let manager = try Todo.manager(upTo: 2)
        #expect(try await store.read { db in try manager.version(of: db) } == SchemaVersion(2))
        #expect(try await texts(store, "SELECT id FROM todo ORDER BY id") == ["a", "b"])
    }

    @Test("what a sync made as the log told of it is not made again by the stage")
    func taken() async throws {
        var taking = Store.Configuration()
        (taking.tables, taking.newSchemas) = (.all, .take)
        let space = try await TestSpace(configuration: taking) { db in try Todo.V1.define(db) }
        try await space[0].store.migrate(Todo.manager(upTo: 2))
        try await space.settle()
        #expect(try await space[1].store.read { db in try db.columns(in: "todo").count } == 3)
        try await space[1].store.migrate(Todo.manager(upTo: 2))
        #expect(try await texts(space[1].store, "SELECT name FROM sqlite_master WHERE name = 'todo_priority'").count == 1)
    }

    @Test("a stage that adds a constraint reaches the space, and the other replica waits for its own stage")
    func constraint() async throws {
        let space = try await space(2)
        for replica in [space[0], space[1]] { try await replica.store.migrate(Todo.manager(upTo: 2)) }
        try await space.settle()
        try await space[0].store.migrate(Todo.manager(upTo: 3))
        try await space[0].store.write { db in try db.execute(sql: "INSERT INTO todo VALUES ('d', 'Local', 0)") }
        try await space[0].agent.sync()
        let error = await #expect(throws: AnnalsError.self) { try await space[1].agent.sync() }
        #expect(error?.code == .waitingForMigration && error?.message.contains("todo") == true)
        try await space[1].store.migrate(Todo.manager(upTo: 3))
        try await space.settle()
        #expect(try await texts(space[1].store, "SELECT id FROM todo ORDER BY id") == ["a", "b", "d"])
        #expect(try await space.areEqual())
    }

    /// Priorities are texts.
    private enum Retyped: VersionedSchema {
        static let versionIdentifier = SchemaVersion(3)

        static func define(_ db: Database) throws {
            try db.execute(
                sql: """
                    CREATE TABLE todo (id TEXT PRIMARY KEY NOT NULL, title TEXT NOT NULL DEFAULT '', priority TEXT NOT NULL DEFAULT '0');
                    CREATE TABLE step (id TEXT PRIMARY KEY NOT NULL, todo TEXT REFERENCES todo(id) ON DELETE CASCADE, text TEXT);
                    """)
        }
    }

    @Test("a stage that the space cannot take is done here, and sync names it")
    func breaking() async throws {
        let space = try await space(2)
        for replica in [space[0], space[1]] { try await replica.store.migrate(Todo.manager(upTo: 2)) }
        try await space.settle()
        let stage = MigrationStage.custom(
            label: "texts", from: Todo.V2.self, to: Retyped.self,
            migrate: { db in
                try db.execute(
                    sql: """
                        DROP VIEW urgent;
                        CREATE TABLE new_todo (
                            id TEXT PRIMARY KEY NOT NULL, title TEXT NOT NULL DEFAULT '', priority TEXT NOT NULL DEFAULT '0');
                        INSERT INTO new_todo SELECT id, title, priority FROM todo; DROP TABLE todo; ALTER TABLE new_todo RENAME TO todo;
                        """)
            })
        try await space[0].store.migrate(StagedMigrationManager([Todo.V2.self, Retyped.self], stages: [stage]))
        try await space[0].store.write { db in try db.execute(sql: "INSERT INTO todo VALUES ('d', 'Local', 0)") }
        let error = await #expect(throws: AnnalsError.self) { try await space[0].agent.sync() }
        #expect(error?.code == .schemaRefused && error?.message.contains("todo") == true)
        #expect(try await texts(space[0].store, "SELECT id FROM todo ORDER BY id") == ["a", "b", "d"])
    }
}
