import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import RelayLog
import Testing

/// New tables, and new columns with a default, reach the space automatically. Replicas that lack them continue.
@Suite("Additions to a schema")
struct AdditionTests {
    static let schema = """
        CREATE TABLE team(id TEXT PRIMARY KEY NOT NULL, name TEXT);
        CREATE TABLE person(id TEXT PRIMARY KEY NOT NULL, name TEXT, team TEXT REFERENCES team(id) ON DELETE CASCADE);
        INSERT INTO team VALUES('t1', 'ops'), ('t2', 'dev');
        INSERT INTO person VALUES('p1', 'Ann', 't1'), ('p2', 'Bob', 't1'), ('p3', 'Cy', 't2');
        """
    static let column = "ALTER TABLE person ADD COLUMN age INTEGER NOT NULL DEFAULT 7"

    @Test("a new column needs no word: both sides write on, and the older has all of it once it has migrated")
    func column() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, Self.column)
        try world.outside(0, "UPDATE person SET age = 30 WHERE id = 'p1'; INSERT INTO person VALUES('p4', 'Di', 't2', 40)")
        try world.outside(1, "UPDATE person SET name = 'Bea' WHERE id = 'p2'; INSERT INTO person VALUES('p5', 'Ed', 't1')")
        try await world.settle()
        #expect(
            try await world.rows(0, "SELECT id || name || age FROM person ORDER BY id").map { $0[0] }
                == ["p1Ann30", "p2Bea7", "p3Cy7", "p4Di40", "p5Ed7"].map(\.databaseValue))
        #expect(
            try await world.rows(1, "SELECT id || name FROM person ORDER BY id").map { $0[0] }
                == ["p1Ann", "p2Bea", "p3Cy", "p4Di", "p5Ed"].map(\.databaseValue))
        #expect(try await world.stores[1].prepareOutbox().isBehindSchema)
        try world.outside(1, Self.column)
        try await world.expectAlike()
        #expect(try await !world.stores[1].prepareOutbox().isBehindSchema)
    }

    @Test("a table with generated columns gets columns, one after another", arguments: ["VIRTUAL", "STORED"])
    func generated(kind: String) async throws {
        let world = try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE person(id TEXT PRIMARY KEY NOT NULL, name TEXT, up TEXT AS (upper(name)) \(kind));
                INSERT INTO person(id, name) VALUES('p1', 'Ann');
                """)
        for column in ["a INTEGER", "b TEXT DEFAULT 'x'", "c REAL NOT NULL DEFAULT 0"] {
            try world.outside(0, "ALTER TABLE person ADD COLUMN \(column)")
            try await world.settle()
            #expect(try await world.stores[0].status().missingSchema.isEmpty, "\(column)")
            try await world.addClone("with \(column)")
            try world.outside(0, "UPDATE person SET \(column.prefix(1)) = 3")
            try await world.settle()
        }
        for column in ["a INTEGER", "b TEXT DEFAULT 'x'", "c REAL NOT NULL DEFAULT 0"] {
            try world.outside(1, "ALTER TABLE person ADD COLUMN \(column)")
        }
        for index in 2..<4 {
            for column in ["b TEXT DEFAULT 'x'", "c REAL NOT NULL DEFAULT 0"].dropFirst(index - 2) {
                try world.outside(index, "ALTER TABLE person ADD COLUMN \(column)")
            }
        }
        try await world.expectAlike()
    }

    @Test(
        "a default that SQLite converts is the same on every side",
        arguments: [
            "DECIMAL(10,2) NOT NULL DEFAULT 0.0", "INTEGER DEFAULT '7'", "TEXT DEFAULT 1e2", "TEXT DEFAULT \"open\"",
            "NUMERIC DEFAULT ' 12 '",
        ])
    func converted(column: String) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let statement = "ALTER TABLE person ADD COLUMN added \(column)"
        try world.outside(0, statement)
        try world.outside(0, "UPDATE person SET name = 'Bea' WHERE id = 'p2'")
        try world.outside(1, "UPDATE person SET name = 'Ada' WHERE id = 'p1'; INSERT INTO person VALUES('p5', 'Ed', 't1')")
        try await world.settle()
        try world.outside(1, "UPDATE person SET team = 't2' WHERE id = 'p1'")
        try world.outside(1, statement)
        try await world.expectAlike()
        for store in world.stores { #expect(try await store.verify() == [], "\(column)") }
    }

    @Test("what loses against what was kept is counted as a conflict by the sync that puts it into the rows")
    func counted() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, Self.column)
        try world.outside(0, "UPDATE person SET age = 30 WHERE id = 'p1'")
        try await world.settle()
        // The replica without the column did not see that the row was changed.
        try world.outside(1, "DELETE FROM person WHERE id = 'p1'; DELETE FROM person WHERE id = 'p2'")
        try world.outside(1, Self.column)
        #expect(try await world.sync(1).conflicts == 1)
        #expect(try await world.rows(1, "SELECT id || age FROM person ORDER BY id").map { $0[0] } == ["p130", "p37"].map(\.databaseValue))
        #expect(try await world.stores[1].conflicts().count == 1)
        #expect(try await world.sync(1).conflicts == 0)
        try await world.expectAlike()
    }

    @Test("what an older replica does not know follows rows that go, change their keys or come anew")
    func kept() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try world.outside(0, Self.column)
        try world.outside(
            0,
            "UPDATE person SET age = 31 WHERE id = 'p1'; UPDATE person SET age = 32 WHERE id = 'p2'; UPDATE person SET age = 33 WHERE id = 'p3'"
        )
        try await world.settle()
        // By the replica with the column, by the one without it, and by another one without it.
        try world.outside(0, "UPDATE person SET id = 'q1' WHERE id = 'p1'")
        try world.outside(1, "UPDATE person SET id = 'q2' WHERE id = 'p2'")
        try world.outside(2, "DELETE FROM person WHERE id = 'p3'")
        try await world.settle()
        try world.outside(1, "INSERT INTO person VALUES('p3', 'New', 't2')")
        try await world.settle()
        try world.outside(
            0,
            "UPDATE person SET id = 'x' WHERE id = 'q1'; UPDATE person SET id = 'q1' WHERE id = 'q2'; UPDATE person SET id = 'q2' WHERE id = 'x'"
        )
        try await world.settle()
        try world.outside(1, Self.column)
        try world.outside(2, Self.column)
        try await world.expectAlike()
        #expect(
            try await world.rows(2, "SELECT id || age FROM person ORDER BY id").map { $0[0] }
                == ["p37", "q132", "q231"].map(\.databaseValue))
    }

    @Test("what is kept survives a crash, and the migration can come while a push has no answer")
    func crash() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, Self.column)
        try world.outside(0, "UPDATE person SET age = 31 WHERE id = 'p1'")
        try await world.settle()
        try world.reopen(1)
        try world.outside(1, "UPDATE person SET name = 'Ada' WHERE id = 'p1'")
        _ = try await world.stores[1].prepareOutbox()
        _ = try await world.stores[1].freezePush()
        try world.outside(1, Self.column + "; UPDATE person SET age = 8 WHERE id = 'p3'")
        try world.reopen(1)
        try await world.expectAlike()
        #expect(
            try await world.rows(0, "SELECT id || name || age FROM person ORDER BY id").map { $0[0] }
                == ["p1Ada31", "p2Bob7", "p3Cy8"].map(\.databaseValue))
    }

    @Test("a new table's rows are kept, children of older tables too, and what they need is not taken from them")
    func table() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let table = "CREATE TABLE badge(id TEXT PRIMARY KEY NOT NULL, person TEXT NOT NULL REFERENCES person(id))"
        try world.outside(0, table + "; INSERT INTO badge VALUES('b1', 'p1'), ('b2', 'p2')")
        try await world.stores[0].track(.all)
        try await world.settle()
        try world.outside(
            0, "UPDATE badge SET id = 'c2' WHERE id = 'b2'; DELETE FROM badge WHERE id = 'b1'; INSERT INTO badge VALUES('b3', 'p3')")
        try await world.settle()
        // The replica without the table cannot know that a badge needs p3.
        try world.outside(1, "UPDATE person SET name = 'Cyd' WHERE id = 'p3'")
        try await world.sync(1)
        try world.outside(1, "DELETE FROM person WHERE id = 'p3'; INSERT INTO team VALUES('t9', 'new')")
        let summary = try await world.sync(1)
        #expect(summary.outbox > 0)
        #expect(try await world.stores[1].prepareOutbox().isWaitingForMigration)
        try await world.sync(0)
        #expect(try await world.rows(0, "SELECT name FROM person WHERE id = 'p3'") == [["Cyd".databaseValue]])
        try world.outside(1, table)
        try await world.stores[1].track(.all)
        try await world.expectAlike()
        #expect(
            try await world.rows(1, "SELECT id || person FROM badge ORDER BY id").map { $0[0] } == ["b3p3", "c2p2"].map(\.databaseValue))
        #expect(try await world.rows(0, "SELECT name FROM team WHERE id = 't9'") == [["new".databaseValue]])
    }

    @Test("a column of a table that is not offered yet is offered too, whichever store offers the table first")
    func columnOfNewTable() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        let table = "CREATE TABLE badge(id TEXT PRIMARY KEY NOT NULL, person TEXT REFERENCES person(id))"
        let note = "ALTER TABLE badge ADD COLUMN note TEXT DEFAULT 'none'"
        for index in [0, 1] {
            try world.outside(index, table)
            try await world.stores[index].track(.all)
            _ = try await world.stores[index].prepareOutbox()
        }
        // Its table is still a pending schema entry when it gets another column.
        try world.outside(1, "\(note); INSERT INTO badge VALUES('b1', 'p1', 'mine')")
        _ = try await world.stores[1].prepareOutbox()
        try world.outside(1, "UPDATE badge SET note = 'still mine'")
        try await world.settle()
        try world.outside(0, note)
        try world.outside(2, "\(table); \(note)")
        try await world.stores[2].track(.all)
        try await world.expectAlike()
        #expect(try await world.rows(2, "SELECT id, note FROM badge") == [["b1".databaseValue, "still mine".databaseValue]])
    }

    @Test("a table that got another column before anybody was told of it comes with it")
    func columnOfWaitingTable() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let table = "CREATE TABLE badge(id TEXT PRIMARY KEY NOT NULL, person TEXT REFERENCES person(id))"
        let note = "ALTER TABLE badge ADD COLUMN note TEXT DEFAULT 'none'"
        try world.outside(0, table)
        try await world.stores[0].track(.all)
        _ = try await world.stores[0].prepareOutbox()
        try world.outside(0, "\(note); INSERT INTO badge VALUES('b1', 'p1', 'mine')")
        // Work of other replicas does not prevent any of it from being sent.
        try world.outside(1, "UPDATE person SET name = 'Al' WHERE id = 'p1'; ALTER TABLE team ADD COLUMN color TEXT")
        try await world.settle()
        try world.outside(0, "ALTER TABLE team ADD COLUMN color TEXT")
        try world.outside(1, "\(table); \(note)")
        try await world.stores[1].track(.all)
        try await world.expectAlike()
        #expect(try await world.rows(1, "SELECT id, note FROM badge") == [["b1".databaseValue, "mine".databaseValue]])
    }

    @Test("two replicas that add the same tell of it once, and each what the other lacks")
    func twice() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try world.outside(0, Self.column + "; UPDATE person SET age = 30 WHERE id = 'p1'; ALTER TABLE team ADD COLUMN color TEXT")
        try world.outside(1, Self.column + "; UPDATE person SET age = 31 WHERE id = 'p2'; ALTER TABLE team ADD COLUMN size INT DEFAULT -1")
        try world.outside(1, "UPDATE team SET size = 4 WHERE id = 't1'")
        try world.outside(0, "UPDATE team SET color = 'red' WHERE id = 't1'")
        try await world.settle()
        #expect(try await world.stores[2].prepareOutbox().schemaVersion == 3)
        try world.outside(2, Self.column + "; ALTER TABLE team ADD COLUMN size INT DEFAULT -1")
        try world.outside(1, "ALTER TABLE team ADD COLUMN color TEXT")
        try world.outside(0, "ALTER TABLE team ADD COLUMN size INT DEFAULT -1")
        try await world.settle()
        try world.outside(2, "ALTER TABLE team ADD COLUMN color TEXT")
        try await world.expectAlike()
        #expect(try await world.rows(2, "SELECT color, size FROM team WHERE id = 't1'") == [["red".databaseValue, 4.databaseValue]])
        #expect(try await world.rows(2, "SELECT age FROM person ORDER BY id").map { $0[0] } == [30, 31, 7].map(\.databaseValue))
    }

    @Test("a column that refers to an untracked table is refused by name, and reaches the space when the table is tracked")
    func untrackedParent() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.reopen(1, newSchemas: .take)
        try await world.settle()
        try await world.addClone("tracks no new tables")
        try world.outside(2, "CREATE TABLE club(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO club VALUES(1, 'chess')")
        try world.outside(2, "ALTER TABLE person ADD COLUMN club INTEGER REFERENCES club(id); UPDATE person SET club = 1 WHERE id = 'p1'")
        let error = try #require(await #expect(throws: AnnalsError.self) { try await world.sync(2) })
        #expect(error.code == .schemaRefused && error.message.contains("refers to club, which is not tracked"), "\(error.message)")
        _ = try await world.stores[2].track(.all)
        try await world.settle()
        #expect(try await world.rows(1, "SELECT club.name FROM person JOIN club ON club.id = club") == [["chess".databaseValue]])
        #expect(try await world.stores[0].status().missingSchema.sorted() == ["club", "person.club"])
    }

    @Test("the same column with another type is refused by name", arguments: ["TEXT", "INTEGER COLLATE NOCASE"])
    func otherwise(_ declaration: String) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, Self.column)
        try await world.sync(0)
        try world.outside(1, "ALTER TABLE person ADD COLUMN age \(declaration)")
        await #expect { try await world.sync(1) } throws: { error in
            (error as? AnnalsError)?.code == .schemaRefused && (error as? AnnalsError)?.message.contains("age") ?? false
        }
    }

    @Test("a column that the store had and dropped leaves the space, and is not taken for one that it does not know yet")
    func dropped() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, Self.column)
        try await world.settle()
        try world.outside(1, Self.column)
        try await world.expectAlike()
        try await world.stores[1].write { db in
            for name in try String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'person'") {
                try db.execute(sql: "DROP TRIGGER \(name)")
            }
            try db.execute(sql: "ALTER TABLE person DROP COLUMN age")
        }
        try await world.settle()
        #expect(try await world.stores[1].status().missingSchema == [])
        #expect(try await world.stores[0].status().removedColumns == ["person.age"])
    }

    @Test("a clone, and a snapshot of the space, are of the newest schema")
    func clone() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(
            0,
            Self.column
                + "; CREATE TABLE note(id TEXT PRIMARY KEY NOT NULL, person TEXT REFERENCES person(id)); CREATE UNIQUE INDEX one ON note(person)"
        )
        try await world.stores[0].track(.all)
        try world.outside(0, "UPDATE person SET age = 30 WHERE id = 'p1'; INSERT INTO note VALUES('n', 'p1')")
        try await world.settle()
        #expect(try await SyncAgent(store: world.stores[1], transport: world.relay, environment: world.environment).makeSnapshot() == nil)
        try await world.addClone("r2")
        #expect(try await world.stores[2].digest() == world.stores[0].digest())
        try world.outside(2, "UPDATE person SET age = 44 WHERE id = 'p2'")
        try await world.sync(2)
        #expect(try await SyncAgent(store: world.stores[2], transport: world.relay, environment: world.environment).makeSnapshot() != nil)
        try await world.addClone("r3")
        #expect(try await world.stores[3].prepareOutbox().schemaVersion > 1)
        try world.outside(1, "UPDATE person SET name = 'Zed' WHERE id = 'p2'")
        try await world.settle()
        #expect(try await world.stores[3].digest() == world.stores[0].digest())
    }

    @Test("rows that others wrote while a replica was older are not overwritten by what its own migration puts there")
    func migration() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.migrate(0, "ALTER TABLE person ADD COLUMN age INTEGER", "UPDATE person SET age = 1")
        try world.outside(0, "UPDATE person SET age = 30 WHERE id = 'p1'")
        try await world.sync(0)
        try world.outside(1, "INSERT INTO person VALUES('p9', 'Off', 't1')")
        try await world.sync(1)
        try await world.migrate(1, "ALTER TABLE person ADD COLUMN age INTEGER", "UPDATE person SET age = 2, name = upper(name)")
        #expect(
            try await world.rows(1, "SELECT id || name || ifnull(age, '-') FROM person ORDER BY id").map { $0[0] }
                == ["p1Ann30", "p2Bob1", "p3Cy1", "p9Off-"].map(\.databaseValue))
        let origins = try await world.stores[1].read { db in
            try Int.fetchAll(db, sql: "SELECT origin FROM annals_transactions WHERE context = 'a migration'")
        }
        #expect(origins == [TransactionOrigin.migration.rawValue])
        try await world.expectAlike()
    }

    @Test("a migration that brings the schema brings its rows; one that comes second at the same time leaves its own")
    func bothMigrate() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        for (index, value) in [(0, 1), (1, 2)] {
            try await world.migrate(
                index, "ALTER TABLE person ADD COLUMN age INTEGER; CREATE TABLE kind(id TEXT PRIMARY KEY NOT NULL, n INTEGER)",
                "UPDATE person SET age = \(value); INSERT INTO kind VALUES('k', \(value))")
            try world.outside(index, "UPDATE kind SET n = n + 10; INSERT INTO kind VALUES('k\(index)', 0)")
        }
        try await world.expectAlike()
        #expect(try await world.rows(1, "SELECT DISTINCT age FROM person") == [[1.databaseValue]])
        #expect(try await world.rows(0, "SELECT id FROM kind ORDER BY id").map { $0[0] } == ["k", "k0", "k1"].map(\.databaseValue))
    }

    @Test("migrations that a store runs when it is opened are to the space what others are")
    func migrators() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        for (index, value) in [(0, 1), (1, 2)] {
            world.clock.advance(.seconds(1))
            var configuration = world.configuration("r\(index)")
            var migrator = DatabaseMigrator()
            migrator.registerMigration("ages") { db in
                try db.execute(sql: "\(Self.column); UPDATE person SET age = \(value)")
            }
            configuration.migrator = migrator
            try Store(path: world.stores[index].path, configuration: configuration).close()
        }
        try await world.expectAlike()
        #expect(try await world.rows(1, "SELECT DISTINCT age FROM person") == [[1.databaseValue]])
    }

    @Test("a replica that was away for longer than the log is kept comes back older as it is, or with additions nobody has")
    func comingBack() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try world.outside(0, Self.column + "; CREATE TABLE note(id TEXT PRIMARY KEY NOT NULL, person TEXT REFERENCES person(id))")
        try await world.stores[0].track(.all)
        try world.outside(0, "UPDATE person SET age = 30 WHERE id = 'p1'; INSERT INTO note VALUES('n', 'p1')")
        try await world.sync(0)
        #expect(try await SyncAgent(store: world.stores[0], transport: world.relay, environment: world.environment).makeSnapshot() != nil)
        var rules = PurgeRules()
        rules.keep = -60_000
        rules.isForced = true
        _ = try await world.relay.purge(rules)
        try world.outside(1, "UPDATE person SET name = 'Ada' WHERE id = 'p1'")
        try world.outside(2, "ALTER TABLE team ADD COLUMN color TEXT; UPDATE team SET color = 'red'")
        #expect(try await world.sync(1).cameBack != nil)
        #expect(try await world.sync(2).cameBack != nil)
        try world.outside(0, "UPDATE person SET age = 31 WHERE id = 'p2'; UPDATE note SET id = 'm'")
        try await world.settle()
        for index in 1...2 {
            try await world.migrate(
                index, Self.column, "CREATE TABLE note(id TEXT PRIMARY KEY NOT NULL, person TEXT REFERENCES person(id))")
        }
        for index in 0...1 { try world.outside(index, "ALTER TABLE team ADD COLUMN color TEXT") }
        try await world.expectAlike()
        #expect(
            try await world.rows(1, "SELECT name || age FROM person WHERE id <= 'p2' ORDER BY id").map { $0[0] }
                == ["Ada30", "Bob31"].map(\.databaseValue))
        #expect(try await world.rows(0, "SELECT DISTINCT color FROM team") == [["red".databaseValue]])
    }

    @Test("rows that a program wrote unseen are found beside what is kept, and beside additions nobody was told of")
    func unseen() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try world.outside(0, Self.column + "; UPDATE person SET age = 30 WHERE id = 'p1'")
        try await world.settle()
        try world.outside(2, "ALTER TABLE person ADD COLUMN size INTEGER; UPDATE person SET size = 5 WHERE id = 'p3'")
        for index in 1...2 {
            let triggers = try await world.rows(index, "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'team'")
            let names = triggers.compactMap { String.fromDatabaseValue($0[0]) }
            try world.outside(
                index, names.map { "DROP TRIGGER \($0);" }.joined() + "UPDATE team SET name = 'unseen \(index)' WHERE id = 't\(index)'")
            #expect(try await world.sync(index).reconciled == 1)
        }
        try await world.settle()
        for index in 0...2 {
            for sql in [Self.column, "ALTER TABLE person ADD COLUMN size INTEGER"] { try? world.outside(index, sql) }
        }
        try await world.expectAlike()
        #expect(
            try await world.rows(0, "SELECT name FROM team ORDER BY id").map { $0[0] } == ["unseen 1", "unseen 2"].map(\.databaseValue))
        #expect(
            try await world.rows(1, "SELECT age, size FROM person ORDER BY id").map { $0.map { Int.fromDatabaseValue($0) } } == [
                [30, nil], [7, nil], [7, 5],
            ])
    }

    @Test("where the space says so, a store that no program migrates makes what the log tells of")
    func taken() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(
            0,
            Self.column
                + "; CREATE TABLE note(id TEXT PRIMARY KEY NOT NULL, person TEXT UNIQUE REFERENCES person(id)); CREATE INDEX i ON note(person)"
        )
        try await world.stores[0].track(.all)
        try world.outside(0, "UPDATE person SET age = 30 WHERE id = 'p1'; INSERT INTO note VALUES('n', 'p1')")
        try await world.settle()
        var configuration = world.configuration("r1")
        configuration.newSchemas = .asSpaceSays
        let store = try Store(path: world.stores[1].path, configuration: configuration)
        let agent = SyncAgent(store: store, transport: world.relay, environment: world.environment)
        try await agent.sync()
        #expect(try await store.prepareOutbox().isBehindSchema)
        try await world.stores[0].setPolicies([PolicySetting(table: nil, aspect: .schema, policy: "take")])
        try await world.sync(0)
        try await agent.sync()
        #expect(try await !store.prepareOutbox().isBehindSchema)
        #expect(try await store.digest() == world.stores[0].digest())
        #expect(try await store.read { db in try String.fetchOne(db, sql: "SELECT name FROM sqlite_master WHERE name = 'i'") } == "i")
        try store.close()
        try await world.expectAlike()
    }

    @Test("the space's word and what it is about may come at once")
    func takenAtOnce() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.reopen(1, newSchemas: .asSpaceSays)
        try await world.stores[0].setPolicies([PolicySetting(table: nil, aspect: .schema, policy: "take")])
        try await world.stores[0].migrate(label: "v2", sql: Self.column + "; UPDATE person SET age = 30 WHERE id = 'p1'")
        try await world.sync(0)
        let summary = try await world.sync(1)
        #expect(!summary.isBehindSchema && summary.schemaVersion == 2)
        #expect(try await world.rows(1, "SELECT age FROM person WHERE id = 'p1'") == [[30.databaseValue]])
        try await world.expectAlike()
    }

    @Test("a migration that would part a replica from its space is refused, and changes nothing")
    func refused() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let before = try await world.stores[0].digest()
        let change = "ALTER TABLE person ADD COLUMN up TEXT AS (upper(name))"
        await #expect { try await world.migrate(0, change, "DELETE FROM person") } throws: {
            ($0 as? AnnalsError)?.code == .schemaRefused
        }
        #expect(try await world.stores[0].digest() == before)
        try await world.expectAlike()
    }
}

extension SyncedStores {
    /// All replicas sync until nothing changes. Then all have the same rows, and each store equals a clone.
    func expectAlike(sourceLocation: SourceLocation = #_sourceLocation) async throws {
        try await settle()
        let first = try await stores[0].digest()
        for store in stores {
            #expect(try await store.digest() == first, sourceLocation: sourceLocation)
            let findings = try await store.verify()
            #expect(findings == [], sourceLocation: sourceLocation)
        }
        let path = folder.file("check-\(ReplicaID.random()).db")
        _ = try await joining("check").clone(to: path)
        let clone = try Store(path: path, configuration: configuration("check"))
        #expect(try await clone.digest() == first, sourceLocation: sourceLocation)
        try clone.close()
    }

    func migrate(_ index: Int, _ schema: String, _ rows: String) async throws {
        try await stores[index].migrate(label: "a migration", tracking: .all) { db in
            try db.execute(sql: schema)
            try db.execute(sql: rows)
        }
    }
}
