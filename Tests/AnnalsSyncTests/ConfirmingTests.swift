import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import GRDB
import Testing

@Suite("A confirmed transaction")
struct ConfirmingTests {
    private static let schema = """
        CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, n INT);
        INSERT INTO item VALUES(1, 'one', 1), (2, 'two', 2);
        """

    /// Writes as the app of a replica, and returns the point directly after it.
    @discardableResult
    private func write(_ world: SyncedStores, _ index: Int, _ sql: String) async throws -> HistoryToken {
        try #require(try await world.stores[index].transaction { db in try db.execute(sql: sql) }.token)
    }

    private func agent(_ world: SyncedStores, _ index: Int, over relay: (any RelayTransport)? = nil) -> SyncAgent {
        SyncAgent(store: world.stores[index], transport: relay ?? world.relay, environment: world.environment)
    }

    @Test func `is in the log as it was written, if nobody wrote the same`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(1, "UPDATE item SET name = 'theirs' WHERE id = 2")
        try await world.sync(1)
        let token = try await write(world, 0, "UPDATE item SET name = 'mine' WHERE id = 1")
        #expect(try await world.stores[0].progress(of: token).ordered == nil)
        #expect(try await agent(world, 0).confirm(token).isAsWritten)
        try await world.sync(1)
        #expect(try await world.rows(1, "SELECT name FROM item ORDER BY id") == [["mine".databaseValue], ["theirs".databaseValue]])
        #expect(try await agent(world, 0).confirm(token).isAsWritten)
    }

    @Test func `has the conflicts that it met, and no other transaction's`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let first = try await write(world, 0, "UPDATE item SET n = 9 WHERE id = 1")
        world.clock.advance(.seconds(1))
        try await write(world, 1, "UPDATE item SET name = 'theirs', n = 7 WHERE id = 1")
        try await world.sync(1)
        world.clock.advance(.seconds(1))
        let second = try await write(world, 0, "UPDATE item SET n = 3 WHERE id = 2")
        let third = try await write(world, 0, "UPDATE item SET name = 'mine' WHERE id = 1")
        let agent = agent(world, 0)
        let lost = try await agent.confirm(first)
        #expect(lost.conflicts.map(\.conflict.entry.columns) == [["n"]] && lost.conflicts.map(\.conflict.entry.winner) == [.stored])
        #expect(!lost.isAsWritten)
        let alone = try await agent.confirm(second)
        #expect(alone.isAsWritten && alone.conflicts.isEmpty)
        let won = try await agent.confirm(third)
        #expect(won.conflicts.map(\.conflict.entry.columns) == [["name"]] && won.isAsWritten)
        #expect(try await world.stores[0].status().outbox == 0)
    }

    @Test func `has its renumbered rows`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await write(world, 1, "INSERT INTO item VALUES(3, 'theirs', 3)")
        try await world.sync(1)
        let token = try await write(world, 0, "INSERT INTO item VALUES(3, 'mine', 3)")
        let ordered = try await agent(world, 0).confirm(token)
        #expect(ordered.conflicts.map(\.conflict.entry.kind) == [.renumber] && !ordered.isAsWritten)
    }

    @Test func `waits in the outbox while the relay refuses it, and is confirmed without a request later`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let token = try await write(world, 0, "UPDATE item SET name = 'mine' WHERE id = 1")
        let refusing = AlteredRelay.failing(world.relay, .push, error: .problem(Problem(.notPermitted), retryAfter: nil))
        await #expect(throws: AnnalsError.self) { try await agent(world, 0, over: refusing).confirm(token) }
        #expect(try await world.stores[0].progress(of: token).ordered == nil)
        #expect(try await agent(world, 0).confirm(token).isAsWritten)
        // A later transaction that is refused, and a relay that cannot be reached, do not matter.
        try await write(world, 0, "UPDATE item SET name = 'more' WHERE id = 1")
        #expect(try await agent(world, 0, over: refusing).confirm(token).isAsWritten)
    }

    @Test func `is confirmed if only a later one is refused`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        let token = try await write(world, 0, "UPDATE item SET name = 'mine' WHERE id = 1")
        var relay = AlteredRelay(base: world.relay)
        relay.before = { request in
            if request.kind == .push, request.ofKind > 1 { throw TransportError.problem(Problem(.notPermitted), retryAfter: nil) }
        }
        relay.after = { [world] request in
            guard request.kind == .push, request.ofKind == 1 else { return }
            try await world.stores[0].write { db in try db.execute(sql: "UPDATE item SET name = 'more' WHERE id = 1") }
        }
        #expect(try await agent(world, 0, over: relay).confirm(token).isAsWritten)
    }

    @Test func `must be one of this store, and must be known`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let token = try await write(world, 0, "UPDATE item SET name = 'mine' WHERE id = 1")
        func code(_ index: Int, _ token: HistoryToken) async throws -> AnnalsError.Code? {
            await #expect(throws: AnnalsError.self) { try await agent(world, index).confirm(token) }?.code
        }
        #expect(try await code(1, token) == .tokenUnknown)
        try await world.settle()
        // The other replica's newest transaction is an import.
        #expect(try await code(1, world.stores[1].latestToken()) == .usage)
        let later = try await write(world, 0, "UPDATE item SET name = 'more' WHERE id = 1")
        try await world.stores[0].deleteHistory(before: later, mode: .force)
        #expect(try await code(0, token) == .tokenExpired)
    }

    @Test func `is not known if its rows joined the space as a whole`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        var configuration = world.configuration("late")
        configuration.createIfMissing = true
        let late = try Store(path: world.folder.file("late.db"), configuration: configuration)
        try await late.write { db in try db.execute(sql: Self.schema) }
        try await late.track(.all)
        let token = try #require(try await late.transaction { db in try db.execute(sql: "UPDATE item SET n = 5 WHERE id = 1") }.token)
        #expect(try await late.progress(of: token).ordered == nil)
        let unjoined = SyncAgent(store: late, transport: world.relay, environment: world.environment)
        #expect(await #expect(throws: AnnalsError.self) { try await unjoined.confirm(token) }?.code == .notJoined)
        let address = try SpaceAddress("shop", at: "http://127.0.0.1:1", as: "late")
        let agent = SyncAgent(
            store: late, transport: world.relay, joining: address, existing: .sameKey, environment: world.environment)
        #expect(await #expect(throws: AnnalsError.self) { try await agent.confirm(token) }?.code == .usage)
        let next = try #require(try await late.transaction { db in try db.execute(sql: "UPDATE item SET n = 6 WHERE id = 1") }.token)
        #expect(try await agent.confirm(next).isAsWritten)
    }

    @Test func `has its conflicts also if another copy of the file sent it`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let token = try await write(world, 0, "UPDATE item SET name = 'mine' WHERE id = 1")
        world.clock.advance(.seconds(1))
        try await write(world, 1, "UPDATE item SET name = 'theirs' WHERE id = 1")
        try await world.sync(1)
        try await world.addCopy(of: 0)
        try await world.sync(2)
        let ordered = try await agent(world, 0).confirm(token)
        #expect(ordered.conflicts.map(\.conflict.entry.winner) == [.stored])
    }
}

@Suite("A sync has every transaction that the relay had accepted before it")
struct SyncGuaranteeTests {
    private static let schema = "CREATE TABLE item(id INTEGER PRIMARY KEY, name, n); INSERT INTO item VALUES(1, 'one', 1), (2, 'two', 2)"

    private func n(_ world: SyncedStores, _ index: Int) async throws -> Int? {
        try await world.stores[index].read { db in try Int.fetchOne(db, sql: "SELECT n FROM item WHERE id = 2") }
    }

    @Test func `with and without own work`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        for number in 1...20 {
            try world.outside(1, "UPDATE item SET n = \(number) WHERE id = 2")
            try await world.sync(1)
            if number.isMultiple(of: 3) { try world.outside(0, "UPDATE item SET name = 'n\(number)' WHERE id = 1") }
            try await world.sync(0)
            #expect(try await n(world, 0) == number)
        }
    }

    @Test func `while its own work waits for a migration`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(
            0, "CREATE TABLE badge(id TEXT PRIMARY KEY NOT NULL, item INT REFERENCES item(id)); INSERT INTO badge VALUES('b', 1)")
        try await world.stores[0].track(.all)
        try await world.settle()
        // This store does not know that the badge needs the item.
        try world.outside(1, "DELETE FROM item WHERE id = 1")
        #expect(try await world.sync(1).isWaitingForMigration)
        for number in 5...6 {
            try world.outside(0, "UPDATE item SET n = \(number) WHERE id = 2")
            try await world.sync(0)
            #expect(try await world.sync(1).outbox == 1)
            #expect(try await n(world, 1) == number)
        }
    }

    @Test func `if another call gets the answer to its push first`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "UPDATE item SET name = 'mine' WHERE id = 1")
        var relay = AlteredRelay(base: world.relay)
        relay.before = { [world] request in
            guard request.kind == .push else { return }
            try await world.sync(0)
            try world.outside(1, "UPDATE item SET n = 7 WHERE id = 2")
            try await world.sync(1)
        }
        try await world.sync(0, over: relay)
        #expect(try await n(world, 0) == 7)
    }
}
