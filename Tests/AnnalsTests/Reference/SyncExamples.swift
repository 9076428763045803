import Annals
import AnnalsTesting
import Testing

/// Counts what is sent.
struct MeteredTransport: ForwardingTransport {
    let base: any RelayTransport
    let bytes = Counter()

    func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        bytes.add(batch.count)
        return try await base.push(batch, seen: seen)
    }
}

/// The examples in the documentation of agents, transports and their configuration, unchanged. Those that need a relay are in
/// `RelayExamples`.
@Suite("The reference's examples: syncing")
struct SyncExamples {
    @Test("names, addresses, keys and trust are values")
    func values() async throws {
        do {
            let trust = RelayTrust(caFile: "/etc/shop/relay.pem")
            let address = try SpaceAddress("shop", at: "https://relay.example.org", as: "till 3", trust: trust)
            #expect(address.trust.caFile == "/etc/shop/relay.pem")
        }
        #expect(SpaceName("shop berlin") == nil)
        let old = SpaceKey.random().line
        let ring = try SpaceKeyRing(text: old + "\n" + SpaceKey.random().line)
        #expect(ring.keys.count == 2)
        let line = SpaceKey.random().line  // once; copy it to each device in a safe way
        var configuration = Store.Configuration()
        configuration.spaceKeys = try SpaceKeyRing(text: line)
        #expect(configuration.spaceKeys?.keys.map(\.line) == [line])
        guard let space = SpaceName("shop-berlin") else { return }
        #expect(space.description == "shop-berlin")
    }

    @Test("a client is made and ended")
    func client() async throws {
        do {
            let client = try HTTPClient()
            await client.shutdown()
        } catch {
            print(error.kind, error.message)
        }
        let shopAddress = try SpaceAddress("shop", at: "http://127.0.0.1:1", as: "till 3")
        let notesAddress = try SpaceAddress("notes", at: "http://127.0.0.1:1", as: "till 3")
        let client = try HTTPClient()
        let shop = try shopAddress.transport(client: client)
        let notes = try notesAddress.transport(client: client)
        for transport in [shop, notes] as [any RelayTransport] {
            await #expect(throws: TransportError.self) { try await transport.describe() }
        }
        await client.shutdown()
    }

    @Test("an agent works beside the app, and stops when that is done")
    func agent() async throws {
        let space = try await TestSpace { db in try db.execute(sql: Shop.schema) }
        let (store, agent) = (space[0].store, space[0].agent)
        @Sendable func edit(_ store: Store) async throws {
            try await store.write { db in try db.execute(sql: "UPDATE invoice SET isPaid = 1") }
        }
        try await withThrowingDiscardingTaskGroup { group in
            group.addTask { try await agent.run() }
            try await edit(store)
            group.cancelAll()
        }
        try await space.settle()
        #expect(try await space[1].store.read { db in try Bool.fetchOne(db, sql: "SELECT min(isPaid) FROM invoice") } == true)

        space[0].line.cut()
        do {
            try await agent.sync()
        } catch let error as AnnalsError where error.isRetryable {
            print("later: \(error)")
        }
    }

    @Test("a save is confirmed by the space")
    func confirmed() async throws {
        let space = try await TestSpace { db in try db.execute(sql: Shop.schema) }
        try await space[1].store.write { db in try db.execute(sql: "UPDATE invoice SET amount = 7 WHERE id = 17") }
        try await space[1].agent.sync()
        let (store, agent, shown) = (space[0].store, space[0].agent, Counter())
        @Sendable func showConflicts() { shown.add(1) }
        let context = try await store.editContext(author: "till 3")
        let invoice = try #require(try await context.fetchOne(Invoice.filter(key: 17)))
        try context.edit(invoice) { $0.isPaid = true }
        let saved = try await context.save()
        if let token = saved.token, try await !agent.confirm(token).isAsWritten { showConflicts() }
        #expect(shown.value == 0)
        #expect(try await space.relay.describe().head == space[0].store.status().replica?.position)
    }

    private struct Seat: Codable, FetchableRecord, PersistableRecord {
        var id: Int64
        var guest: String?
    }

    private struct SoldOut: Error {}

    @Test("a seat is sold once")
    func serializable() async throws {
        let space = try await TestSpace { db in
            try db.execute(sql: "CREATE TABLE seat (id INTEGER PRIMARY KEY, guest TEXT); INSERT INTO seat VALUES (1, NULL)")
        }
        func sell(_ agent: SyncAgent) async throws -> Int64 {
            let seat = try await agent.serializable(author: "till 3") { db in
                guard let seat = try Seat.filter(Column("guest") == nil).fetchOne(db) else { throw SoldOut() }
                try db.execute(sql: "UPDATE seat SET guest = 'Vera' WHERE id = ?", arguments: [seat.id])
                return seat.id
            }
            return seat
        }
        #expect(try await sell(space[0].agent) == 1)
        await #expect(throws: SoldOut.self) { try await sell(space[1].agent) }
    }

    @Test("a transport counts what is sent")
    func metered() async throws {
        let space = try await TestSpace(replicas: 1) { db in try db.execute(sql: Shop.schema) }
        let transport = MeteredTransport(base: space.relay)
        try await space[0].store.write { db in try db.execute(sql: "UPDATE invoice SET isPaid = 1") }
        try await SyncAgent(store: space[0].store, transport: transport, environment: space.clock.environment).sync()
        #expect(transport.bytes.value > 0)
    }

    @Test("a status line follows what an agent does")
    func events() async throws {
        let space = try await TestSpace(replicas: 1) { db in try db.execute(sql: Shop.schema) }
        let (store, agent) = (space[0].store, space[0].agent)
        let (told, tell) = AsyncStream<Void>.makeStream()
        let following = Task {
            var status = "" { didSet { if status.hasPrefix("up to date since") { tell.finish() } } }
            for await event in agent.events {
                if let error = event.error {
                    status = error.isRetryable ? "offline" : error.description
                } else if event.isCaughtUp {
                    status = "up to date since \(event.date)"
                } else if let remaining = event.remaining {
                    status = "\(event.stage): \(remaining) to go"
                }
            }
            return status
        }
        // The test cannot know when the loop listens. So it makes changes until the loop has reported one.
        let working = Task {
            while !Task.isCancelled {
                try await store.write { db in try db.execute(sql: "UPDATE invoice SET amount = amount + 1") }
                try await agent.sync()
            }
        }
        for await _ in told {}
        working.cancel()
        _ = await working.result
        following.cancel()
        #expect(await following.value.isEmpty == false)
    }
}
