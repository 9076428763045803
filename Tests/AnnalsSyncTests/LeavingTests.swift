import AnnalsCore
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import GRDB
import RelayLog
import Testing

/// A store that leaves its space does not lose anything silently.
@Suite struct LeavingTests {
    private static let schema = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES(1, 'one');"

    private func refusal(_ store: Store) async throws -> AnnalsError? {
        let error = await #expect(throws: AnnalsError.self) { try await store.leave() }
        #expect(try await store.replicaState() != nil)
        return error
    }

    @Test func `work that was not sent keeps it, also what was not looked at yet`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let store = world.stores[1]
        try world.outside(1, "INSERT INTO item VALUES(2, 'two')")
        let error = try await refusal(store)
        #expect(error?.code == .rowsDiffer)
        #expect(error?.message.contains("not sent: 1") == true)
        try await world.sync(1)
        try await store.leave()
        #expect(try await store.replicaState() == nil)
    }

    @Test func `the relay keeps the log no longer for a replica that has left`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await world.settle()
        let agent = SyncAgent(store: world.stores[2], transport: world.relay, environment: world.environment)
        let failure = try await agent.leave()
        #expect(failure == nil)
        #expect(try await world.stores[2].replicaState() == nil)
        for _ in 0..<3 {
            try world.outside(0, "UPDATE item SET name = name || '.'")
            for index in 0..<2 { try await world.sync(index) }
        }
        let head = try await world.relay.describe().head
        let records = try await world.relay.replicas()
        #expect(records.filter(\.isRetired).count == 1)
        #expect(records.filter { !$0.isRetired && $0.position < head.advanced(by: -1) }.isEmpty)
    }

    @Test func `a relay that cannot be informed does not keep a store from leaving`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let transport = AlteredRelay.failing(world.relay, .retire, error: .unreachable("no connection", wasSent: false))
        let failure = try await SyncAgent(store: world.stores[1], transport: transport, environment: world.environment).leave()
        #expect(failure?.code == .relayUnreachable)
        #expect(try await world.stores[1].replicaState() == nil)
    }

    @Test func `what may have been written unseen keeps it`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        try world.outside(
            0,
            """
            CREATE TABLE new(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO new SELECT * FROM item;
            DROP TABLE item; ALTER TABLE new RENAME TO item;
            """)
        #expect(try await refusal(world.stores[0])?.code == .rowsDiffer)
        try await world.stores[0].leave(force: true)
    }

    @Test func `what it keeps of columns that it lacks keeps it, until it has them`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "ALTER TABLE item ADD COLUMN color TEXT; UPDATE item SET color = 'red'")
        try await world.sync(0)
        try await world.sync(1)
        let error = try await refusal(world.stores[1])
        #expect(error?.code == .waitingForMigration && error?.message.contains("item.color") == true, "\(String(describing: error))")
        try world.outside(1, "ALTER TABLE item ADD COLUMN color TEXT")
        try await world.sync(1)
        try await world.stores[1].leave()
        #expect(try await world.rows(1, "SELECT color FROM item") == [["red".databaseValue]])
    }
}
