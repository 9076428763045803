import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import RelayLog
import Testing

/// What migration tools do to a joined store. The statements are those that Django prints for SQLite.
@Suite("Migrations of a tool in a joined store")
struct BreakingSchemaTests {
    static let schema = """
        CREATE TABLE "shop_author" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(100) NOT NULL);
        CREATE TABLE "shop_book" (
            "id" varchar(8) NOT NULL PRIMARY KEY, "title" varchar(100) NOT NULL, "isbn" varchar(20) NULL,
            "author_id" bigint NULL REFERENCES "shop_author" ("id") DEFERRABLE INITIALLY DEFERRED);
        CREATE INDEX "shop_book_author_id_aed7" ON "shop_book" ("author_id");
        INSERT INTO shop_author VALUES(1, 'Ann'), (2, 'Bob');
        INSERT INTO shop_book VALUES('a', 'One', '11', 1), ('b', 'Two', NULL, 1), ('c', 'Three', '33', 2);
        """

    /// AddField with a default: NOT NULL without DEFAULT, and a new table filled with the value.
    static func addField(_ declaration: String = "integer NOT NULL", _ value: String = "3") -> String {
        """
        CREATE TABLE "new__shop_book" (
            "id" varchar(8) NOT NULL PRIMARY KEY, "title" varchar(100) NOT NULL, "isbn" varchar(20) NULL,
            "author_id" bigint NULL REFERENCES "shop_author" ("id") DEFERRABLE INITIALLY DEFERRED, "stock" \(declaration));
        INSERT INTO "new__shop_book" ("id", "title", "isbn", "author_id", "stock")
            SELECT "id", "title", "isbn", "author_id", \(value) FROM "shop_book";
        DROP TABLE "shop_book";
        ALTER TABLE "new__shop_book" RENAME TO "shop_book";
        CREATE INDEX "shop_book_author_id_aed7" ON "shop_book" ("author_id");
        """
    }

    private func books(_ world: SyncedStores, _ index: Int, _ columns: String = "id || title || stock") async throws -> [String] {
        try await world.rows(index, "SELECT \(columns) FROM shop_book ORDER BY id").compactMap { String.fromDatabaseValue($0[0]) }
    }

    private func expectBooks(
        _ world: SyncedStores, _ books: [String], _ columns: String = "id || title || stock",
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        try await world.expectAlike(sourceLocation: sourceLocation)
        for index in world.stores.indices {
            #expect(try await self.books(world, index, columns) == books, "replica \(index)", sourceLocation: sourceLocation)
            #expect(try await world.stores[index].verify().isEmpty, "replica \(index)", sourceLocation: sourceLocation)
        }
    }

    // MARK: AddField with a default

    @Test("AddField with a default reaches the space, with unsent work on all sides", arguments: [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
    func addedField(order: [Int]) async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        for index in 0..<3 {
            try world.outside(index, "INSERT INTO shop_book VALUES('n\(index)', 'New', NULL, 1)")
            try world.outside(index, "UPDATE shop_book SET title = title || '\(index)' WHERE id = '\(["a", "b", "c"][index])'")
        }
        try world.outside(0, Self.addField(), foreignKeys: false)
        try world.outside(0, "UPDATE shop_book SET stock = 9 WHERE id = 'c'; INSERT INTO shop_book VALUES('z', 'Zed', NULL, NULL, 5)")
        for index in order { try await world.sync(index) }
        try await world.settle()
        #expect(try await world.stores[1].prepareOutbox().isBehindSchema)
        // Work of older replicas after the entry.
        try world.outside(1, "INSERT INTO shop_book VALUES('y', 'Yps', NULL, NULL); DELETE FROM shop_book WHERE id = 'n2'")
        try world.outside(2, "UPDATE shop_book SET id = 'd' WHERE id = 'c'")
        try await world.settle()
        #expect(try await books(world, 0) == ["aOne03", "bTwo13", "dThree29", "n0New3", "n1New3", "yYps3", "zZed5"])
        for index in [1, 2] { try world.outside(index, Self.addField(), foreignKeys: false) }
        try world.outside(2, "UPDATE shop_book SET stock = 4 WHERE id = 'a'")
        try await expectBooks(world, ["aOne04", "bTwo13", "dThree29", "n0New3", "n1New3", "yYps3", "zZed5"])
        #expect(try await !world.stores[1].prepareOutbox().isBehindSchema)
        #expect(try await world.stores[1].conflicts().isEmpty)
    }

    @Test("the same tool on both sides: the migrations meet as one")
    func addedFieldTwice() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        for index in 0..<2 {
            try world.outside(index, "INSERT INTO shop_book VALUES('n\(index)', 'New', NULL, 1)")
            try world.outside(index, Self.addField(), foreignKeys: false)
            try world.outside(index, "UPDATE shop_book SET stock = \(index + 7) WHERE id = '\(["a", "b"][index])'")
        }
        try world.outside(2, "INSERT INTO shop_book VALUES('n2', 'New', NULL, 1)")
        try await world.settle()
        #expect(try await world.stores[2].prepareOutbox().schemaVersion == 2)
        try world.outside(2, Self.addField(), foreignKeys: false)
        try await expectBooks(world, ["aOne7", "bTwo8", "cThree3", "n0New3", "n1New3", "n2New3"])
    }

    @Test("different values on two sides: the first in the log counts for rows that nobody wrote", arguments: [[0, 1], [1, 0]])
    func addedFieldOtherValue(order: [Int]) async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        for index in 0..<2 {
            try world.outside(index, "INSERT INTO shop_book VALUES('n\(index)', 'New', NULL, 1)")
            try world.outside(index, Self.addField("integer NOT NULL", "\(index + 3)"), foreignKeys: false)
            try world.outside(index, "UPDATE shop_book SET stock = \(index + 7) WHERE id = '\(["a", "b"][index])'")
        }
        for index in order { try await world.sync(index) }
        try await world.settle()
        try world.outside(2, Self.addField("integer NOT NULL", "1"), foreignKeys: false)
        let value = order[0] + 3
        try await world.expectAlike()
        let books = try await books(world, 0)
        #expect(books.filter { !$0.hasPrefix("n") } == ["aOne7", "bTwo8", "cThree\(value)"])
    }

    @Test(
        "values of all types",
        arguments: [
            ("varchar(10) NOT NULL", "'it''s'"), ("real NOT NULL", "1.0"), ("real NOT NULL", "0.1"), ("decimal NOT NULL", "'12.50'"),
            ("datetime NOT NULL", "'2024-01-01 00:00:00'"), ("bool NOT NULL", "0"), ("integer NOT NULL", "-5"),
            ("BLOB NOT NULL", "X'00FF'"),
            ("text NOT NULL", "''"), ("text NOT NULL", "'1e2'"), ("char(32) NOT NULL", "lower(hex(randomblob(16)))"),
        ])
    func values(_ declaration: String, _ value: String) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, Self.addField(declaration, value), foreignKeys: false)
        try await world.sync(0)
        try world.outside(1, "INSERT INTO shop_book VALUES('n', 'New', NULL, 1)")
        try await world.settle()
        let before = try await world.rows(0, "SELECT id, stock, typeof(stock) FROM shop_book ORDER BY id")
        try world.outside(1, Self.addField(declaration, value.hasPrefix("lower") ? "'x'" : value), foreignKeys: false)
        try await world.expectAlike()
        #expect(try await world.rows(1, "SELECT id, stock, typeof(stock) FROM shop_book ORDER BY id") == before)
    }

    @Test(
        "an empty table: rows of older replicas get the empty value",
        arguments: [("varchar(9) NOT NULL", ""), ("integer NOT NULL", "0")])
    func addedFieldToNothing(_ declaration: String, _ value: String) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema + "DELETE FROM shop_book;")
        try world.outside(0, Self.addField(declaration, "'9'"), foreignKeys: false)
        try world.outside(1, "INSERT INTO shop_book VALUES('n', 'New', NULL, 1)")
        try await world.settle()
        try world.outside(1, Self.addField(declaration, "'9'"), foreignKeys: false)
        try await expectBooks(world, ["nNew\(value)"])
    }

    @Test("clones, replicas that take the schema, and replicas that return after a purge of the log have the value too")
    func addedFieldElsewhere() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try world.outside(0, Self.addField(), foreignKeys: false)
        try world.outside(0, "UPDATE shop_book SET stock = 9 WHERE id = 'c'")
        try await world.sync(0)
        try world.reopen(1, newSchemas: .take)
        try await world.sync(1)
        try await world.addClone("r3")
        #expect(try await SyncAgent(store: world.stores[3], transport: world.relay, environment: world.environment).makeSnapshot() != nil)
        var rules = PurgeRules()
        rules.keep = -60_000
        rules.isForced = true
        _ = try await world.relay.purge(rules)
        try await world.addClone("r4")
        // An older replica with unsent work, which the log does not reach any more.
        try world.outside(2, "INSERT INTO shop_book VALUES('n', 'New', NULL, 1); UPDATE shop_book SET title = 'II' WHERE id = 'b'")
        try await world.settle()
        #expect(try await books(world, 4) == ["aOne3", "bII3", "cThree9", "nNew3"])
        try world.outside(4, "INSERT INTO shop_book VALUES('o', 'Own', NULL, 1, 2)")
        try await world.settle()
        try world.outside(2, Self.addField(), foreignKeys: false)
        try await expectBooks(world, ["aOne3", "bII3", "cThree9", "nNew3", "oOwn2"])
    }

    @Test("annals migrate with the tool's statements keeps the history, and meets the tool's own run on another replica")
    func migrated() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "UPDATE shop_book SET title = 'Uno' WHERE id = 'a'")
        let then = try await world.stores[0].latestToken()
        try await world.stores[0].migrate(label: "v2", sql: Self.addField() + "UPDATE shop_book SET stock = 9 WHERE id = 'c';")
        try world.outside(0, "UPDATE shop_book SET stock = 8 WHERE id = 'b'")
        try world.outside(1, "INSERT INTO shop_book VALUES('n', 'New', NULL, 1)")
        #expect(try await world.sync(0).reconciled == 0)
        try await world.settle()
        try world.outside(1, Self.addField(), foreignKeys: false)
        try await expectBooks(world, ["aUno3", "bTwo8", "cThree9", "nNew3"])
        _ = try await world.stores[0].replay(to: then, output: world.folder.file("then.db"))
    }

    @Test("a new table and a new column at once: the rows that others have in the table stay")
    func tableAndField() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let table = "CREATE TABLE \"shop_tag\" (\"id\" varchar(8) NOT NULL PRIMARY KEY, \"word\" text NOT NULL);"
        try world.outside(0, Self.addField() + table, foreignKeys: false)
        try world.outside(0, "INSERT INTO shop_tag VALUES('t', 'red')")
        try await world.settle()
        try world.outside(1, Self.addField() + table, foreignKeys: false)
        try world.outside(1, "INSERT INTO shop_tag VALUES('u', 'blue')")
        try await world.stores[1].track(.all)
        try await expectBooks(world, ["aOne3", "bTwo3", "cThree3"])
        #expect(try await world.rows(1, "SELECT word FROM shop_tag ORDER BY id").map { $0[0] } == ["red", "blue"].map(\.databaseValue))
    }

    // MARK: CHECK constraints on new columns

    @Test("PositiveIntegerField and JSONField: a constraint that names only new columns comes with them")
    func checkedField() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        let json = #"ALTER TABLE "shop_book" ADD COLUMN "meta" text NULL CHECK ((JSON_VALID("meta") OR "meta" IS NULL));"#
        let sql = Self.addField(#"integer unsigned NOT NULL CHECK ("stock" >= 0)"#) + json
        try world.outside(0, sql, foreignKeys: false)
        try world.outside(1, "INSERT INTO shop_book VALUES('n', 'New', NULL, 1)")
        try world.reopen(2, newSchemas: .take)
        try await world.settle()
        #expect(throws: DatabaseError.self) { try world.outside(2, "UPDATE shop_book SET stock = -1") }
        #expect(throws: DatabaseError.self) { try world.outside(2, "UPDATE shop_book SET meta = '{'") }
        try world.outside(2, "UPDATE shop_book SET stock = 4, meta = '{}' WHERE id = 'n'")
        try await world.addClone("r3")
        try world.outside(1, sql, foreignKeys: false)
        try await expectBooks(world, ["aOne3-", "bTwo3-", "cThree3-", "nNew4{}"], "id || title || stock || ifnull(meta, '-')")
    }

    @Test(
        "a constraint on older columns makes the other replicas wait",
        arguments: [#""stock" > length("title")"#, #"length("title") > 0"#])
    func checkOnOlderColumns(_ check: String) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let sql = Self.addField("integer NOT NULL CHECK (\(check))", "99")
        try world.outside(0, sql, foreignKeys: false)
        try await world.sync(0)
        try world.outside(1, "UPDATE shop_book SET title = 'mine' WHERE id = 'a'")
        await #expect { try await world.sync(1) } throws: { error in
            (error as? AnnalsError)?.code == .waitingForMigration && (error as? AnnalsError)?.message.contains("shop_book") ?? false
        }
        try world.outside(1, sql, foreignKeys: false)
        try await expectBooks(world, ["amine99", "bTwo99", "cThree99"])
        #expect(throws: DatabaseError.self) { try world.outside(1, "UPDATE shop_book SET title = '', stock = 0") }
    }
}
