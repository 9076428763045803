import AnnalsCore
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import Testing

/// A column or constraint of only one replica never leads to divergence.
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
            ("ALTER TABLE person ADD COLUMN up TEXT AS (upper(name))", "ALTER TABLE person DROP COLUMN up", "generated columns"),
            ("ALTER TABLE person ADD COLUMN more TEXT DEFAULT CURRENT_TIMESTAMP", nil, "columns (more)"),
            (
                """
                ALTER TABLE person RENAME COLUMN name TO title; ALTER TABLE person RENAME TO people;
                ALTER TABLE people ADD COLUMN up TEXT AS (upper(title))
                """,
                "ALTER TABLE people DROP COLUMN up", "the table people differs from the space's declaration: its generated columns"
            ),
        ] as [(String, String?, String)])
    func drift(_ change: String, _ back: String?, _ words: String) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
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
        // Also after a refusal, all later writes here are captured.
        let triggers = """
            SELECT DISTINCT tbl_name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'annals%' AND tbl_name NOT LIKE 'annals%'
            """
        #expect(try await world.rows(0, triggers).count == 2)
        try await world.sync(1)
        guard let back else { return }
        try world.outside(0, back)
        try await world.settle()
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
        #expect(try await world.rows(1, "SELECT count(*) FROM team") == [[3.databaseValue]])
    }

    /// According to Documentation/schemas.md, other keys, constraints and types, and dropped columns, need another space.
    @Test("a change that is no addition takes everybody to another space, with the work of those who come late")
    func anotherSpace() async throws {
        let world = try await SyncedStores(
            replicas: 3,
            schema: "CREATE TABLE guest(id INTEGER PRIMARY KEY, mail TEXT, fax TEXT); INSERT INTO guest VALUES(1, 'a', '7'), (2, 'a', '8')")
        try world.outside(1, "INSERT INTO guest VALUES(3, 'c', '9')")
        try await world.settle()
        let space = try #require(SpaceName("shop-2"))
        let relay = try LocalRelay(folder: world.folder.file("relay-2"), space: space)
        func move(_ index: Int) async throws -> Joining.Outcome {
            let store = world.stores[index]
            try await store.leave(force: true)
            try await store.migrate(label: "v2", tracking: .named(["guest"])) { db in
                try db.execute(
                    sql: """
                        DELETE FROM guest WHERE id NOT IN (SELECT min(id) FROM guest GROUP BY mail);
                        CREATE TABLE new(id INTEGER PRIMARY KEY, mail TEXT NOT NULL UNIQUE);
                        INSERT INTO new SELECT id, mail FROM guest;
                        DROP TABLE guest;
                        ALTER TABLE new RENAME TO guest;
                        """)
            }
            let joining = Joining(
                transport: relay, address: "http://127.0.0.1:1", space: space, name: "r\(index)",
                configuration: world.configuration("r\(index)"), environment: world.environment)
            return try await joining.join(store, existing: index == 2 ? .sameKey : nil)
        }
        // The last replica writes meanwhile under the earlier declarations.
        try world.outside(2, "INSERT INTO guest VALUES(4, 'd', NULL), (5, 'c', NULL)")
        guard case .created = try await move(0), case .recognised = try await move(1) else {
            Issue.record("the first makes the space, and the second has the same rows")
            return
        }
        guard case .merged = try await move(2) else {
            Issue.record("the third has rows of its own")
            return
        }
        for index in [2, 0, 1] { try await world.sync(index, over: relay) }
        for index in 0..<3 {
            let guests: [[DatabaseValue]] = [(1, "a"), (3, "c"), (4, "d")].map { [$0.databaseValue, $1.databaseValue] }
            #expect(try await world.rows(index, "SELECT id, mail FROM guest ORDER BY id") == guests, "replica \(index)")
            #expect(try await world.stores[index].verify().isEmpty)
        }
        #expect(Set(try await world.stores.asyncMap { try await $0.digest() }).count == 1)
    }

    @Test("indexes, views and triggers that keep no row out are a replica's own")
    func harmless() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
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
