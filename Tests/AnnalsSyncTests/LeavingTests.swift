import AnnalsCore
import AnnalsStore
import AnnalsSync
import GRDB
import Testing

/// A store that leaves its space does not lose anything without a word.
@Suite struct LeavingTests {
    private static let schema = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES(1, 'one');"

    private func refusal(_ store: Store) async throws -> AnnalsError? {
        let error = await #expect(throws: AnnalsError.self) { try await store.leave() }
        #expect(try await store.replicaState() != nil)
        return error
    }

    @Test func `work that was not sent keeps it, also what was not looked at yet`() async throws {
        let world = try await World(replicas: 2, schema: Self.schema)
        let store = world.stores[1]
        try world.outside(1, "INSERT INTO item VALUES(2, 'two')")
        let error = try await refusal(store)
        #expect(error?.code == .rowsDiffer)
        #expect(error?.message.contains("not sent: 1") == true)
        try await world.sync(1)
        try await store.leave()
        #expect(try await store.replicaState() == nil)
    }

    @Test func `what may have been written unseen keeps it`() async throws {
        let world = try await World(replicas: 1, schema: Self.schema)
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
        let world = try await World(replicas: 2, schema: Self.schema)
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
