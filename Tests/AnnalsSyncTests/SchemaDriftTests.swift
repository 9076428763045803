import AnnalsCore
import AnnalsStore
import AnnalsSync
import GRDB
import Testing

/// A column or constraint that one replica has alone is never a reason to diverge (DESIGN 8).
@Suite("Schemas that drift apart")
struct SchemaDriftTests {
    private static let schema = """
        CREATE TABLE team(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT, team INTEGER REFERENCES team(id));
        INSERT INTO team VALUES(1, 'ops');
        """

    @Test(
        "keep the replica that differs from syncing, by name, and nothing of it gets into the log",
        arguments: [
            ("CREATE UNIQUE INDEX names ON person(name)", "DROP INDEX names", "UNIQUE"),
            ("CREATE UNIQUE INDEX names ON person(lower(name)) WHERE team > 1", "DROP INDEX names", "UNIQUE"),
            ("ALTER TABLE person ADD COLUMN more TEXT DEFAULT CURRENT_TIMESTAMP", nil, "columns (more)"),
            (
                "ALTER TABLE person RENAME COLUMN name TO title; ALTER TABLE person RENAME TO people; CREATE UNIQUE INDEX names ON people(title)",
                "DROP INDEX names", "the table people is declared otherwise in the space: its UNIQUE"
            ),
        ] as [(String, String?, String)])
    func drift(_ change: String, _ back: String?, _ words: String) async throws {
        let world = try await World(replicas: 2, schema: Self.schema)
        try world.outside(0, change)
        try world.outside(0, "INSERT INTO team VALUES(2, 'here')")
        try world.outside(1, "INSERT INTO team VALUES(3, 'there')")
        try await world.sync(1)
        await #expect {
            try await world.sync(0)
        } throws: { error in
            guard let error = error as? AnnalsError else { return false }
            return error.code == .schemaRefused && error.message.contains(words)
        }
        try await world.sync(1)
        guard let back else { return }
        try world.outside(0, back)
        try await world.settle()
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
        #expect(try await world.rows(1, "SELECT count(*) FROM team") == [[3.databaseValue]])
    }

    @Test("indexes, views and triggers that keep no row out are a replica's own")
    func harmless() async throws {
        let world = try await World(replicas: 2, schema: Self.schema)
        try world.outside(
            0,
            """
            CREATE INDEX i ON person(name);
            CREATE VIEW v AS SELECT * FROM person;
            CREATE TABLE own(x);
            CREATE TRIGGER t AFTER INSERT ON team BEGIN INSERT INTO own VALUES(NEW.id); END;
            INSERT INTO team VALUES(2, 'here');
            """)
        try await world.settle()
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
    }
}
