import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import Synchronization
import Testing

@Suite("A serializable write")
struct SerializableTests {
    private static let schema = """
        CREATE TABLE guest(id TEXT PRIMARY KEY NOT NULL, name TEXT);
        CREATE TABLE gift(id TEXT PRIMARY KEY NOT NULL, guest TEXT REFERENCES guest(id));
        CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO note VALUES(1, 'old');
        """

    private struct Full: Error {}

    private func agent(_ world: SyncedStores, _ index: Int, over relay: (any RelayTransport)? = nil) -> SyncAgent {
        SyncAgent(store: world.stores[index], transport: relay ?? world.relay, environment: world.environment)
    }

    /// Adds a guest if there is room, and returns how many there were.
    private func admit(_ name: String, to capacity: Int, by agent: SyncAgent, _ runs: Counter = Counter()) async throws -> Int {
        try await agent.serializable(author: name) { db in
            runs.add()
            let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM guest") ?? 0
            guard count < capacity else { throw Full() }
            try db.execute(sql: "INSERT INTO guest VALUES(?, ?)", arguments: [UUID().uuidString, name])
            return count
        }
    }

    private func names(_ world: SyncedStores, _ index: Int) async throws -> [String] {
        try await world.stores[index].read { db in try String.fetchAll(db, sql: "SELECT name FROM guest ORDER BY name") }
    }

    /// A relay at which others do something before each of some pushes arrives.
    private func meeting(_ world: SyncedStores, pushes: ClosedRange<Int>, _ act: @escaping @Sendable () async throws -> Void)
        -> AlteredRelay
    {
        var relay = AlteredRelay(base: world.relay)
        relay.before = { request in if request.kind == .push, pushes.contains(request.ofKind) { try await act() } }
        return relay
    }

    @Test(arguments: ["INSERT INTO guest VALUES('b', 'Bob')", "UPDATE note SET text = 'new' WHERE id = 1"])
    func `runs again if others wrote to a table since it read it`(sql: String) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let relay = meeting(world, pushes: 1...1) {
            try world.outside(1, sql)
            try await world.sync(1)
        }
        let runs = Counter()
        let count = try await admit("Ann", to: 2, by: agent(world, 0, over: relay), runs)
        let isGuest = sql.contains("guest")
        #expect(runs.value == (isGuest ? 2 : 1) && count == (isGuest ? 1 : 0))
        try await world.settle()
        for index in 0...1 { #expect(try await names(world, index) == (isGuest ? ["Ann", "Bob"] : ["Ann"])) }
        #expect(try await world.stores[0].conflictCounts() == (0, 0))
        for store in world.stores { #expect(try await store.verify() == []) }
    }

    @Test func `is refused by its closure if others took the last place`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let relay = meeting(world, pushes: 1...1) { [world] in _ = try await admit("Bob", to: 1, by: agent(world, 1)) }
        await #expect(throws: Full.self) { try await admit("Ann", to: 1, by: agent(world, 0, over: relay)) }
        try await world.settle()
        for index in 0...1 { #expect(try await names(world, index) == ["Bob"]) }
        #expect(try await world.stores[0].status().outbox == 0)
        for store in world.stores { #expect(try await store.verify() == []) }
    }

    @Test func `ends if others write before each run`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let texts = Counter()
        let relay = meeting(world, pushes: 1...1_000) { [world] in
            texts.add()
            try world.outside(1, "INSERT INTO guest VALUES('b', 'Bob') ON CONFLICT DO UPDATE SET name = '\(texts.value)'")
            try await world.sync(1)
        }
        let error = await #expect(throws: AnnalsError.self) { try await admit("Ann", to: 2, by: agent(world, 0, over: relay)) }
        #expect(error?.code == .busy)
        #expect(try await names(world, 0) == ["\(texts.value)"])
        #expect(try await world.stores[0].status().outbox == 0)
    }

    @Test func `keeps the rule that its closures check while other replicas write`() async throws {
        let world = try await SyncedStores(replicas: 4, schema: Self.schema)
        let admitted = Counter()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in world.stores.indices {
                let agent = SyncAgent(store: world.stores[index], transport: world.relay)
                group.addTask {
                    for number in 1...5 {
                        do {
                            _ = try await admit("\(index)-\(number)", to: 9, by: agent)
                            admitted.add()
                        } catch is Full {}
                    }
                }
            }
            try await group.waitForAll()
        }
        try await world.settle()
        #expect(admitted.value == 9)
        let guests = try await names(world, 0)
        #expect(guests.count == 9)
        for (index, store) in world.stores.enumerated() {
            #expect(try await names(world, index) == guests)
            #expect(try await store.verify() == [])
        }
    }

    @Test func `writes nothing without the relay, and nothing if its closure fails or changes nothing`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        let before = try await world.stores[0].latestToken()
        let offline = AlteredRelay.failing(world.relay)
        await #expect(throws: AnnalsError.self) { try await admit("Ann", to: 1, by: agent(world, 0, over: offline)) }
        await #expect(throws: Full.self) { try await admit("Ann", to: 0, by: agent(world, 0)) }
        #expect(try await agent(world, 0).serializable { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM guest") } == 0)
        #expect(try await world.stores[0].latestToken() == before)
    }

    @Test("is accepted or withdrawn by a later sync if the answer was lost", arguments: AlteredRelay.Moment.allCases)
    func lostAnswer(_ moment: AlteredRelay.Moment) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let relay = AlteredRelay.failing(world.relay, .push, moment)
        await #expect(throws: AnnalsError.self) { try await admit("Ann", to: 1, by: agent(world, 0, over: relay)) }
        // Another one must wait for it.
        let busy = await #expect(throws: AnnalsError.self) { try await admit("Eve", to: 1, by: agent(world, 0, over: relay)) }
        #expect(busy != nil)
        try world.outside(1, "INSERT INTO guest VALUES('b', 'Bob')")
        try await world.sync(1)
        try await world.settle()
        let expected = moment == .after ? ["Ann", "Bob"] : ["Bob"]
        for index in 0...1 { #expect(try await names(world, index) == expected) }
        #expect(try await admit("Eve", to: 3, by: agent(world, 0)) == expected.count)
        try await world.settle()
        for store in world.stores { #expect(try await store.verify() == []) }
    }

    @Test func `is withdrawn without later work that builds on it, which is merged`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let runs = Counter()
        let relay = meeting(world, pushes: 1...1) { [world] in
            let guest = try await world.stores[0].read { db in try String.fetchOne(db, sql: "SELECT id FROM guest") }
            try world.outside(0, "INSERT INTO gift VALUES('g', '\(guest ?? "")'); UPDATE note SET text = 'own' WHERE id = 1")
            try world.outside(1, "INSERT INTO guest VALUES('b', 'Bob'); INSERT INTO note VALUES(2, 'more')")
            try await world.sync(1)
        }
        _ = try await admit("Ann", to: 2, by: agent(world, 0, over: relay), runs)
        #expect(runs.value == 2)
        try await world.settle()
        for (index, store) in world.stores.enumerated() {
            #expect(try await names(world, index) == ["Ann", "Bob"])
            // The gift's guest does not exist.
            #expect(try await world.rows(index, "SELECT count(*) FROM gift") == [[0.databaseValue]])
            #expect(try await world.rows(index, "SELECT text FROM note ORDER BY id") == [["own".databaseValue], ["more".databaseValue]])
            #expect(try await store.conflictCounts().conflicts == 1)
            #expect(try await store.verify() == [])
        }
    }

    @Test func `is seen by another program's agent, also as the first one of the file`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        // Both have read the file's schema.
        let other = try Store(path: world.stores[0].path, configuration: world.configuration("other"))
        for store in [world.stores[0], other] {
            try await store.write { db in try db.execute(sql: "UPDATE note SET text = text || '.' WHERE id = 1") }
            _ = try await store.undo(by: "nobody")
        }
        try await world.sync(0)
        let number = try #require(
            try await other.serializableTransaction(author: "Ann", contextName: nil) { db in
                try db.execute(sql: "INSERT INTO guest VALUES('a', 'Ann')")
            }.number)
        try world.outside(1, "INSERT INTO guest VALUES('b', 'Bob')")
        try await world.sync(1)
        try await world.sync(0)
        #expect(try await other.outcome(ofSerializable: number) == .withdrawn)
        #expect(try await names(world, 0) == ["Bob"])
    }

    @Test func `is done if it changed nothing that is sent`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: "CREATE TABLE t(k TEXT PRIMARY KEY, v)")
        for _ in 0..<2 { try await agent(world, 0).serializable { db in try db.execute(sql: "INSERT INTO t VALUES(NULL, 1)") } }
        #expect(try await world.rows(0, "SELECT count(*) FROM t") == [[2.databaseValue]])
    }

    @Test func `that was withdrawn is not in the way of an undo`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.stores[0].write(author: "Ann") { db in try db.execute(sql: "UPDATE note SET text = 'b' WHERE id = 1") }
        try await world.sync(0)
        let relay = meeting(world, pushes: 1...1) {
            try world.outside(1, "INSERT INTO note VALUES(2, 'more')")
            try await world.sync(1)
        }
        let runs = Counter()
        await #expect(throws: Full.self) {
            try await agent(world, 0, over: relay).serializable(author: "Ann") { db in
                runs.add()
                if runs.value > 1 { throw Full() }
                try db.execute(sql: "UPDATE note SET text = 'c' WHERE id = 1")
            }
        }
        #expect(try await world.rows(0, "SELECT text FROM note WHERE id = 1") == [["b".databaseValue]])
        #expect(try await world.stores[0].undo(by: "Ann") != nil)
        #expect(try await world.rows(0, "SELECT text FROM note WHERE id = 1") == [["old".databaseValue]])
    }

    @Test func `is withdrawn if the relay refuses it`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "UPDATE note SET text = 'own' WHERE id = 1")
        try await world.sync(0)
        let refusing = AlteredRelay.failing(world.relay, .push, error: .problem(Problem(.notPermitted), retryAfter: nil))
        let error = await #expect(throws: AnnalsError.self) { try await admit("Ann", to: 1, by: agent(world, 0, over: refusing)) }
        #expect(error?.code == .notPermitted)
        #expect(try await names(world, 0) == [])
        #expect(try await world.stores[0].status().outbox == 0)
        #expect(try await admit("Eve", to: 1, by: agent(world, 0)) == 0)
        #expect(try await world.stores[0].verify() == [])
    }

    @Test func `stays serializable if an earlier push is answered after it was written`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "UPDATE note SET text = 'own' WHERE id = 1")
        let numbers = Mutex<[Int64]>([])
        let relay = meeting(world, pushes: 1...1) { [world] in
            let number = try await world.stores[0].serializableTransaction(author: "Ann", contextName: nil) { db in
                try db.execute(sql: "INSERT INTO guest VALUES('a', 'Ann')")
            }.number
            numbers.withLock { $0 += [number].compactMap(\.self) }
            try world.outside(1, "INSERT INTO guest VALUES('b', 'Bob')")
        }
        var direct = relay
        direct.after = { [world] request in if request.kind == .push, request.ofKind == 1 { try await world.sync(1) } }
        try await world.sync(0, over: direct)
        try await world.sync(0)
        let number = try #require(numbers.withLock { $0.first })
        #expect(try await world.stores[0].outcome(ofSerializable: number) == .withdrawn)
        try await world.settle()
        for index in 0...1 { #expect(try await names(world, index) == ["Bob"]) }
        // History has it and the transaction that undid it. Neither counts as work of its author.
        #expect(try await world.stores[0].undo(by: "Ann") == nil)
    }
}

/// A counter that any thread can use.
private final class Counter: Sendable {
    private let count = Mutex(0)

    var value: Int { count.withLock { $0 } }

    func add() { count.withLock { $0 += 1 } }
}
