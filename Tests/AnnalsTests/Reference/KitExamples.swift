import Annals
import AnnalsTesting
import Synchronization
import Testing

/// The examples in the documentation of AnnalsTesting, unchanged.
@Suite("The reference's examples: testing", .timeLimit(.minutes(20)))
struct KitExamples {
    private static let schema = """
        CREATE TABLE note (id TEXT PRIMARY KEY NOT NULL, title TEXT, done INTEGER);
        INSERT INTO note VALUES ('n1', 'Milk', 0);
        """

    private func space() async throws -> TestSpace {
        try await TestSpace { db in try db.execute(sql: Self.schema) }
    }

    private func store() async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { db in try db.execute(sql: Self.schema) }
        try await store.track(.all)
        return store
    }

    @Test("the later of two writes wins")
    func clock() async throws {
        let space = try await space()
        try await space[0].store.write { db in try db.execute(sql: "UPDATE note SET title = 'Oat milk'") }
        space.clock.advance(.seconds(60))
        try await space[1].store.write { db in try db.execute(sql: "UPDATE note SET title = 'Soy milk'") }
        try await space.settle()
        for replica in space.replicas {
            #expect(try await replica.store.read { db in try String.fetchOne(db, sql: "SELECT title FROM note") } == "Soy milk")
        }
    }

    @Test("a line is cut and mended")
    func line() async throws {
        let space = try await space()
        try await space[0].store.write { db in try db.execute(sql: "UPDATE note SET title = 'Oat milk'") }
        space[0].line.cut()
        await #expect(throws: AnnalsError.self) { try await space[0].agent.sync() }
        space[0].line.mend()
        try await space.settle()
        #expect(try await space.areEqual())
    }

    @Test("a network has faults from a script or from a seed")
    func network() async throws {
        let scripted = FaultyNetwork(script: [.answerLost, .none, .repeatedLater])
        let drawn = FaultyNetwork(seed: 17)
        for network in [scripted, drawn] {
            let space = try await TestSpace(network: network) { db in try db.execute(sql: Self.schema) }
            try await space[0].store.write { db in try db.execute(sql: "UPDATE note SET title = 'Oat milk'") }
            try await space.settle()
            #expect(try await space.areEqual())
            #expect(network.faults > 0)
        }
    }

    @Test("relays are had without a server")
    func relays() async throws {
        let file = try TemporaryFile("log")
        let folder = file.path
        let address = try SpaceAddress("notes", at: "http://127.0.0.1:1", as: "phone")
        do {
            let store = try await store()
            let relay = try LocalRelay(folder: folder, space: address.space)
            let agent = SyncAgent(store: store, transport: relay, joining: address)
            try await agent.sync()
            #expect(try await store.status().outbox == 0)
        }
        let store = try await store()
        let clock = ManualClock(milliseconds: 1_700_000_000_000)
        let relay = try MemoryRelay(space: address.space, clock: clock)
        let agent = SyncAgent(store: store, transport: relay, joining: address, environment: clock.environment)
        try await agent.sync()
        #expect(try await store.replicaState()?.space == address.space)
    }
}

/// A valid transport: the relay in memory.
private struct MyTransport: ForwardingTransport {
    private static let relays = Mutex<[SpaceName: MemoryRelay]>([:])
    let base: any RelayTransport

    init(space: SpaceName) throws {
        base = try Self.relays.withLock { relays in
            let relay = try relays[space] ?? MemoryRelay(space: space, clock: ManualClock(milliseconds: 1_700_000_000_000))
            relays[space] = relay
            return relay
        }
    }
}

/// As in the documentation of `TransportConformance`.
@Suite("The reference's examples: conformance", .timeLimit(.minutes(20)))
struct ConformanceExample {
    @Test("my transport is one")
    func conformance() async throws {
        let failures = try await TransportConformance.failures { space in try MyTransport(space: space) }
        #expect(failures == [])
    }
}
