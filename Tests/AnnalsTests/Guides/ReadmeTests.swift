import Annals
import AnnalsTesting
import Foundation
import Logging
import Testing

/// The Swift examples of the README and of the pages on encryption and schemas.
@Suite("The README's Swift")
struct ReadmeTests {
    private static let invoices = """
        CREATE TABLE invoice (id INTEGER PRIMARY KEY, paid INTEGER NOT NULL DEFAULT 0);
        INSERT INTO invoice (id) VALUES (17);
        """

    @Test("a store is opened, tracked and written, and tells where it stands")
    func inAnApp() async throws {
        let folder = try AgentFolder()
        let path = folder.file("shop.db")
        try await DatabaseQueue(path: path).write { db in try db.execute(sql: Self.invoices) }

        let store = try Store(path: path)
        let report = try await store.track(.all)
        #expect(report.tables.map(\.name) == ["invoice"] && report.tables.allSatisfy(\.isTracked))
        try await store.write(author: "till 3") { db in
            try db.execute(sql: "UPDATE invoice SET paid = 1 WHERE id = 17")
        }

        let status = try await store.status()
        #expect(status.tracked == ["invoice"] && status.transactions > 0 && status.replica == nil && status.outbox == 0)
        #expect(try await store.verify().isEmpty)
        #expect(try await store.repairPlan().steps.isEmpty)
        #expect(try await store.foreignKeyViolations().isEmpty)
        #expect(try await store.blame(table: "invoice", key: [.integer(17)]).columns.contains { $0.name == "paid" })
        #expect(try await store.untrack() == ["invoice"])
        try store.close()
    }

    @Test("an agent has an address, a way there, and a state that a screen can show")
    func agent() async throws {
        let space = try await TestSpace(replicas: 1) { db in try db.execute(sql: Self.invoices) }
        let store = try Store(inMemory: nil)
        try await store.write { db in try db.execute(sql: "CREATE TABLE invoice (id INTEGER PRIMARY KEY, paid INTEGER NOT NULL DEFAULT 0)")
        }
        try await store.track(.all)

        let place = try SpaceAddress(
            "test", at: "https://127.0.0.1:8640", as: "till 3", credential: "token", renewal: { nil },
            trust: RelayTrust(caFile: nil, pins: []))
        let client = try HTTPClient(HTTPClient.Configuration(trust: place.trust))
        let relay = try place.transport(client: client)
        _ = try SyncAgent(store: store, joining: place, logger: Logger(label: "till"))
        _ = try HTTPRelay(address: place.relay, space: place.space, identity: .init(name: place.name), client: client)
        await client.shutdown()
        await #expect { try await relay.describe() } throws: { ($0 as? TransportError)?.annalsError.code == .relayUnreachable }

        let agent = SyncAgent(store: store, transport: space.relay, joining: place, existing: .theirs, environment: space.clock.environment)
        let events = agent.events
        let summary = try await agent.sync()
        #expect(summary.head == summary.position && summary.outbox == 0 && !agent.isPaused)
        try await agent.waitForInitialImport()
        for await event in events where event.isCaughtUp {
            #expect(event.stage == .import && event.succeeded && event.error == nil)
            break
        }
        let replica = try #require(try await store.replicaState())
        #expect(replica.space == place.space && replica.name == "till 3" && replica.position == summary.position)
        agent.pause()
        agent.resume()
        try await store.leave()
        #expect(try await store.replicaState() == nil)
    }

    @Test("a clone tells how far it is, and is a store of its own")
    func clone() async throws {
        let space = try await TestSpace(replicas: 1) { db in try db.execute(sql: Self.invoices) }
        let folder = try AgentFolder()
        let place = try SpaceAddress("test", at: "http://127.0.0.1:8640", as: "laptop")
        let (stages, progress) = AsyncStream<SyncEvent.Transfer.Stage>.makeStream()
        let laptop = try await place.clone(to: folder.file("laptop.db"), over: space.relay, environment: space.clock.environment) {
            stage, _ in
            progress.yield(stage)
        }
        progress.finish()
        var seen: Set<SyncEvent.Transfer.Stage> = []
        for await stage in stages { seen.insert(stage) }
        #expect(seen.isSuperset(of: [.downloading, .unpacking, .pulling]))
        #expect(try await laptop.digest() == space[0].store.digest())
        try laptop.close()
    }

    @Test("a sealed space's keys come from the program")
    func keys() async throws {
        let secret = SpaceKey.random().line
        var configuration = Store.Configuration()
        configuration.spaceKeys = try SpaceKeyRing(text: secret)
        let sealed = try await TestSpace(replicas: 1, configuration: configuration) { db in try db.execute(sql: Self.invoices) }
        #expect(configuration.spaceKeys?.keys.count == 1)
        #expect(throws: SpaceKeyError.self) { try SpaceKeyRing(text: "no key") }
        #expect(try await sealed[0].store.replicaState()?.space.description == "test")
    }

    @Test("a migration by hand is a transaction with a label")
    func migration() async throws {
        let store = try Store(inMemory: nil)
        try await store.write { db in try db.execute(sql: "CREATE TABLE todo (id TEXT PRIMARY KEY NOT NULL, title TEXT)") }
        try await store.track(.all)
        try await store.migrate(label: "v2: priorities", tracking: .all) { db in
            try db.execute(sql: "ALTER TABLE todo ADD COLUMN priority INTEGER NOT NULL DEFAULT 0")
            try db.execute(sql: "UPDATE todo SET priority = 1 WHERE title LIKE '%!'")
        }
        try await store.migrate(label: "v3", renames: [.column("title", of: "todo", to: "heading"), .table("todo", to: "task")])
        try await store.migrate(label: "v4", rebuilding: ["task"]) { db in
            try db.execute(sql: "ALTER TABLE task DROP COLUMN priority")
        }
        let names = try await store.read { db in try String.fetchAll(db, sql: "SELECT name FROM pragma_table_info('task')") }
        #expect(names == ["id", "heading"])
    }
}
