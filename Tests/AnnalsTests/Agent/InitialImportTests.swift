import Annals
import AnnalsTesting
import Foundation
import Synchronization
import Testing

@Suite("The initial import", .timeLimit(.minutes(20)))
struct InitialImportTests {
    /// A space with a note, and the store of an app that was just installed.
    private struct Arrival {
        let space: TestSpace
        let store: Store
        let line: FaultyLine
        let address: SpaceAddress

        init(named name: String = "test", path: String? = nil) async throws {
            space = try await TestSpace(replicas: 1, AgentSupport.makeNotes)
            try await AgentSupport.add("there", to: space[0].store)
            try await space.settle()
            if let path {
                store = try Store(wrapping: DatabaseQueue(path: path))
            } else {
                store = try Store(inMemory: nil)
            }
            try await store.write { db in try AgentSupport.makeNotes(db) }
            try await store.track(.all)
            line = FaultyNetwork().line(to: space.relay)
            address = try SpaceAddress(name, at: "http://127.0.0.1:1", as: "new")
        }

        func agent(existing: ExistingRows? = .sameKey) -> SyncAgent {
            SyncAgent(store: store, transport: line, joining: address, existing: existing, environment: space.clock.environment)
        }
    }

    @Test("is waited for until the space's rows are here, however long the relay is away")
    func waits() async throws {
        let arrival = try await Arrival()
        let agent = arrival.agent()
        arrival.line.cut()
        let isDone = Mutex(false)
        let waiting = Task {
            try await agent.waitForInitialImport()
            isDone.withLock { $0 = true }
            return try await AgentSupport.ids(arrival.store)
        }
        let told = Told(agent.events)
        let running = Task { try await agent.run() }
        for _ in 0..<3 { _ = try await told.next { $0.retryAfter != nil } }
        #expect(!isDone.withLock { $0 })
        arrival.line.mend()
        #expect(try await waiting.value == ["there"])
        running.cancel()
        try await running.value
    }

    @Test("that was done long ago is not waited for, in another process and without a relay")
    func restart() async throws {
        let folder = try AgentFolder()
        let path = folder.file("notes.db")
        let arrival = try await Arrival(path: path)
        try await arrival.agent().sync()
        let again = try Store(path: path)
        arrival.line.cut()
        let agent = SyncAgent(store: again, transport: arrival.line, joining: arrival.address)
        try await agent.waitForInitialImport()
        #expect(try await AgentSupport.ids(again) == ["there"])
    }

    @Test("brings the space's rows to a store that has none, which need not say what becomes of its own")
    func empty() async throws {
        let arrival = try await Arrival()
        let agent = arrival.agent(existing: nil)
        try await agent.sync()
        try await agent.waitForInitialImport()
        #expect(try await AgentSupport.ids(arrival.store) == ["there"])
    }

    @Test("of the store that makes the space is done when it has made it")
    func maker() async throws {
        let space = try await TestSpace(replicas: 1, AgentSupport.makeNotes)
        try await space[0].agent.waitForInitialImport()
    }

    @Test("that cannot be throws why")
    func refused() async throws {
        let arrival = try await Arrival()
        try await AgentSupport.add("other", to: arrival.store)
        let agent = arrival.agent(existing: nil)
        let waiting = Task { try await agent.waitForInitialImport() }
        let told = Told(agent.events)
        let running = Task { try await agent.run() }
        #expect(try await told.next { $0.error != nil }.stage == .setup)
        let error = await #expect(throws: AnnalsError.self) { try await running.value }
        #expect(error?.code == .rowsDiffer)
        // It may have begun to wait after that event.
        await #expect(throws: AnnalsError.self) { try await agent.sync() }
        await #expect { try await waiting.value } throws: { ($0 as? AnnalsError)?.code == .rowsDiffer }
        #expect(try await AgentSupport.ids(arrival.store) == ["other"], "nothing was changed")
    }

    @Test("the wait ends when its task is cancelled")
    func cancelled() async throws {
        let arrival = try await Arrival()
        let agent = arrival.agent()
        let waiting = Task { try await agent.waitForInitialImport() }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
    }

    @Test("tells of the snapshot that it fetches")
    func transfer() async throws {
        let arrival = try await Arrival()
        let agent = arrival.agent()
        let stream = agent.events
        try await agent.sync()
        var stages: Set<SyncEvent.Transfer.Stage> = []
        for await event in stream {
            if event.stage == .setup, let transfer = event.transfer { stages.insert(transfer.stage) }
            if event.isCaughtUp { break }
        }
        #expect(stages.isSuperset(of: [.downloading, .unpacking]), "\(stages)")
    }

    @Test("an agent that is given another space's address touches neither the store nor that space")
    func otherSpace() async throws {
        let arrival = try await Arrival()
        try await arrival.agent().sync()
        let elsewhere = try MemoryRelay(space: try #require(SpaceName("other")), clock: arrival.space.clock)
        let address = try SpaceAddress("other", at: "http://127.0.0.1:1", as: "new")
        let agent = SyncAgent(store: arrival.store, transport: elsewhere, joining: address, existing: .theirs)
        let error = await #expect(throws: AnnalsError.self) { try await agent.sync() }
        #expect(error?.code == .alreadyJoined)
        #expect(try await AgentSupport.ids(arrival.store) == ["there"])
        #expect(try await arrival.store.replicaState()?.space.description == "test")
        await #expect(throws: TransportError.self) { try await elsewhere.describe() }
    }

    @Test("a new file is cloned from the address in one call")
    func clone() async throws {
        let arrival = try await Arrival()
        let folder = try AgentFolder()
        let store = try await arrival.address.clone(to: folder.file("new.db"), over: arrival.line)
        #expect(try await AgentSupport.ids(store) == ["there"])
        try await SyncAgent(store: store, transport: arrival.line, joining: arrival.address).waitForInitialImport()
    }

    @Test("a store whose migrator made its tables joins a space that has them, and is no clone")
    func migrator() async throws {
        let arrival = try await Arrival()
        let folder = try AgentFolder()
        var configuration = Store.Configuration()
        var migrator = DatabaseMigrator()
        migrator.registerMigration("tables") { db in try AgentSupport.makeNotes(db) }
        (configuration.createIfMissing, configuration.migrator, configuration.tables) = (true, migrator, .all)
        let store = try Store(path: folder.file("new.db"), configuration: configuration)
        let agent = SyncAgent(store: store, transport: arrival.line, joining: arrival.address, existing: .theirs)
        try await agent.sync()
        #expect(try await AgentSupport.ids(store) == ["there"])
        let error = await #expect(throws: AnnalsError.self) {
            _ = try await arrival.address.clone(to: folder.file("clone.db"), configuration: configuration, over: arrival.line)
        }
        #expect(error?.code == .usage && !FileManager.default.fileExists(atPath: folder.file("clone.db")))
    }
}
