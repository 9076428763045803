import AnnalsCore
import AnnalsHistory
import AnnalsMerge
import AnnalsReplica
import AnnalsSchema
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import RelayLog
import Testing

/// Each store has local names of tables and columns. The log uses canonical names (ARCHITECTURE 7).
@Suite("Renames in a space")
struct RenameTests {
    static let schema = """
        CREATE TABLE team(code TEXT PRIMARY KEY NOT NULL, name TEXT);
        CREATE TABLE person(
            id TEXT PRIMARY KEY NOT NULL, name TEXT, email TEXT UNIQUE, n INTEGER CHECK (n >= 0),
            team TEXT REFERENCES team(code) ON DELETE CASCADE ON UPDATE CASCADE);
        CREATE UNIQUE INDEX short ON person(name) WHERE n > 90;
        INSERT INTO team VALUES('t1', 'ops'), ('t2', 'dev');
        INSERT INTO person VALUES('p1', 'Ann', 'a@x', 1, 't1'), ('p2', 'Bob', 'b@x', 2, 't1'), ('p3', 'Cy', 'c@x', 3, 't2');
        """
    /// Renames tables and columns, also the key of the parent.
    static let renames = """
        ALTER TABLE person RENAME COLUMN email TO mail; ALTER TABLE person RENAME COLUMN n TO points;
        ALTER TABLE team RENAME COLUMN code TO short_name; ALTER TABLE person RENAME COLUMN name TO called;
        ALTER TABLE person RENAME TO human
        """

    @Test(
        "replicas with different local names sync in both directions without a declaration",
        arguments: ["", "PRAGMA legacy_alter_table = ON;"])
    func both(_ setting: String) async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try world.outside(0, "UPDATE person SET email = 'before@x' WHERE id = 'p1'")
        try world.outside(0, setting + Self.renames)
        // With this setting SQLite leaves the capture triggers with the old name, until they are repaired.
        if !setting.isEmpty { try await world.stores[0].recordExternalChanges() }
        try world.outside(
            0, "UPDATE human SET called = 'Anna', points = 10 WHERE id = 'p1'; INSERT INTO human VALUES('p4', 'Di', 'd@x', 4, 't2')")
        try world.outside(1, "UPDATE person SET n = 7, name = 'Bea' WHERE id = 'p2'; DELETE FROM person WHERE id = 'p3'")
        try world.outside(1, "UPDATE team SET code = 't9' WHERE code = 't1'")
        try await world.expectAlike()
        let expected = ["p1Annabefore@x10t9", "p2Beab@x7t9", "p4Did@x4t2"]
        #expect(try await world.texts(0, "SELECT id || called || mail || points || team FROM human ORDER BY id") == expected)
        for index in 1...2 {
            #expect(try await world.texts(index, "SELECT id || name || email || n || team FROM person ORDER BY id") == expected)
            #expect(try await world.stores[index].status().missingSchema.isEmpty)
        }
    }

    @Test("conflicts are found under different names: of a row, a unique value and a deleted parent")
    func footprints() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, Self.renames)
        try await world.settle()
        func refused(_ one: String, _ other: String) async throws -> Bool {
            try world.outside(0, one)
            try world.outside(1, other)
            try await world.sync(1, .pushOnly)
            let summary = try await world.sync(0, .pushOnly)
            try await world.expectAlike()
            return summary.refusals > 0
        }
        #expect(try await refused("UPDATE human SET called = 'A1' WHERE id = 'p1'", "UPDATE person SET n = 5 WHERE id = 'p1'"))
        #expect(
            try await refused("UPDATE human SET mail = 'same@x' WHERE id = 'p1'", "UPDATE person SET email = 'same@x' WHERE id = 'p2'"))
        #expect(
            try await refused(
                "UPDATE team SET short_name = 't3' WHERE short_name = 't2'", "INSERT INTO person VALUES('p5', 'E', 'e@x', 5, 't2')"))
        #expect(try await refused("UPDATE human SET points = 95 WHERE id = 'p1'", "UPDATE person SET n = 96 WHERE id = 'p2'"))
        // Unrelated changes do not conflict.
        #expect(try await !refused("UPDATE team SET name = 'A' WHERE short_name = 't1'", "UPDATE team SET name = 'B' WHERE code = 't3'"))
        let conflicts = try await world.stores.asyncMap { try await $0.conflicts() }
        #expect(conflicts[0].contains { $0.entry.table == "human" && $0.entry.columns == ["mail"] })
        #expect(conflicts[1].contains { $0.entry.table == "person" && $0.entry.columns == ["email"] })
    }

    @Test("transactions from before a rename are pushed and rebased correctly, frozen or not")
    func outbox() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "UPDATE person SET email = 'one@x' WHERE id = 'p1'")
        _ = try await world.stores[0].prepareOutbox()
        _ = try await world.stores[0].freezePush()
        try world.outside(0, "UPDATE person SET email = 'two@x', n = 20 WHERE id = 'p2'")
        _ = try await world.stores[0].prepareOutbox()
        try world.outside(0, "UPDATE person SET n = 30 WHERE id = 'p3'")
        try world.outside(0, Self.renames)
        try world.outside(0, "UPDATE human SET points = points + 1")
        world.clock.advance(.seconds(1))
        try world.outside(1, "UPDATE person SET n = 50 WHERE id = 'p1'; UPDATE person SET name = 'Late' WHERE id = 'p2'")
        try await world.sync(1)
        try world.reopen(0)
        try await world.expectAlike()
        #expect(
            try await world.texts(1, "SELECT id || email || n FROM person ORDER BY id") == ["p1one@x50", "p2two@x21", "p3c@x31"])
        let changes = try await world.stores[0].read { db in
            let reader = try HistoryReader(db)
            return try reader.transactions(HistoryRequest()).flatMap { try reader.changes(in: $0) }
        }
        #expect(Set(changes.map(\.table)) == ["human"])
        #expect(!changes.flatMap(\.columns).contains { $0.name == "email" || $0.name == "n" })
    }

    @Test("a name that is reused, and names that are swapped, refer to the right columns")
    func anew() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "ALTER TABLE person RENAME COLUMN name TO called; ALTER TABLE person ADD COLUMN name TEXT DEFAULT 'new'")
        try world.outside(0, "UPDATE person SET called = 'Old', name = 'New' WHERE id = 'p1'")
        try world.outside(1, "UPDATE person SET name = 'Bobby' WHERE id = 'p2'")
        try await world.settle()
        #expect(try await world.texts(0, "SELECT called || name FROM person WHERE id <= 'p2' ORDER BY id") == ["OldNew", "Bobbynew"])
        #expect(try await world.texts(1, "SELECT name FROM person WHERE id <= 'p2' ORDER BY id") == ["Old", "Bobby"])
        #expect(try await world.stores[1].status().missingSchema == ["person.name"])
        // The other program migrates like the first one, without any declaration of the renames.
        try world.outside(1, "ALTER TABLE person RENAME COLUMN name TO called; ALTER TABLE person ADD COLUMN name TEXT DEFAULT 'new'")
        try await world.expectAlike()
        #expect(try await world.texts(1, "SELECT called || name FROM person WHERE id <= 'p2' ORDER BY id") == ["OldNew", "Bobbynew"])
        try world.outside(
            1,
            "ALTER TABLE person RENAME COLUMN called TO x; ALTER TABLE person RENAME COLUMN email TO called; ALTER TABLE person RENAME COLUMN x TO email"
        )
        try world.outside(1, "ALTER TABLE person RENAME TO x; ALTER TABLE team RENAME TO person; ALTER TABLE x RENAME TO team")
        try world.outside(
            1, "UPDATE team SET email = 'Swapped', called = 'mail' WHERE id = 'p1'; UPDATE person SET name = 'T' WHERE code = 't1'")
        try await world.expectAlike()
        #expect(
            try await world.rows(0, "SELECT called || email || (SELECT name FROM team WHERE code = 't1') FROM person WHERE id = 'p1'") == [
                ["SwappedmailT".databaseValue]
            ])
        let before = try await world.stores[0].digest()
        try await world.addClone("r2")
        #expect(try await world.stores[2].digest() == before)
        #expect(try await world.rows(2, "SELECT email || called FROM team WHERE id = 'p1'") == [["Swappedmail".databaseValue]])
    }

    @Test("a new table may have the old name of a renamed table, and refer to that table")
    func newTable() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(
            0,
            """
            ALTER TABLE person RENAME TO human; ALTER TABLE human RENAME COLUMN id TO number;
            CREATE TABLE person(id TEXT PRIMARY KEY NOT NULL, human TEXT UNIQUE REFERENCES human(number) ON DELETE CASCADE)
            """)
        try await world.stores[0].track(.all)
        try world.outside(0, "INSERT INTO person VALUES('x', 'p1'), ('y', 'p2')")
        try world.outside(1, "UPDATE person SET id = 'q1' WHERE id = 'p1'")
        try await world.settle()
        let path = world.folder.file("taker.db")
        _ = try await world.joining("taker").clone(to: path)
        let clone = try Store(path: path, configuration: world.configuration("taker"))
        #expect(try await clone.read { db in try String.fetchAll(db, sql: "SELECT id || human FROM person ORDER BY id") }.count == 2)
        #expect(try await clone.digest() == world.stores[0].digest())
        try clone.close()
        try world.outside(0, "UPDATE person SET human = 'p3' WHERE id = 'x'; DELETE FROM human WHERE number = 'p2'")
        try await world.settle()
        try world.outside(1, "ALTER TABLE person RENAME TO human; ALTER TABLE human RENAME COLUMN id TO number")
        try world.outside(
            1, "CREATE TABLE person(id TEXT PRIMARY KEY NOT NULL, human TEXT UNIQUE REFERENCES human(number) ON DELETE CASCADE)")
        try await world.stores[1].track(.all)
        try await world.expectAlike()
        #expect(try await world.rows(1, "SELECT id || human FROM person") == [["xp3".databaseValue]])
    }

    @Test("the later of two renames gives the space's current name; clones get it, and other replicas keep their local names")
    func present() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await world.stores[0].migrate(label: "one", renames: [.column("email", of: "person", to: "mail")])
        try await world.stores[1].migrate(
            label: "two", renames: [.column("email", of: "person", to: "address"), .table("person", to: "human")])
        try await world.sync(0)
        try await world.sync(1)
        try await world.settle()
        let names = [("person", "mail"), ("human", "address"), ("person", "email")]
        for (index, (table, column)) in names.enumerated() {
            try world.outside(index, "UPDATE \(table) SET \(column) = 'r\(index)' WHERE id = 'p\(index + 1)'")
        }
        try await world.expectAlike()
        try await world.addClone("r3")
        #expect(try await world.texts(3, "SELECT address FROM human ORDER BY id") == ["r0", "r1", "r2"])
        // No replica sends the rename again.
        let version = try await world.stores[0].prepareOutbox().schemaVersion
        for _ in 0..<2 { try await world.settle() }
        #expect(try await world.stores[0].prepareOutbox().schemaVersion == version)
        #expect(try await world.stores[2].status().tracked == ["person", "team"])
    }

    @Test("a store that no program migrates adopts the space's names if the space's policy says so")
    func taken() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, Self.renames)
        try world.outside(0, "ALTER TABLE human ADD COLUMN name INTEGER DEFAULT 3")
        try await world.stores[0].setPolicies([PolicySetting(table: nil, aspect: .schema, policy: "take")])
        try await world.sync(0)
        var configuration = world.configuration("r1")
        configuration.newSchemas = .asSpaceSays
        try world.outside(1, "UPDATE person SET email = 'mine@x' WHERE id = 'p1'")
        let store = try Store(path: world.stores[1].path, configuration: configuration)
        let agent = SyncAgent(store: store, transport: world.relay, environment: world.environment)
        for _ in 0..<3 { try await agent.sync() }
        #expect(
            try await store.read { db in try String.fetchAll(db, sql: "SELECT mail || name FROM human ORDER BY id") } == [
                "mine@x3", "b@x3", "c@x3",
            ])
        #expect(try await store.read { db in try String.fetchAll(db, sql: "SELECT short_name FROM team ORDER BY 1") } == ["t1", "t2"])
        try store.close()
        try await world.expectAlike()
    }

    @Test("a replica that was behind, and one that resynced, have all values of the log under their local names")
    func behind() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try world.outside(0, Self.renames)
        try world.outside(
            0, "ALTER TABLE human ADD COLUMN age INTEGER NOT NULL DEFAULT 7; UPDATE human SET age = 30, mail = 'x@x' WHERE id = 'p1'")
        try world.outside(1, "UPDATE person SET n = 8 WHERE id = 'p2'")
        try await world.sync(0)
        try await world.sync(1)
        try await world.sync(0)
        #expect(try await SyncAgent(store: world.stores[0], transport: world.relay, environment: world.environment).makeSnapshot() != nil)
        var rules = PurgeRules()
        rules.keep = -60_000
        rules.isForced = true
        _ = try await world.relay.purge(rules)
        // Replica 2 renames a column, too, before it syncs.
        try world.outside(
            2, "UPDATE person SET name = 'Away', email = 'away@x' WHERE id = 'p3'; ALTER TABLE person RENAME COLUMN email TO e")
        #expect(try await world.sync(2).cameBack != nil)
        try await world.settle()
        #expect(try await world.stores[2].status().missingSchema == ["human.age"])
        try world.outside(2, "ALTER TABLE person ADD COLUMN age INTEGER NOT NULL DEFAULT 7; ALTER TABLE person RENAME TO p")
        try world.outside(1, "ALTER TABLE person ADD COLUMN age INTEGER NOT NULL DEFAULT 7")
        try await world.expectAlike()
        #expect(try await world.texts(2, "SELECT id || e || n || age FROM p ORDER BY id") == ["p1x@x130", "p2b@x87", "p3away@x37"])
    }

    @Test(
        "a store joins with the space's current or canonical names, and with equal or additional rows",
        arguments: [true, false])
    func joins(_ isPresent: Bool) async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        try world.outside(0, Self.renames)
        try await world.settle()
        for (name, more) in [("same", ""), ("other", "INSERT INTO team(name, \(isPresent ? "short_name" : "code")) VALUES('mine', 't3')")] {
            let path = world.folder.file("\(name).db")
            let queue = try DatabaseQueue(path: path)
            try await queue.write { db in try db.execute(sql: Self.schema + (isPresent ? Self.renames + ";" : "") + more) }
            try queue.close()
            let store = try Store(path: path, configuration: world.configuration(name))
            try await store.track(.all)
            let prospect = try await world.joining(name).prospect(of: store)
            guard case .existing(let differences) = prospect else {
                Issue.record("the space was not found")
                return
            }
            #expect(differences.areEqual == more.isEmpty)
            _ = try await world.joining(name).join(store, existing: more.isEmpty ? nil : .sameKey)
            world.add(store)
        }
        let table = isPresent ? "human SET mail" : "person SET email"
        try world.outside(1, "UPDATE \(table) = 'joined@x' WHERE id = 'p1'")
        try await world.expectAlike()
        #expect(
            try await world.rows(0, "SELECT mail, (SELECT count(*) FROM team) FROM human WHERE id = 'p1'") == [
                ["joined@x".databaseValue, 3.databaseValue]
            ])
    }

    @Test("policies are set and listed under local names, and apply to all replicas")
    func policies() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, Self.renames)
        let expression = "sql: max(:stored, :incoming) + points * 0 + length(called) * 0"
        try await world.stores[0].setPolicies([PolicySetting(table: "human", column: "points", aspect: .update, policy: expression)])
        try await world.settle()
        let there = try await world.stores[1].policies().map(\.setting)
        #expect(
            there == [
                PolicySetting(
                    table: "person", column: "n", aspect: .update, policy: "sql: max(:stored, :incoming) + \"n\" * 0 + length(\"name\") * 0"
                )
            ])
        try world.outside(0, "UPDATE human SET points = 40 WHERE id = 'p1'")
        world.clock.advance(.seconds(1))
        try world.outside(1, "UPDATE person SET n = 30 WHERE id = 'p1'")
        try await world.expectAlike()
        #expect(try await world.rows(1, "SELECT n FROM person WHERE id = 'p1'") == [[40.databaseValue]])
        try world.outside(1, "ALTER TABLE person RENAME COLUMN n TO score")
        #expect(try await world.stores[1].status().tracked == ["person", "team"])
        try await world.settle()
        #expect(try await world.stores[1].policies().first?.setting.column == "score")
    }

    @Test("a rebuilt table with another column name is refused with a hint, until the rename is declared")
    func declared() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(
            1,
            """
            CREATE TABLE new(id TEXT PRIMARY KEY NOT NULL, name TEXT, mail TEXT UNIQUE, n INTEGER CHECK (n >= 0),
                team TEXT REFERENCES team(code) ON DELETE CASCADE ON UPDATE CASCADE);
            INSERT INTO new SELECT * FROM person; DROP TABLE person; ALTER TABLE new RENAME TO person;
            CREATE UNIQUE INDEX short ON person(name) WHERE n > 90;
            """, foreignKeys: false)
        try world.outside(1, "UPDATE person SET mail = 'unseen@x' WHERE id = 'p1'")
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(1) }
        #expect(error?.hint?.contains(#".column("email", of: "person", to: "mail")"#) == true)
        #expect(error?.commandHint?.contains("annals migrate STORE --rename person.email=mail") == true)
        // `setPolicies` does not move changes with this column to the outbox either, because the log does not have its name.
        let setting = PolicySetting(table: "person", column: "n", aspect: .update, policy: "max")
        await #expect(throws: AnnalsError.self) { try await world.stores[1].setPolicies([setting]) }
        try await world.stores[1].migrate(label: "declared", renames: [.column("email", of: "person", to: "mail")])
        try await world.sync(1)
        try await world.expectAlike()
        #expect(try await world.rows(0, "SELECT email FROM person WHERE id = 'p1'") == [["unseen@x".databaseValue]])
        // Annals recognizes a rename that another replica has made already, also in a rebuilt table.
        try world.outside(
            0,
            """
            CREATE TABLE new(id TEXT PRIMARY KEY NOT NULL, name TEXT, mail TEXT UNIQUE, n INTEGER CHECK (n >= 0),
                team TEXT REFERENCES team(code) ON DELETE CASCADE ON UPDATE CASCADE);
            INSERT INTO new SELECT * FROM person; DROP TABLE person; ALTER TABLE new RENAME TO person;
            CREATE UNIQUE INDEX short ON person(name) WHERE n > 90;
            """, foreignKeys: false)
        try await world.expectAlike()
    }

    @Test("a rename of a missing, ambiguous or untracked name is refused and changes nothing")
    func refused() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema + "CREATE TABLE other(a)")
        let renames: [(Rename, String)] = [
            (.column("nothing", of: "person", to: "nowhere"), "there is neither person.nothing nor nowhere"),
            (.column("email", of: "person", to: "name"), "there are both person.email and name"),
            (.column("a", of: "other", to: "b"), "the table other is not tracked"),
            (.table("person", to: "team"), "there are both person and team"),
            (.table("nothing", to: "nowhere"), "the table nothing is not tracked"),
            (.column("email", of: "person", to: ""), "a name is empty"),
        ]
        let digest = try await world.stores[0].digest()
        for (rename, message) in renames {
            await #expect("\(message)") {
                try await world.stores[0].migrate(label: "no", renames: [.column("n", of: "person", to: "m"), rename])
            } throws: {
                ($0 as? AnnalsError)?.message == message
            }
        }
        #expect(try await world.rows(0, "SELECT n FROM person WHERE id = 'p1'") == [[1.databaseValue]])
        #expect(try await world.stores[0].digest() == digest)
        try await world.stores[0].migrate(label: "yes", renames: [.table("team", to: "crew"), .column("code", of: "crew", to: "id")]) {
            db in
            try db.execute(sql: "UPDATE crew SET name = 'c1' WHERE id = 't1'")
        } as Void
        try await world.expectAlike()
    }
}

extension SyncedStores {
    /// The first column of a query as text.
    fileprivate func texts(_ index: Int, _ sql: String) async throws -> [String] {
        try await stores[index].read { db in try String.fetchAll(db, sql: sql) }
    }
}
