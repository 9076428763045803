import Annals
import AnnalsTesting
import Testing

/// Observers of a store see the writes of a sync, a revert or another program, and not only those through GRDB.
@Suite("Observers see every commit", .timeLimit(.minutes(20)))
struct ObservationTests {
    private static let schema = "CREATE TABLE item (id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL)"

    private struct Item: Codable, Identifiable, Hashable, FetchableRecord, PersistableRecord {
        var id: String
        var name: String
    }

    private func insert(_ name: String, _ store: Store) async throws {
        try await store.write { db in try Item(id: name, name: name).insert(db) }
    }

    /// The number of the newest transaction that changed rows.
    private func newest(_ store: Store) async throws -> Int64? {
        var number: Int64?
        for try await transaction in store.history() where !transaction.tables.isEmpty { number = transaction.number }
        return number
    }

    /// Reads a sequence until it returns a list with these names.
    private func wait<List: AsyncSequence & Sendable>(
        for names: [String], in lists: List, _ list: @escaping @Sendable (List.Element) -> [String],
        meanwhile body: @escaping @Sendable () async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            let (begun, begin) = AsyncStream<Void>.makeStream()
            group.addTask {
                defer { begin.finish() }
                for try await element in lists {
                    begin.yield()
                    if list(element) == names { return }
                }
                Issue.record("the sequence ended")
            }
            for await _ in begun { break }
            try await body()
            try await group.waitForAll()
        }
    }

    @Test("a list of a store in memory shows what a sync brings")
    func listInMemory() async throws {
        let space = try await TestSpace { db in try db.execute(sql: Self.schema) }
        let list = FetchedResults(Item.query.ascending("name"), in: space[1].store)
        try await wait(for: ["Milk"], in: list) {
            $0.allItems.map(\.name)
        } meanwhile: {
            try await insert("Milk", space[0].store)
            try await space.settle()
        }
    }

    @Test("changes of a store in memory are told that a sync or a revert made")
    func changesInMemory() async throws {
        let space = try await TestSpace { db in try db.execute(sql: Self.schema) }
        let changes = space[1].store.remoteChanges
        try await insert("Milk", space[0].store)
        try await space.settle()
        var told = changes.makeAsyncIterator()
        let synced = try #require(try await told.next())
        #expect(try await space[1].store.latestToken() == synced.token)
        try await space[1].store.revert(transaction: try #require(try await newest(space[1].store)))
        let reverted = try #require(try await told.next())
        #expect(try await space[1].store.latestToken() == reverted.token)
    }

    @Test("a conflict that a person settles is told")
    func resolved() async throws {
        let space = try await TestSpace { db in
            try db.execute(sql: Self.schema)
            try Item(id: "1", name: "Milk").insert(db)
        }
        let store = space[1].store
        for (number, name) in ["Oat milk", "Soy milk"].enumerated() {
            try await space[number].store.write { db in try Item(id: "1", name: name).update(db) }
            space.clock.advance(.seconds(1))
        }
        try await space.settle()
        let list = FetchedResults(Item.query.ascending("name"), in: store)
        try await wait(for: ["Oat milk"], in: list) {
            $0.allItems.map(\.name)
        } meanwhile: {
            try await store.resolve(1, taking: .stored)
        }
    }

    @Test("an agent that runs on a store in memory sends what a revert wrote")
    func agentInMemory() async throws {
        let space = try await TestSpace { db in try db.execute(sql: Self.schema) }
        let store = space[0].store
        try await insert("Milk", store)
        let number = try #require(try await newest(store))
        try await space.settle()
        let (agent, events) = (space[0].agent, space[0].agent.events)
        let running = Task { try await agent.run() }
        for await event in events where event.isCaughtUp { break }
        try await store.revert(transaction: number)
        let watching = Task {
            while try await space[1].store.read({ db in try Item.fetchCount(db) }) > 0 { try await space[1].agent.sync() }
        }
        try await watching.value
        running.cancel()
        try await running.value
    }

    @Test("GRDB's own observation sees a sync, a revert and another program's commits that were sealed", arguments: [true, false])
    func valueObservation(isPool: Bool) async throws {
        let space = try await TestSpace(replicas: 1) { db in try db.execute(sql: Self.schema) }
        let file = try TemporaryFile("two.db")
        let path = file.path
        let writer: any DatabaseWriter = try isPool ? DatabasePool(path: path) : DatabaseQueue(path: path)
        let store = try Store(wrapping: writer)
        try await store.write { db in try db.execute(sql: Self.schema) }
        try await store.track(.all)
        let address = try SpaceAddress("test", at: "http://127.0.0.1:1", as: "two")
        let agent = SyncAgent(
            store: store, transport: space.relay, joining: address, existing: .sameKey, environment: space.clock.environment)
        try await agent.sync()

        let observation = ValueObservation.tracking { db in try String.fetchAll(db, sql: "SELECT name FROM item ORDER BY name") }
        try await wait(for: ["synced"], in: observation.values(in: writer)) {
            $0
        } meanwhile: {
            try await insert("synced", space[0].store)
            try await space[0].agent.sync()
            try await agent.sync()
        }
        let number = try #require(try await newest(store))
        try await wait(for: [], in: observation.values(in: writer)) {
            $0
        } meanwhile: {
            try await store.revert(transaction: number)
        }
        try await wait(for: ["elsewhere"], in: observation.values(in: writer)) {
            $0
        } meanwhile: {
            try await DatabaseQueue(path: path).write { db in try Item(id: "e", name: "elsewhere").insert(db) }
            _ = try await store.latestToken()
        }
    }
}
