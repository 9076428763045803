import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import GRDB
import Synchronization
import Testing

/// A relay that refuses pushes, as with a token that may only read.
@Suite("A push that is refused stands in nobody's way")
struct RefusedPushTests {
    private static let schema = """
        CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);
        INSERT INTO item VALUES(1, 'one'), (2, 'two');
        """

    private func world() async throws -> SyncedStores {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(1, "UPDATE item SET name = 'reader' WHERE id = 2")
        return world
    }

    private func names(_ world: SyncedStores, _ index: Int) async throws -> [String] {
        try await world.rows(index, "SELECT name FROM item ORDER BY id").map { $0.map { String.fromDatabaseValue($0) ?? "" }.joined() }
    }

    /// A relay for a token that may only read, or that refuses pushes for another reason.
    private func reading(
        _ world: SyncedStores, _ problem: Problem = Problem(.notPermitted), retryAfter: Duration? = nil
    ) -> AlteredRelay {
        .failing(world.relay, .push, error: .problem(problem, retryAfter: retryAfter))
    }

    private func refused(_ world: SyncedStores, _ direction: SyncDirection = .both, over relay: (any RelayTransport)? = nil) async throws {
        do {
            try await world.sync(1, direction, over: relay ?? reading(world))
            Issue.record("nothing was refused")
        } catch let error as AnnalsError {
            #expect(error.code == .notPermitted)
            #expect(error.message.contains("1 local transaction waits"))
        }
    }

    @Test("what others wrote comes in, the local work waits and goes out when it may", arguments: [1, 2])
    func reader(_ row: Int) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "UPDATE item SET name = 'writer' WHERE id = \(row)")
        try await world.sync(0)
        world.clock.advance(.seconds(1))
        try world.outside(1, "UPDATE item SET name = 'reader' WHERE id = 2")
        for _ in 0..<2 {
            try await refused(world)
            #expect(try await names(world, 1) == (row == 1 ? ["writer", "reader"] : ["one", "reader"]))
        }
        #expect(try await world.stores[1].status().outbox == 1)
        try await world.settle()
        #expect(try await names(world, 0) == names(world, 1))
    }

    @Test("a relay whose storage is full takes nothing and gives what there is; what waits goes out when there is room")
    func full() async throws {
        let world = try await world()
        try world.outside(0, "UPDATE item SET name = 'writer' WHERE id = 1")
        try await world.sync(0)
        for code in [Problem.Code.storageFull, .spaceFull] {
            let full = reading(world, Problem(code, detail: "Nothing more fits"))
            let error = await #expect(throws: AnnalsError.self) { try await world.sync(1, over: full) }
            // Exit status 75, and `watch` tries again.
            #expect(error?.code == .relayOverloaded && error?.isRetryable == true)
            #expect(error?.message.hasPrefix("nothing more fits; 1 local transaction waits") == true)
            #expect(try await names(world, 1) == ["writer", "reader"])
        }
        try await world.settle()
        #expect(try await names(world, 0) == ["writer", "reader"])
    }

    @Test("in quarantine what others wrote comes in, local work waits, and no try of it passes by itself")
    func quarantined() async throws {
        let world = try await world()
        try world.outside(0, "UPDATE item SET name = 'writer' WHERE id = 1")
        try await world.sync(0)
        let problem = Problem(.quarantined, detail: "The relay's operator has quarantined token 3", hint: "Ask the relay's operator")
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(1, over: reading(world, problem)) }
        #expect(error?.code == .quarantined && error?.isRetryable == false && error?.hint == "Ask the relay's operator")
        let message = "the relay's operator has quarantined token 3; 1 local transaction waits; the changes of other replicas were applied"
        #expect(error?.message == message)
        #expect(try await names(world, 1) == ["writer", "reader"])
        try world.outside(1, "UPDATE item SET name = 'later' WHERE id = 2")
        try await world.settle()
        #expect(try await names(world, 0) == ["writer", "later"])
    }

    @Test("a relay that is asked too much is asked again when it says, and not before", arguments: [429, 503])
    func overloaded(_ status: Int) async throws {
        let world = try await world()
        let problem = Problem(status == 429 ? .tooManyRequests : .unavailable, detail: "Too much")
        let busy = reading(world, problem, retryAfter: .seconds(40))
        let pauses = Mutex<[Duration]>([])
        let agent = SyncAgent(
            store: world.stores[1], transport: busy,
            environment: .init(pause: { pause in pauses.withLock { $0.append(pause) } }, random: { 0 }))
        let error = await #expect(throws: AnnalsError.self) { try await agent.sync() }
        #expect(error?.code == .relayOverloaded && error?.isRetryable == true && error?.message == "too much")
        let waited = pauses.withLock { $0 }
        #expect(!waited.isEmpty && waited.allSatisfy { $0 == .seconds(40) }, "\(waited)")
        try await world.settle()
    }

    @Test("a transaction of too many parts is reported, and remote entries are applied; a store that takes it out joins again")
    func tooLarge() async throws {
        var limits = OutboxLimits()
        limits.pieceBytes = 8
        let world = try await SyncedStores(replicas: 2, schema: Self.schema, outboxLimits: limits)
        try world.outside(1, "INSERT INTO item VALUES(3, zeroblob(\(8 * WireLimits.maximumParts)))")
        try world.outside(0, "UPDATE item SET name = 'writer' WHERE id = 1")
        try await world.sync(0)
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(1) }
        #expect(error?.code == .tooLarge)
        #expect(error?.message.contains("item") == true)
        #expect(try await world.rows(1, "SELECT name FROM item WHERE id = 1") == world.rows(0, "SELECT name FROM item WHERE id = 1"))
        try world.outside(1, "DELETE FROM item WHERE id = 3; UPDATE item SET name = 'small' WHERE id = 2")
        try await world.stores[1].leave(force: true)
        _ = try await world.joining("r1").join(world.stores[1], existing: .sameKey)
        try await world.settle()
        #expect(try await names(world, 0) == names(world, 1))
    }

    @Test("--pull-only pulls, also behind a push that nobody answered")
    func pullOnly() async throws {
        let world = try await world()
        let lossy = AlteredRelay.failing(world.relay, .push)
        await #expect(throws: AnnalsError.self) { try await world.sync(1, over: lossy) }
        try world.outside(0, "UPDATE item SET name = 'writer' WHERE id = 1")
        try await world.sync(0)
        let summary = try await world.sync(1, .pullOnly, over: reading(world))
        #expect(summary.pulled.transactions == 1 && summary.outbox == 1)
        #expect(try await names(world, 1) == ["writer", "reader"])
    }

    @Test("--push-only is refused, and keeps nothing from being pulled after")
    func pushOnly() async throws {
        let world = try await world()
        try await refused(world, .pushOnly)
        #expect(try await !world.stores[1].prepareOutbox().isPushUnderWay)
    }

    @Test("a push that was taken, its answer lost and the token changed, is found in the log", arguments: [false, true])
    func taken(_ isInParts: Bool) async throws {
        var limits = OutboxLimits()
        if isInParts { limits.partBytes = 64 }
        let world = try await SyncedStores(replicas: 2, schema: Self.schema, outboxLimits: limits)
        try await world.stores[1].write { db in
            try db.execute(sql: "UPDATE item SET name = 'reader' WHERE id = 2")
            for id in 10..<20 { try db.execute(sql: "INSERT INTO item VALUES(?, 'more')", arguments: [id]) }
        }
        try await world.stores[1].write { try $0.execute(sql: "UPDATE item SET name = 'again' WHERE id = 2") }
        let before = try await world.identities()
        _ = try await world.stores[1].prepareOutbox()
        // All parts of the first transaction, or one batch of both.
        let parts = try #require(await world.stores[1].freezePush()).parts
        #expect((parts > 1) == isInParts)
        let lossy = AlteredRelay.failing(world.relay, .push, from: parts, .after)
        await #expect(throws: AnnalsError.self) { try await world.sync(1, over: lossy) }
        try world.outside(0, "UPDATE item SET name = 'writer' WHERE id = 1")
        try await world.sync(0)
        if isInParts {
            try await refused(world)
        } else {
            try await world.sync(1, over: reading(world))
        }
        #expect(try await world.stores[1].status().outbox == (isInParts ? 1 : 0))
        try await world.settle()
        #expect(try await world.identities() == before)
        let count = try await world.rows(0, "SELECT count(*) FROM item")
        #expect(count == [[12.databaseValue]])
        for index in 0...1 { #expect(try await names(world, index).prefix(2) == ["writer", "again"]) }
        for store in world.stores { #expect(try await store.verify().isEmpty) }
    }
}
