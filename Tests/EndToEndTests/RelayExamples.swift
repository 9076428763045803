import Annals
import Logging
import ServiceLifecycle
import Testing

struct SyncService: Service {
    let agent: SyncAgent
    func run() async throws {
        try await cancelWhenGracefulShutdown { try await agent.run() }
    }
}

/// The examples of the reference that need a relay, unchanged.
@Suite("The reference's examples: agents and a relay", .timeLimit(.minutes(20)))
struct RelayExamples {
    private let token = "a token"

    private func store(_ path: String) async throws -> Store {
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        let store = try Store(path: path, configuration: configuration)
        try await store.write { db in try db.execute(sql: "CREATE TABLE note (id TEXT PRIMARY KEY NOT NULL, title TEXT)") }
        try await store.track(.all)
        return store
    }

    @Test("an agent syncs once, for ever, as a service, and tells when all is there")
    func agents() async throws {
        try await Workshop.with { workshop in
            let (relay, _) = try await workshop.startRelay(["--data", "relay-data", "--listen", "127.0.0.1:0", "--no-auth"])
            do {
                let store = try await store(workshop.path + "/one.db")
                try await store.write { db in try db.execute(sql: "INSERT INTO note VALUES ('n1', 'Milk')") }
                let address = try SpaceAddress("notes", at: relay, as: "Vera's phone", credential: token)
                let agent = try SyncAgent(store: store, joining: address, existing: .sameKey)
                let summary = try await agent.sync()
                print(summary.pushed.transactions, summary.pulled.transactions)
                #expect(summary.outbox == 0 && summary.head == summary.position)

                let transport = try HTTPRelay(address: relay, space: address.space, client: HTTPClient())
                print(try await transport.describe().head)
                #expect(try await transport.describe().head == summary.head)
            }
            let store = try await store(workshop.path + "/two.db")
            let changes = store.remoteChanges
            let running = Task {
                let address = try SpaceAddress("notes", at: relay, as: "Vera's phone", credential: token)
                let agent = try SyncAgent(store: store, joining: address, existing: .sameKey)
                try await agent.run()
            }
            for try await _ in changes { break }
            running.cancel()
            _ = await running.result
            #expect(try await store.read { db in try String.fetchAll(db, sql: "SELECT title FROM note") } == ["Milk"])
        }
    }

    @Test("an app waits for what its space has, and ends gracefully")
    func waiting() async throws {
        try await Workshop.with { workshop in
            let (relay, _) = try await workshop.startRelay(["--data", "relay-data", "--listen", "127.0.0.1:0", "--no-auth"])
            let address = try SpaceAddress("notes", at: relay, as: "laptop")
            let first = try await store(workshop.path + "/one.db")
            try await first.write { db in try db.execute(sql: "INSERT INTO note VALUES ('n1', 'Milk')") }
            try await SyncAgent(store: first, joining: address).sync()

            let store = try await store(workshop.path + "/two.db")
            do {
                let agent = try SyncAgent(store: store, joining: address, existing: .sameKey)
                async let _: Void = agent.run()
                try await agent.waitForInitialImport()
                // From here on an empty list means that there is nothing.
                #expect(try await store.read { db in try String.fetchAll(db, sql: "SELECT title FROM note") } == ["Milk"])
            }
            let service = SyncService(agent: try SyncAgent(store: store, joining: address))
            try await withThrowingTaskGroup(of: Void.self) { group in
                let services = ServiceGroup(services: [service], logger: Logger(label: "app"))
                group.addTask { try await services.run() }
                try await service.agent.waitForInitialImport()
                await services.triggerGracefulShutdown()
                try await group.waitForAll()
            }
        }
    }
}
