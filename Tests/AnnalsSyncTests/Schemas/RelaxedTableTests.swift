import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import GRDB
import RelayLog
import Testing

/// A replica that removes constraints of a table brings the new declaration to the space. Replicas with the old one wait for their migration.
@Suite struct RelaxedTableTests {
    private static let schema = """
        CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, code TEXT);
        CREATE TABLE book (
            id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL, isbn TEXT UNIQUE, pages INTEGER CHECK (pages > 0),
            author INTEGER NOT NULL REFERENCES author(id) ON DELETE CASCADE);
        CREATE INDEX titles ON book (title);
        CREATE TABLE page (book INTEGER REFERENCES book(id), number INTEGER, PRIMARY KEY (book, number)) WITHOUT ROWID;
        INSERT INTO author VALUES (1, 'Ann', 'A'), (2, 'Bob', 'B');
        INSERT INTO book VALUES (1, 'one', 'i1', 100, 1), (2, 'two', 'i2', 200, 2);
        INSERT INTO page VALUES (1, 1), (2, 1);
        """

    /// The statements with which a migration tool rebuilds the table.
    private static func rebuild(_ declaration: String, _ columns: String) -> String {
        """
        CREATE TABLE new__book (id INTEGER PRIMARY KEY AUTOINCREMENT, \(declaration));
        INSERT INTO new__book (id, \(columns)) SELECT id, \(columns) FROM book;
        DROP TABLE book; ALTER TABLE new__book RENAME TO book; CREATE INDEX titles ON book (title);
        """
    }

    private static let nullable = rebuild(
        "title TEXT, isbn TEXT UNIQUE, pages INTEGER CHECK (pages > 0), author INTEGER NOT NULL REFERENCES author(id) ON DELETE CASCADE",
        "title, isbn, pages, author")
    private static let free = rebuild(
        "title TEXT NOT NULL, isbn TEXT, pages INTEGER, author INTEGER NOT NULL", "title, isbn, pages, author")
    private static let withoutAuthor = rebuild(
        "title TEXT NOT NULL, isbn TEXT UNIQUE, pages INTEGER CHECK (pages > 0)", "title, isbn, pages")

    private func texts(_ world: SyncedStores, _ index: Int, _ sql: String) async throws -> [String] {
        try await world.rows(index, sql).map { row in
            row.map { String.fromDatabaseValue($0) ?? Int.fromDatabaseValue($0).map(String.init) ?? "-" }.joined(separator: " ")
        }
    }

    private func expectWaiting(_ world: SyncedStores, _ index: Int, _ words: String) async throws {
        let error = try #require(await #expect(throws: AnnalsError.self) { try await world.sync(index) })
        #expect(error.code == .waitingForMigration && error.message.contains(words), "\(error.message)")
    }

    @Test(arguments: [
        (nullable, "the column title", "INSERT INTO book (id, title, author) VALUES (3, NULL, 1)"),
        (free, "its UNIQUE constraints", "INSERT INTO book VALUES (3, 'three', 'i1', -1, 77)"),
        (withoutAuthor, "the column author", "INSERT INTO book (id, title) VALUES (3, 'three')"),
    ])
    func `a replica waits before the change, and continues when it has made it too`(sql: String, words: String, row: String) async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await world.settle()
        try world.outside(0, "UPDATE book SET title = 'early' WHERE id = 1")
        try await world.sync(0)
        try world.outside(1, "UPDATE book SET pages = 5 WHERE id = 2; INSERT INTO book VALUES (9, 'nine', 'i9', 9, 2)")
        try await world.stores[0].migrate(label: "v2", sql: sql)
        try world.outside(0, row)
        try await world.sync(0)
        for index in [1, 2] { try await expectWaiting(world, index, words) }
        // What came before the change is applied, and local work continues.
        #expect(try await texts(world, 2, "SELECT title FROM book WHERE id = 1") == ["early"])
        try world.outside(2, "UPDATE author SET name = 'Cy' WHERE id = 2")
        #expect(try await world.stores[2].verify().isEmpty)
        for index in [2, 1] {
            try await world.stores[index].migrate(label: "v2", sql: sql)
            try await world.sync(index)
        }
        try await world.addClone("late")
        try await world.expectAlike()
        #expect(try await texts(world, 3, "SELECT id FROM book ORDER BY id") == ["1", "2", "3", "9"])
        #expect(try await texts(world, 0, "SELECT name FROM author ORDER BY id") == ["Ann", "Cy"])
        #expect(try await texts(world, 0, "SELECT pages FROM book ORDER BY id")[1] == "5")
        for store in world.stores { #expect(try await store.status().schemaVersion == 2) }
    }

    @Test(arguments: [nullable, free, withoutAuthor])
    func `a store that takes its schema from the log rebuilds the table`(sql: String) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(1, "CREATE INDEX own ON book (pages); CREATE TRIGGER count AFTER INSERT ON page BEGIN SELECT 1; END")
        try world.reopen(1, newSchemas: .take)
        try await world.settle()
        try world.outside(1, "INSERT INTO book VALUES (50, 'fifty', NULL, NULL, 1); DELETE FROM book WHERE id = 50")
        try world.outside(1, "INSERT INTO page VALUES (1, 2); UPDATE book SET title = 'mine' WHERE id = 2")
        let token = try await world.stores[1].latestToken()
        try await world.stores[0].migrate(label: "v2", sql: sql)
        try world.outside(0, "UPDATE book SET title = 'theirs' WHERE id = 1")
        try await world.sync(0)
        try await world.expectAlike()
        #expect(try await texts(world, 1, "SELECT title FROM book ORDER BY id") == ["theirs", "mine"])
        let names = try await texts(world, 1, "SELECT name FROM sqlite_master WHERE name IN ('own', 'titles', 'count') ORDER BY name")
        #expect(names == ["count", "own", "titles"])
        #expect(try await texts(world, 1, "SELECT seq FROM sqlite_sequence WHERE name = 'book'") == ["50"])
        // History goes on.
        _ = try await world.stores[1].replay(to: token, output: world.folder.file("then.db"))
    }

    @Test func `two replicas make the same change at once, with unsent work on both`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.settle()
        for index in [0, 1] {
            try world.outside(index, "INSERT INTO book VALUES (3, 'three \(index)', 'x\(index)', 3, \(index + 1))")
            try await world.stores[index].migrate(label: "v2", sql: Self.withoutAuthor)
            try world.outside(index, "INSERT INTO book VALUES (4, 'four \(index)', NULL, NULL)")
            world.clock.advance(.seconds(1))
        }
        try await world.expectAlike()
        #expect(try await texts(world, 0, "SELECT title FROM book ORDER BY title").count == 6)
        for store in world.stores { #expect(try await store.status().schemaVersion == 2) }
    }

    @Test func `another schema entry that comes first does not hide a removed column`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.settle()
        try await world.stores[0].migrate(label: "v2", sql: Self.withoutAuthor)
        try world.outside(1, "ALTER TABLE author ADD COLUMN born INTEGER")
        try await world.sync(1)
        try await world.sync(0)
        #expect(try await world.stores[0].status().missingSchema == ["author.born"])
        try await expectWaiting(world, 1, "the column author")
        try await world.stores[1].migrate(label: "v2", sql: Self.withoutAuthor)
        try world.outside(0, "ALTER TABLE author ADD COLUMN born INTEGER")
        try await world.expectAlike()
    }

    @Test func `a reference and the table to which it refers are removed together`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try world.reopen(2, newSchemas: .take)
        try await world.settle()
        let sql = Self.withoutAuthor + "DROP TABLE author"
        try await world.stores[0].migrate(label: "v2", sql: sql)
        try world.outside(0, "INSERT INTO book (id, title) VALUES (3, 'three')")
        try await world.sync(0)
        try await expectWaiting(world, 1, "the column author")
        try await world.sync(2)
        try await world.stores[1].migrate(label: "v2", sql: sql)
        try await world.expectAlike()
        #expect(try await texts(world, 2, "SELECT name FROM sqlite_master WHERE name = 'author'") == [])
    }

    @Test func `a new column in the same migration`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try world.reopen(2, newSchemas: .take)
        try await world.settle()
        let sql = Self.rebuild(
            "title TEXT NOT NULL, isbn TEXT, pages INTEGER CHECK (pages > 0), writer TEXT NOT NULL DEFAULT 'nobody'", "title, isbn, pages")
        try await world.stores[0].migrate(label: "v2", sql: sql)
        try world.outside(0, "UPDATE book SET writer = 'Ann' WHERE id = 1")
        try world.outside(2, "UPDATE book SET pages = 7 WHERE id = 2")
        try await world.sync(0)
        try await world.sync(2)
        try await world.stores[1].migrate(label: "v2", sql: sql)
        try await world.expectAlike()
        #expect(try await texts(world, 2, "SELECT writer, pages FROM book ORDER BY id") == ["Ann 100", "nobody 7"])
    }

    @Test func `a replica comes back after a purge of the log`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await world.settle()
        try world.reopen(2, newSchemas: .take)
        try await world.stores[0].migrate(label: "v2", sql: Self.nullable)
        try world.outside(0, "INSERT INTO book VALUES (3, NULL, NULL, NULL, 1)")
        try await world.sync(0)
        #expect(try await SyncAgent(store: world.stores[0], transport: world.relay, environment: world.environment).makeSnapshot() != nil)
        var rules = PurgeRules()
        rules.keep = -60_000
        rules.isForced = true
        _ = try await world.relay.purge(rules)
        for index in [1, 2] {
            try world.outside(index, "UPDATE book SET title = 'mine' WHERE id = 2; UPDATE author SET name = 'x' WHERE id = \(index)")
        }
        try await expectWaiting(world, 1, "the column title")
        #expect(try await world.sync(2).cameBack != nil)
        try await world.stores[1].migrate(label: "v2", sql: Self.nullable)
        #expect(try await world.sync(1).cameBack != nil)
        try await world.expectAlike()
    }

    @Test func `what is no removal of a constraint is refused by name`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        try await world.settle()
        let changes = [
            (
                "title TEXT, isbn TEXT NOT NULL UNIQUE, pages INTEGER, author INTEGER NOT NULL REFERENCES author(id) ON DELETE CASCADE",
                "isbn"
            ),
            (
                "title TEXT, isbn TEXT UNIQUE, pages INTEGER CHECK (pages > 1), author INTEGER REFERENCES author(id) ON DELETE CASCADE",
                "CHECK"
            ),
            ("title TEXT, isbn TEXT UNIQUE, pages INTEGER, author INTEGER REFERENCES author(id) ON DELETE SET NULL", "foreign keys"),
            ("title INTEGER, isbn TEXT UNIQUE, pages INTEGER, author INTEGER REFERENCES author(id) ON DELETE CASCADE", "title"),
        ]
        for (declaration, words) in changes {
            let sql = Self.rebuild(declaration, "title, isbn, pages, author")
            let error = try #require(await #expect(throws: AnnalsError.self) { try await world.stores[0].migrate(label: "no", sql: sql) })
            #expect(error.code == .schemaRefused && error.message.contains(words), "\(error.message)")
        }
    }

    @Test func `a parent key that loses its UNIQUE constraint is refused`() async throws {
        let schema =
            "CREATE TABLE a (id INTEGER PRIMARY KEY, code TEXT UNIQUE); CREATE TABLE b (id INTEGER PRIMARY KEY, a TEXT REFERENCES a(code))"
        let world = try await SyncedStores(replicas: 1, schema: schema)
        try await world.settle()
        let sql = "CREATE TABLE n (id INTEGER PRIMARY KEY, code TEXT); DROP TABLE a; ALTER TABLE n RENAME TO a"
        let error = try #require(await #expect(throws: AnnalsError.self) { try await world.stores[0].migrate(label: "no", sql: sql) })
        #expect(error.message.contains("UNIQUE") || error.message.contains("foreign key"), "\(error.message)")
    }

    @Test(arguments: ["title INTEGER", "title TEXT NOT NULL UNIQUE", "title TEXT, extra TEXT", "name TEXT"])
    func `an entry of a member declares only fewer constraints`(declaration: String) async throws {
        let world = try await SyncedStores(replicas: 2, schema: "CREATE TABLE t (id INTEGER PRIMARY KEY, title TEXT NOT NULL)")
        try await world.settle()
        let description = try await world.relay.describe()
        var body = BodyEncoder(info: TransactionInfo(id: .random(), time: HybridTime(milliseconds: 1), origin: .migration))
        let statements = ["DROP TABLE t", "CREATE TABLE t (id INTEGER PRIMARY KEY, \(declaration))"]
        body.schema(SchemaEntry(version: 2, statements: statements, tracked: [], isBreaking: false))
        var batch = BatchEncoder(
            lineage: description.lineage, signer: .random(), firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 1)
        batch.append(body: body.finish(), base: description.head, footprint: .everything)
        _ = try await world.relay.push(batch.finish().bytes, seen: LogMark(lineage: description.lineage))
        try world.outside(0, "INSERT INTO t VALUES (1, 'still')")
        try await world.settle()
        #expect(try await texts(world, 1, "SELECT title FROM t") == ["still"])
        for store in world.stores { #expect(try await store.verify().isEmpty) }
    }
}
