import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import Testing

/// Migrations that make several changes of one table, and stores that differ from the space meanwhile.
@Suite struct SchemaEntryTests {
    private static let schema = """
        CREATE TABLE pub (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT NOT NULL, note TEXT NOT NULL);
        INSERT INTO book VALUES (1, 'one', 'n'), (2, 'two', 'n');
        """

    /// The statements with which a migration tool rebuilds the table.
    private static func rebuild(_ declaration: String, _ columns: String, _ values: String) -> String {
        """
        CREATE TABLE new__book (id INTEGER PRIMARY KEY, \(declaration));
        INSERT INTO new__book (id, \(columns)) SELECT id, \(values) FROM book;
        DROP TABLE book; ALTER TABLE new__book RENAME TO book;
        """
    }

    private func texts(_ world: SyncedStores, _ index: Int, _ sql: String) async throws -> [String] {
        try await world.rows(index, sql).map { row in
            row.map { String.fromDatabaseValue($0) ?? Int.fromDatabaseValue($0).map(String.init) ?? "-" }.joined(separator: " ")
        }
    }

    private func expectVerified(_ world: SyncedStores, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        try await world.expectAlike(sourceLocation: sourceLocation)
        for store in world.stores {
            let findings = try await store.verify()
            #expect(findings == [], sourceLocation: sourceLocation)
        }
    }

    @Test(arguments: [true, false])
    func `a filled column and a removed constraint in one migration`(byTool: Bool) async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try world.reopen(2, newSchemas: .take)
        try await world.settle()
        let sql = Self.rebuild("title TEXT, note TEXT NOT NULL, pages INTEGER NOT NULL", "title, note, pages", "title, note, 7")
        func migrate(_ index: Int) async throws {
            if byTool { try world.outside(index, sql) } else { try await world.stores[index].migrate(label: "v2", sql: sql) }
        }
        try await migrate(0)
        try world.outside(0, "UPDATE book SET title = NULL WHERE id = 1")
        try world.outside(2, "INSERT INTO book (id, title, note) VALUES (3, 'three', 'n')")
        for index in [0, 2, 0] { try await world.sync(index) }
        try await migrate(1)
        try await world.addClone("late")
        try await expectVerified(world)
        #expect(try await texts(world, 3, "SELECT title, pages FROM book ORDER BY id") == ["- 7", "two 7", "three 7"])
    }

    @Test func `a filled column, and then a removed constraint, in one push`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try world.reopen(2, newSchemas: .take)
        try await world.settle()
        let filled = Self.rebuild("title TEXT NOT NULL, note TEXT NOT NULL, pages INTEGER NOT NULL", "title, note, pages", "title, note, 7")
        let relaxed = Self.rebuild("title TEXT, note TEXT NOT NULL, pages INTEGER NOT NULL", "title, note, pages", "title, note, pages")
        try await world.stores[0].migrate(label: "v2", sql: filled)
        try await world.stores[0].migrate(label: "v3", sql: relaxed)
        try world.outside(0, "UPDATE book SET title = NULL WHERE id = 1")
        try await world.sync(0)
        try await world.sync(2)
        try await world.addClone("late")
        for sql in [filled, relaxed] { try await world.stores[1].migrate(label: "both", sql: sql) }
        try await expectVerified(world)
        #expect(try await texts(world, 2, "SELECT title, pages FROM book ORDER BY id") == ["- 7", "two 7"])
    }

    @Test(arguments: [
        ("title TEXT, note TEXT NOT NULL", "ALTER TABLE book ADD COLUMN own TEXT; UPDATE book SET own = 'mine'", "SELECT own FROM book"),
        (
            "title TEXT NOT NULL CHECK (title <> ''), note TEXT NOT NULL", "CREATE UNIQUE INDEX titles ON book (title)",
            "SELECT title FROM book"
        ),
    ])
    func `a table with changes that were not sent is not rebuilt`(declaration: String, change: String, query: String) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.reopen(1, newSchemas: .take)
        try await world.settle()
        try await world.stores[0].migrate(label: "v2", sql: Self.rebuild(declaration, "title, note", "title, note"))
        try await world.sync(0)
        try world.outside(1, change)
        let before = try await texts(world, 1, query)
        let error = try #require(await #expect(throws: AnnalsError.self) { try await world.sync(1) })
        #expect(error.code == .waitingForMigration, "\(error.message)")
        #expect(try await texts(world, 1, query) == before)
        #expect(try await world.stores[1].verify().isEmpty)
    }

    @Test func `a column gets NOT NULL after older rows got NULL, and a clone begins with a snapshot`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "ALTER TABLE book ADD COLUMN tag TEXT")
        try await world.settle()
        let sql = Self.rebuild(
            "title TEXT NOT NULL, note TEXT NOT NULL, tag TEXT NOT NULL DEFAULT ''", "title, note, tag", "title, note, ifnull(tag, '')")
        try await world.stores[0].migrate(label: "v3", sql: sql)
        try await world.sync(0)
        #expect(try await SyncAgent(store: world.stores[0], transport: world.relay, environment: world.environment).makeSnapshot() != nil)
        try await world.addClone("late")
        try world.outside(1, "ALTER TABLE book ADD COLUMN tag TEXT")
        await #expect { try await world.sync(1) } throws: { ($0 as? AnnalsError)?.code == .waitingForMigration }
        try await world.stores[1].migrate(label: "v3", sql: sql)
        try await expectVerified(world)
    }

    @Test func `a replica that lacks a column which a removed constraint takes along is behind no longer`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "ALTER TABLE book ADD COLUMN pub INTEGER REFERENCES pub(id)")
        try await world.settle()
        #expect(try await world.stores[1].status().missingSchema == ["book.pub"])
        let sql = Self.rebuild("title TEXT NOT NULL, note TEXT NOT NULL", "title, note", "title, note")
        try await world.stores[0].migrate(label: "v3", sql: sql)
        try await world.settle()
        #expect(try await world.stores[1].status().missingSchema == [])
        try await expectVerified(world)
    }

    @Test func `verify after a table was dropped and created again, with unsent work in it`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        try await world.settle()
        try world.outside(0, "INSERT INTO pub VALUES (1, 'unsent')")
        #expect(try await world.stores[0].prepareOutbox().outbox == 1)
        try await world.stores[0].migrate(label: "v2", sql: "DROP TABLE pub")
        try await world.stores[0].migrate(label: "v3", tracking: .all) { db in
            try db.execute(sql: "CREATE TABLE pub (id INTEGER PRIMARY KEY, city TEXT)")
        }
        let findings = try await world.stores[0].verify()
        #expect(findings == [])
        try await expectVerified(world)
    }

    @Test func `a NOT NULL column whose older rows are NULL in the space is refused by name`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.settle()
        try world.outside(0, "ALTER TABLE book ADD COLUMN tag TEXT")
        try await world.sync(0)
        try world.outside(1, "ALTER TABLE book ADD COLUMN tag TEXT NOT NULL DEFAULT 'x'")
        let error = try #require(await #expect(throws: AnnalsError.self) { try await world.sync(1) })
        #expect(error.code == .schemaRefused && error.message.contains("the column tag of book"), "\(error.message)")
    }
}
