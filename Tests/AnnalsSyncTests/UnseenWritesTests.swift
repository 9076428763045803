import AnnalsCore
import AnnalsReplica
import AnnalsSchema
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import Testing

/// Another program rebuilt a table of a joined store, as migrations of ORMs do. Its triggers are missing until Annals repairs them, and
/// writes in between are in no log.
@Suite struct UnseenWritesTests {
    private static let schema = """
        CREATE TABLE list(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        CREATE TABLE item(id TEXT PRIMARY KEY, list INTEGER REFERENCES list(id), title TEXT, done INTEGER);
        INSERT INTO list VALUES(1, 'home'), (2, 'work');
        INSERT INTO item VALUES('a', 1, 'milk', 0), ('b', 1, 'bread', 0), ('c', 2, 'mail', 0), ('d', 2, 'call', 0);
        """
    private static let rebuild = """
        CREATE TABLE new_item(id TEXT PRIMARY KEY, list INTEGER REFERENCES list(id), title TEXT, done INTEGER);
        INSERT INTO new_item SELECT * FROM item;
        DROP TABLE item;
        ALTER TABLE new_item RENAME TO item;
        """

    private func expectEqual(_ world: SyncedStores, _ rows: [[DatabaseValue]], sourceLocation: SourceLocation = #_sourceLocation)
        async throws
    {
        for index in world.stores.indices {
            #expect(
                try await world.rows(index, "SELECT id, list, title, done FROM item ORDER BY id") == rows, "replica \(index)",
                sourceLocation: sourceLocation)
            #expect(try await world.stores[index].verify().isEmpty, "replica \(index)", sourceLocation: sourceLocation)
        }
        #expect(Set(try await world.stores.asyncMap { try await $0.digest() }).count == 1, sourceLocation: sourceLocation)
    }

    private func row(_ id: String, _ list: Int, _ title: String, _ done: Int) -> [DatabaseValue] {
        [id.databaseValue, list.databaseValue, title.databaseValue, done.databaseValue]
    }

    @Test("a row that was written with checks off stops the others, who are told the way out")
    func checksOff() async throws {
        let world = try await SyncedStores(replicas: 2, schema: "CREATE TABLE jar (id INTEGER PRIMARY KEY, n INTEGER CHECK (n >= 0))")
        try world.outside(0, "PRAGMA ignore_check_constraints = ON; INSERT INTO jar VALUES (1, -1)")
        let position = try await world.sync(0).position
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(1) }
        #expect(error?.code == .diverged)
        #expect(error?.hint?.contains("void the entry (position \(position) of the space ") == true)
        #expect(error?.commandHint?.contains("annals relay void \(position)") == true)
        #expect(try await world.rows(1, "SELECT * FROM jar").isEmpty)
        #expect(try await world.stores[0].verify().isEmpty == false)
    }

    @Test func `law 3: what was written while a table had no triggers reaches everyone`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(
            0,
            Self.rebuild + """
                UPDATE item SET title = 'oat milk' WHERE id = 'a';
                DELETE FROM item WHERE id = 'b';
                INSERT INTO item VALUES('e', 2, 'unseen', 1);
                """)
        let summary = try await world.sync(0)
        #expect(summary.reconciled == 3)
        #expect(summary.pushed.transactions == 1 && summary.pushed.changes == 3)
        try await world.settle()
        try await expectEqual(
            world, [row("a", 1, "oat milk", 0), row("c", 2, "mail", 0), row("d", 2, "call", 0), row("e", 2, "unseen", 1)])
        #expect(try await world.sync(0).reconciled == 0)
    }

    @Test func `a status between the rebuild and the sync does not hide it`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, Self.rebuild + "UPDATE item SET done = 1 WHERE id = 'a';")
        #expect(try await world.stores[0].updateOutbox().outbox == 0)
        try world.reopen(0)
        try world.outside(0, "UPDATE item SET done = 2 WHERE id = 'b'")
        #expect(try await world.stores[0].verify().map(\.code) == [.unseen])
        #expect(try await world.stores[0].status().areRowsUnverified)
        try await world.settle()
        try await expectEqual(world, [row("a", 1, "milk", 1), row("b", 1, "bread", 2), row("c", 2, "mail", 0), row("d", 2, "call", 0)])
    }

    @Test func `a dropped trigger counts like a rebuilt table`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let triggers = try await world.rows(0, "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'item'")
        let names = triggers.compactMap { String.fromDatabaseValue($0[0]) }
        #expect(!names.isEmpty)
        try world.outside(0, names.map { "DROP TRIGGER \"\($0)\";" }.joined() + "DELETE FROM item WHERE list = 1;")
        try await world.settle()
        try await expectEqual(world, [row("c", 2, "mail", 0), row("d", 2, "call", 0)])
    }

    @Test func `work before, after and elsewhere keeps its transactions`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "UPDATE item SET done = 1 WHERE id = 'c'")
        try await world.stores[0].write(author: "ada") { db in try db.execute(sql: "UPDATE item SET title = 'e-mail' WHERE id = 'c'") }
        try world.outside(0, Self.rebuild + "UPDATE item SET title = 'oat milk' WHERE id = 'a';")
        try await world.stores[0].write(author: "ada") { db in try db.execute(sql: "UPDATE item SET done = 1 WHERE id = 'd'") }
        try world.outside(1, "UPDATE item SET title = 'rye bread' WHERE id = 'b'")
        try await world.sync(1)
        let summary = try await world.sync(0)
        #expect(summary.reconciled == 1 && summary.pushed.transactions == 4)
        try await world.settle()
        try await expectEqual(
            world, [row("a", 1, "oat milk", 0), row("b", 1, "rye bread", 0), row("c", 2, "e-mail", 1), row("d", 2, "call", 1)])
        let authors = try await world.rows(1, "SELECT count(*) FROM annals_transactions WHERE author = 'ada'")
        #expect(authors == [[2.databaseValue]])
    }

    @Test func `work that needs unseen rows goes out with them as one`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "UPDATE item SET done = 7 WHERE id = 'd'")
        try world.outside(0, Self.rebuild + "INSERT INTO item VALUES('e', 2, 'unseen', 1); DELETE FROM item WHERE id = 'b';")
        try await world.stores[0].write(author: "ada") { db in
            try db.execute(sql: "UPDATE item SET title = 'seen' WHERE id = 'e'; INSERT INTO item VALUES('b', 1, 'bun', 0)")
        }
        let before = try await world.stores[0].latestToken()
        let summary = try await world.sync(0)
        #expect(summary.pushed.transactions == 1 && summary.pushed.changes == 3)
        try await world.settle()
        try await expectEqual(
            world,
            [row("a", 1, "milk", 0), row("b", 1, "bun", 0), row("c", 2, "mail", 0), row("d", 2, "call", 7), row("e", 2, "seen", 1)])
        await #expect(throws: AnnalsError.self) {
            _ = try await world.stores[0].replay(to: before, output: world.folder.file("before.db"))
        }
    }

    @Test func `unseen writes meet what others wrote by the policies`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        world.clock.advance(.seconds(10))
        try world.outside(0, Self.rebuild + "UPDATE item SET title = 'mine' WHERE id = 'a'; INSERT INTO item VALUES('e', 2, 'mine', 0);")
        try world.outside(1, "UPDATE item SET title = 'theirs', done = 5 WHERE id = 'a'; INSERT INTO item VALUES('e', 1, 'theirs', 0)")
        try await world.sync(1)
        try await world.settle()
        #expect(Set(try await world.stores.asyncMap { try await $0.digest() }).count == 1)
        #expect(try await world.rows(1, "SELECT count(*) FROM annals_conflicts") != [[0.databaseValue]])
        for store in world.stores { #expect(try await store.verify().isEmpty) }
    }

    @Test func `law 7: a push without an answer is settled before the rows are compared`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "UPDATE item SET done = 1 WHERE id = 'c'")
        _ = try await world.stores[0].prepareOutbox()
        let push = try #require(try await world.stores[0].freezePush())
        // The push arrives and its answer is lost. An entry of another replica comes before it, which this replica has not seen.
        try world.outside(1, "UPDATE item SET done = 4 WHERE id = 'd'")
        try await world.sync(1)
        _ = try await world.relay.push(push.batch, seen: push.seen)
        try world.outside(0, Self.rebuild + "UPDATE item SET done = 2 WHERE id = 'a';")
        let summary = try await world.sync(0)
        #expect(summary.reconciled == 1 && summary.pushed.transactions == 2)
        try await world.settle()
        try await expectEqual(world, [row("a", 1, "milk", 2), row("b", 1, "bread", 0), row("c", 2, "mail", 1), row("d", 2, "call", 4)])
    }

    @Test func `law 4: unseen children without parents are settled as seen ones are`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, Self.rebuild + "INSERT INTO item VALUES('e', 99, 'stray', 1);", foreignKeys: false)
        try await world.settle()
        #expect(Set(try await world.stores.asyncMap { try await $0.digest() }).count == 1)
        for store in world.stores { #expect(try await store.verify().isEmpty) }
    }

    @Test func `law 4: work that had an unseen parent for a while goes out with it`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "INSERT INTO item VALUES('e', 9, 'x', 0)", foreignKeys: false)
        let triggers = try await world.rows(0, "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'list'")
        let names = triggers.compactMap { String.fromDatabaseValue($0[0]) }
        try world.outside(0, names.map { "DROP TRIGGER \"\($0)\";" }.joined() + "INSERT INTO list VALUES(9, 'nine')")
        // When this is recorded, the parent exists, and later nothing refers to it.
        try await world.stores[0].write { db in try db.execute(sql: "UPDATE item SET list = NULL WHERE id = 'e'") }
        let head = try await world.sync(0).position
        for position in 1...head.rawValue {
            let path = world.folder.file("at-\(position).db")
            _ = try await world.joining("r").replay(to: Position(position), output: path)
            let broken = try await Store(path: path).read { db in try String.fetchAll(db, sql: "PRAGMA foreign_key_check") }
            #expect(broken.isEmpty, "position \(position)")
        }
        try await world.settle()
        #expect(Set(try await world.stores.asyncMap { try await $0.digest() }).count == 1)
        for store in world.stores { #expect(try await store.verify().isEmpty) }
    }

    @Test func `a rebuild that changed nothing costs nothing but the comparison`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, Self.rebuild)
        let summary = try await world.sync(0)
        #expect(summary.reconciled == 0 && summary.pushed.transactions == 0)
        #expect(try await world.stores[0].unverifiedRows() == nil)
        try await world.settle()
    }

    @Test func `a space that cannot be reached leaves everything as it is`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, Self.rebuild + "UPDATE item SET done = 2 WHERE id = 'a';")
        let relay = AlteredRelay.failing(world.relay, .pull)
        try world.outside(1, "UPDATE item SET done = 4 WHERE id = 'd'")
        try await world.sync(1)
        try await world.sync(0, .pullOnly)
        try world.outside(0, Self.rebuild + "UPDATE item SET done = 3 WHERE id = 'a';")
        await #expect(throws: AnnalsError.self) { try await world.sync(0, over: relay) }
        #expect(try await world.stores[0].unverifiedRows() != nil)
        try await world.settle()
        try await expectEqual(world, [row("a", 1, "milk", 3), row("b", 1, "bread", 0), row("c", 2, "mail", 0), row("d", 2, "call", 4)])
    }
}
