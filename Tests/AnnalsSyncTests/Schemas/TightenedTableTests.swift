import AnnalsCore
import AnnalsHistory
import AnnalsMerge
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import GRDB
import RelayLog
import Testing

/// A replica that adds constraints to a table brings the new declaration to the space. Replicas with the old one wait for their migration.
@Suite struct TightenedTableTests {
    private static let schema = """
        CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE book (
            id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT, isbn TEXT, pages INTEGER, author INTEGER REFERENCES author(id));
        CREATE INDEX titles ON book (title);
        CREATE TABLE page (book INTEGER REFERENCES book(id), number INTEGER, PRIMARY KEY (book, number)) WITHOUT ROWID;
        INSERT INTO author VALUES (1, 'Ann'), (2, 'Bob');
        INSERT INTO book VALUES (1, 'one', 'i1', 100, 1), (2, 'two', 'i2', 200, 2), (5, NULL, 'i2', -5, 2);
        INSERT INTO page VALUES (1, 1), (2, 1), (5, 1);
        """

    /// A migration as a tool makes it: rows are corrected, and the table is rebuilt.
    struct Change: CustomTestStringConvertible, Sendable {
        var name: String
        var correction: String
        var sql: String
        /// A row that the constraint refuses.
        var violation: String
        /// The words of the difference.
        var words: String
        var testDescription: String { name }

        init(_ name: String, _ correction: String, _ declaration: String?, index: String = "", violation: String, words: String) {
            let rebuild = declaration.map { declaration in
                """
                CREATE TABLE new__book (id INTEGER PRIMARY KEY AUTOINCREMENT, author INTEGER REFERENCES author(id), \(declaration));
                INSERT INTO new__book (id, title, isbn, pages, author) SELECT id, title, isbn, pages, author FROM book;
                DROP TABLE book; ALTER TABLE new__book RENAME TO book; CREATE INDEX titles ON book (title);
                """
            }
            (self.name, self.correction, self.violation, self.words) = (name, correction, violation, words)
            sql = correction + ";" + (rebuild ?? "") + index
        }
    }

    private static let notNull = Change(
        "NOT NULL", "UPDATE book SET title = 'untitled' WHERE title IS NULL", "title TEXT NOT NULL, isbn TEXT, pages INTEGER",
        violation: "INSERT INTO book (title, isbn) VALUES (NULL, 'x')", words: "the column title")
    private static let unique = Change(
        "UNIQUE", "UPDATE book SET isbn = NULL WHERE id <> (SELECT min(id) FROM book AS b WHERE b.isbn = book.isbn)",
        "title TEXT, isbn TEXT UNIQUE, pages INTEGER", violation: "INSERT INTO book (title, isbn) VALUES ('x', 'i1')", words: "UNIQUE")
    private static let index = Change(
        "CREATE UNIQUE INDEX", unique.correction, nil, index: "CREATE UNIQUE INDEX isbns ON book (isbn)",
        violation: "INSERT INTO book (title, isbn) VALUES ('x', 'i1')", words: "UNIQUE")
    private static let check = Change(
        "CHECK", "UPDATE book SET pages = 0 WHERE pages < 0", "title TEXT, isbn TEXT, pages INTEGER CHECK (pages >= 0)",
        violation: "INSERT INTO book (title, pages) VALUES ('x', -1)", words: "CHECK")
    private static let all = Change(
        "all of them", [notNull, unique, check].map(\.correction).joined(separator: ";"),
        "title TEXT NOT NULL, isbn TEXT CONSTRAINT one UNIQUE ON CONFLICT ABORT, pages INTEGER CONSTRAINT positive CHECK (pages >= 0)",
        violation: "INSERT INTO book (title, pages) VALUES ('x', -1)", words: "the column title")
    private static let changes = [notNull, unique, index, check, all]

    /// Inserts a book. A migration may have changed the order of the columns.
    private static func row(_ values: String) -> String {
        "INSERT INTO book (id, title, isbn, pages, author) VALUES (\(values));"
    }

    private func texts(_ world: SyncedStores, _ index: Int, _ sql: String) async throws -> [String] {
        try await world.rows(index, sql).map { row in
            row.map { String.fromDatabaseValue($0) ?? Int.fromDatabaseValue($0).map(String.init) ?? "-" }.joined(separator: " ")
        }
    }

    private func expectWaiting(
        _ world: SyncedStores, _ index: Int, _ words: String, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let error = try #require(
            await #expect(throws: AnnalsError.self, sourceLocation: sourceLocation) { try await world.sync(index) })
        #expect(
            error.code == .waitingForMigration && error.message.contains(words), "\(error.message)", sourceLocation: sourceLocation)
    }

    private func expectTight(_ world: SyncedStores, _ change: Change, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        try await world.expectAlike(sourceLocation: sourceLocation)
        for (index, store) in world.stores.enumerated() {
            #expect(throws: DatabaseError.self, "replica \(index)", sourceLocation: sourceLocation) {
                try world.outside(index, change.violation)
            }
            #expect(try await store.status().schemaVersion == 2, "replica \(index)", sourceLocation: sourceLocation)
            #expect(try await store.verify().isEmpty, "replica \(index)", sourceLocation: sourceLocation)
        }
    }

    @Test(arguments: changes)
    func `a replica waits before the change, and continues when it has made it too`(change: Change) async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await world.settle()
        // Unsent work that the constraint refuses, and the tool corrects.
        try world.outside(0, Self.row("7, NULL, 'i1', -7, 1") + "UPDATE author SET name = 'An' WHERE id = 1")
        try world.outside(1, "UPDATE book SET pages = 5 WHERE id = 2;" + Self.row("9, NULL, 'i1', -9, 2"))
        try world.outside(0, change.sql, foreignKeys: false)
        try world.outside(0, Self.row("8, 'eight', 'i8', 8, 1"))
        try await world.sync(0)
        for index in [1, 2] { try await expectWaiting(world, index, change.words) }
        // What came before the change is applied, and local work continues.
        #expect(try await texts(world, 2, "SELECT name FROM author WHERE id = 1") == ["An"])
        try world.outside(2, "UPDATE author SET name = 'Cy' WHERE id = 2")
        #expect(try await world.stores[2].verify().isEmpty)
        for index in [2, 1] {
            try world.outside(index, change.sql, foreignKeys: false)
            try await world.sync(index)
        }
        try await world.addClone("late")
        try await expectTight(world, change)
        #expect(try await texts(world, 3, "SELECT name FROM author ORDER BY id") == ["An", "Cy"])
        #expect(try await texts(world, 0, "SELECT pages FROM book WHERE id = 2") == ["5"])
        #expect(try await texts(world, 0, "SELECT count(*) FROM book WHERE id IN (1, 2, 5, 7, 8)") == ["5"])
    }

    @Test(arguments: changes)
    func `two replicas make the same change at once, with unsent work on both`(change: Change) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.settle()
        for index in [0, 1] {
            try world.outside(index, Self.row("3, 'three \(index)', NULL, 3, \(index + 1)"))
            try world.outside(index, change.sql, foreignKeys: false)
            try world.outside(index, Self.row("4, 'four \(index)', NULL, 4, NULL"))
            world.clock.advance(.seconds(1))
        }
        try await expectTight(world, change)
        #expect(try await texts(world, 0, "SELECT count(*) FROM book") == ["7"])
    }

    @Test(arguments: changes)
    func `a store that takes its schema from the log rebuilds the table`(change: Change) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(1, "CREATE INDEX own ON book (pages); CREATE TRIGGER count AFTER INSERT ON page BEGIN SELECT 1; END")
        try world.reopen(1, newSchemas: .take)
        try await world.settle()
        try world.outside(1, Self.row("50, 'fifty', NULL, NULL, 1") + "DELETE FROM book WHERE id = 50")
        try world.outside(1, "INSERT INTO page VALUES (1, 2); UPDATE book SET title = 'mine' WHERE id = 2")
        try world.outside(0, change.sql, foreignKeys: false)
        try world.outside(0, "UPDATE book SET title = 'theirs' WHERE id = 1")
        // Unsent work that the constraint refuses.
        try world.outside(1, Self.row("51, NULL, 'i1', -51, 1"))
        try await world.sync(0)
        try await expectTight(world, change)
        #expect(try await texts(world, 1, "SELECT title FROM book WHERE id IN (1, 2) ORDER BY id") == ["theirs", "mine"])
        let names = try await texts(world, 1, "SELECT name FROM sqlite_master WHERE name IN ('own', 'titles', 'count') ORDER BY name")
        #expect(names == ["count", "own", "titles"])
        #expect(try await world.stores[1].conflicts().count >= 1)
    }

    @Test func `unique values that two migrated replicas write at once are settled as a conflict`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.settle()
        for index in [0, 1] { try world.outside(index, Self.index.sql) }
        try await world.settle()
        for index in [0, 1] {
            try world.outside(index, Self.row("\(20 + index), 'r\(index)', 'same', 1, 1"))
            world.clock.advance(.seconds(1))
        }
        try await expectTight(world, Self.index)
        #expect(try await texts(world, 0, "SELECT count(*) FROM book WHERE isbn = 'same'") == ["1"])
    }

    @Test(arguments: changes)
    func `rows that another replica sends before the change are named, and can be corrected there`(change: Change) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.settle()
        try world.outside(1, Self.row("9, NULL, 'i1', -9, 2"))
        try await world.sync(1)
        try world.outside(0, change.sql, foreignKeys: false)
        try world.outside(0, Self.row("10, 'ten', NULL, 10, 2"))
        try await expectWaiting(world, 0, "constraint")
        #expect(try await texts(world, 0, "SELECT title FROM book WHERE id = 10") == ["ten"])
        #expect(try await world.stores[0].verify().isEmpty)
        try world.outside(1, change.correction)
        try await world.sync(1)
        try await world.sync(0)
        try world.outside(1, change.sql, foreignKeys: false)
        try await expectTight(world, change)
        #expect(try await texts(world, 1, "SELECT count(*) FROM book WHERE id IN (9, 10)") == ["2"])
    }

    @Test func `a constraint that is removed again before it was sent does not reach the space`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.settle()
        try world.outside(0, Self.index.sql)
        #expect(try await world.stores[0].prepareOutbox().outbox >= 1)
        try world.outside(0, "DROP INDEX isbns;" + Self.row("9, NULL, 'i1', -9, 2"))
        try await world.expectAlike()
        for store in world.stores { #expect(try await store.status().schemaVersion == 1) }
    }

    @Test func `two replicas add different constraints`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.settle()
        try world.outside(0, Self.index.sql)
        try world.outside(1, Self.check.sql, foreignKeys: false)
        try await world.sync(0)
        try await expectWaiting(world, 1, "UNIQUE")
        try world.outside(1, Self.index.sql)
        try await world.sync(1)
        try await expectWaiting(world, 0, "CHECK")
        try world.outside(0, Self.check.correction)
        try await world.stores[0].migrate(label: "v2", sql: Self.check.sql + Self.index.sql)
        try await world.expectAlike()
        for store in world.stores { #expect(try await store.status().schemaVersion == 3) }
    }

    @Test func `a new column with a UNIQUE index, and a CHECK on new and old columns`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try world.reopen(2, newSchemas: .take)
        try await world.settle()
        let sql = """
            ALTER TABLE book ADD COLUMN slug TEXT CHECK (slug <> title);
            CREATE UNIQUE INDEX slugs ON book (slug)
            """
        try world.outside(0, sql)
        try world.outside(0, "UPDATE book SET slug = 's' || id")
        try world.outside(1, "INSERT INTO book (id, title) VALUES (30, 'thirty')")
        try world.outside(2, "INSERT INTO book (id, title) VALUES (40, 'forty')")
        try await world.sync(0)
        try await world.sync(2)
        try await expectWaiting(world, 1, "UNIQUE")
        try world.outside(1, sql)
        try await world.expectAlike()
        #expect(try await texts(world, 2, "SELECT slug FROM book ORDER BY id") == ["s1", "s2", "s5", "-", "-"])
        for index in [0, 1, 2] {
            #expect(throws: DatabaseError.self) { try world.outside(index, "UPDATE book SET slug = 's1' WHERE id = 30") }
        }
    }

    @Test(arguments: [false, true])
    func `older work still meets the constraints that the space has`(deletes: Bool) async throws {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE t (id INTEGER PRIMARY KEY, email TEXT UNIQUE, title TEXT, CHECK (email <> ''))")
        try await world.settle()
        let sql = """
            CREATE TABLE n (id INTEGER PRIMARY KEY, email TEXT UNIQUE, title TEXT NOT NULL, CHECK (email <> ''));
            INSERT INTO n SELECT * FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t
            """
        try world.outside(0, "INSERT INTO t VALUES (20, 'same', 'x')")
        #expect(try await world.stores[0].prepareOutbox().outbox == 1)
        if deletes { try world.outside(0, "DELETE FROM t WHERE id = 20") }
        #expect(try await world.stores[0].prepareOutbox().outbox == (deletes ? 2 : 1))
        try await world.stores[0].migrate(label: "v2", sql: sql)
        try world.outside(1, "INSERT INTO t VALUES (21, 'same', 'y')")
        try await world.sync(1)
        try await world.sync(0)
        try await world.stores[1].migrate(label: "v2", sql: sql)
        try await world.expectAlike()
        #expect(try await texts(world, 1, "SELECT id, email FROM t") == ["21 same"])
        for store in world.stores { #expect(try await store.verify().isEmpty) }
    }

    @Test func `a constraint that another replica sends first counts for older work`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b TEXT)")
        try await world.settle()
        func migrate(_ index: Int, _ b: String) async throws {
            try await world.stores[index].migrate(
                label: "v2",
                sql: """
                    UPDATE t SET a = 'none' WHERE a IS NULL;
                    CREATE TABLE n (id INTEGER PRIMARY KEY, a TEXT NOT NULL, b TEXT \(b)); INSERT INTO n SELECT * FROM t;
                    DROP TABLE t; ALTER TABLE n RENAME TO t
                    """)
        }
        try world.outside(0, "INSERT INTO t VALUES (1, NULL, 'x')")
        #expect(try await world.stores[0].prepareOutbox().outbox == 1)
        try await migrate(0, "UNIQUE")
        try await migrate(1, "")
        try world.outside(1, "INSERT INTO t VALUES (2, 'y', 'y')")
        try await world.sync(1)
        try await world.sync(0)
        try await migrate(1, "UNIQUE")
        try await world.expectAlike()
        for store in world.stores { #expect(try await store.verify().isEmpty) }
    }

    @Test func `a conflict clause of the new constraint removes no rows`() async throws {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE t (id INTEGER PRIMARY KEY, isbn TEXT); INSERT INTO t VALUES (1, 'i1')")
        try await world.settle()
        let sql = """
            CREATE TABLE n (id INTEGER PRIMARY KEY, isbn TEXT UNIQUE ON CONFLICT REPLACE); INSERT INTO n SELECT * FROM t;
            DROP TABLE t; ALTER TABLE n RENAME TO t
            """
        try world.outside(1, "INSERT INTO t VALUES (2, 'i1')")
        try await world.sync(1)
        try await world.stores[0].migrate(label: "v2", sql: sql)
        try world.outside(0, "INSERT INTO t VALUES (10, 'i9')")
        try await expectWaiting(world, 0, "UNIQUE")
        #expect(try await texts(world, 0, "SELECT id FROM t") == ["1", "10"])
        try world.outside(1, "UPDATE t SET isbn = 'i2' WHERE id = 2")
        try await world.sync(1)
        try await world.sync(0)
        try await world.stores[1].migrate(label: "v2", sql: sql)
        try await world.expectAlike()
        #expect(try await texts(world, 0, "SELECT id FROM t ORDER BY id") == ["1", "2", "10"])
    }

    @Test func `an unsent row that violates the new constraint together with a pulled row is settled`() async throws {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE t (id INTEGER PRIMARY KEY, isbn TEXT); INSERT INTO t VALUES (1, 'i1')")
        try await world.settle()
        let sql = "CREATE UNIQUE INDEX isbns ON t (isbn)"
        try await world.stores[0].migrate(label: "v2", sql: sql)
        // The conflict about row 1 keeps the relay from accepting row 10 before row 11 is pulled.
        try world.outside(0, "UPDATE t SET isbn = 'i2' WHERE id = 1; INSERT INTO t VALUES (10, 'i9')")
        try world.outside(1, "UPDATE t SET isbn = 'i3' WHERE id = 1; INSERT INTO t VALUES (11, 'i9')")
        try await world.sync(1)
        try await world.sync(0)
        try await world.stores[1].migrate(label: "v2", sql: sql)
        try await world.expectAlike()
        #expect(try await texts(world, 1, "SELECT count(*) FROM t WHERE isbn = 'i9'") == ["1"])
        #expect(try await !world.stores[0].conflicts().isEmpty)
        for store in world.stores { #expect(try await store.verify().isEmpty) }
    }

    @Test func `verify finds nothing while corrections wait before the constraint`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)")
        try await world.settle()
        try world.outside(0, "INSERT INTO t VALUES (1, NULL)")
        #expect(try await world.stores[0].prepareOutbox().outbox == 1)
        let sql = """
            UPDATE t SET a = ''; CREATE TABLE n (id INTEGER PRIMARY KEY, a TEXT NOT NULL); INSERT INTO n SELECT * FROM t;
            DROP TABLE t; ALTER TABLE n RENAME TO t
            """
        try await world.stores[0].migrate(label: "v2", sql: sql)
        #expect(try await world.stores[0].verify().isEmpty)
        try await world.expectAlike()
    }

    @Test func `added and removed constraints in one migration are refused by name`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT NOT NULL, b TEXT)")
        try await world.settle()
        let sql = "CREATE TABLE n (id INTEGER PRIMARY KEY, a TEXT, b TEXT NOT NULL); DROP TABLE t; ALTER TABLE n RENAME TO t"
        try world.outside(0, sql)
        let error = try #require(await #expect(throws: AnnalsError.self) { try await world.sync(0) })
        #expect(error.code == .schemaRefused && error.message.contains("the table t"), "\(error.message)")
    }

    @Test(arguments: [(true, false), (false, true), (false, false)])
    func `an entry of a member adds constraints only if it conflicts with everything`(isBreaking: Bool, isWhole: Bool) async throws {
        let world = try await SyncedStores(replicas: 2, schema: "CREATE TABLE t (id INTEGER PRIMARY KEY, title TEXT)")
        try await world.settle()
        let description = try await world.relay.describe()
        let info = TransactionInfo(id: .random(), time: HybridTime(milliseconds: 1), origin: .migration)
        var body = BodyEncoder(info: info)
        let statements = ["DROP TABLE t", "CREATE TABLE t (id INTEGER PRIMARY KEY, title TEXT NOT NULL)"]
        body.schema(SchemaEntry(version: 2, statements: statements, tracked: [], isBreaking: isBreaking))
        var footprint = FootprintBuilder(transaction: info.id, key: .none)
        footprint.addSchema()
        var batch = BatchEncoder(
            lineage: description.lineage, signer: .random(), firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 1)
        batch.append(body: body.finish(), base: description.head, footprint: isWhole ? .everything : footprint.finish())
        _ = try await world.relay.push(batch.finish().bytes, seen: LogMark(lineage: description.lineage))
        try world.outside(0, "INSERT INTO t VALUES (1, NULL)")
        if isBreaking {
            let error = try #require(await #expect(throws: AnnalsError.self) { try await world.sync(0) })
            #expect(error.code != .defect, "\(error.message)")
        } else {
            try await world.settle()
            #expect(try await texts(world, 1, "SELECT ifnull(title, 'none') FROM t") == ["none"])
        }
        for store in world.stores { #expect(try await store.verify().isEmpty) }
    }

    @Test(arguments: [
        ("CREATE TABLE t(a INT, b TEXT, UNIQUE (a, b))", ["b", "a"], "CREATE TABLE t( b TEXT,a INT, UNIQUE (a, b))"),
        (
            "CREATE TABLE t(\"x, y\" TEXT DEFAULT (1, 2), -- first,\n [check] INT, c AS (a), CHECK (1)) STRICT", ["check", "X, y", "z"],
            "CREATE TABLE t( -- first,\n [check] INT,\"x, y\" TEXT DEFAULT (1, 2), c AS (a), CHECK (1)) STRICT"
        ),
        ("CREATE TABLE t(a)", [], "CREATE TABLE t(a)"),
    ])
    func `a rebuilt table keeps the order of its columns`(sql: String, names: [String], arranged: String) {
        #expect(ColumnOrder.arrange(sql, like: names) == arranged)
    }

    @Test(arguments: [
        ("CREATE TABLE t(a NOT NULL, b UNIQUE, c CHECK (a > (1)) DEFAULT (NOT 1))", "CREATE TABLE t(a , b , c CHECK (1) DEFAULT (NOT 1))"),
        (
            "CREATE TABLE t(a INTEGER CONSTRAINT n NOT NULL ON CONFLICT IGNORE PRIMARY KEY, UNIQUE (a, \"not\") ON CONFLICT FAIL) STRICT",
            "CREATE TABLE t(a INTEGER CONSTRAINT n  PRIMARY KEY, CHECK (1)) STRICT"
        ),
        ("CREATE TABLE t(a varchar(3) not null unique on conflict abort collate nocase)", "CREATE TABLE t(a varchar(3)   collate nocase)"),
    ])
    func `a loose declaration has no constraints`(sql: String, loose: String) {
        #expect(LooseTables.loose(sql) == loose)
    }
}
