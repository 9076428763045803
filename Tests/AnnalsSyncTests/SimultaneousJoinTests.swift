import AnnalsCore
import AnnalsHistory
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import GRDB
import RelayLog
import Synchronization
import Testing

/// Several calls, agents or programs that join one store at the same time make one replica of it, and lose nothing.
@Suite("Joins at once", .timeLimit(.minutes(20)))
struct SimultaneousJoinTests {
    private static let schema = "CREATE TABLE note (id TEXT PRIMARY KEY NOT NULL, title TEXT);"

    /// The agent, and a second call of it.
    private final class Calls: Sendable {
        private let state = Mutex<(agent: SyncAgent?, second: Task<Void, any Error>?)>((nil, nil))

        var agent: SyncAgent? {
            get { state.withLock { $0.agent } }
            set { state.withLock { $0.agent = newValue } }
        }

        var second: Task<Void, any Error>? { state.withLock { $0.second } }

        func begin(_ body: @escaping @Sendable (SyncAgent) async throws -> Void) {
            guard let agent else { return }
            let task = Task { try await body(agent) }
            state.withLock { $0.second = task }
        }
    }

    private let world: SyncedStores
    /// A relay beside the world's relay, without a space.
    private let empty: LocalRelay
    /// With a row that no space has.
    private let store: Store

    init() async throws {
        world = try await SyncedStores(replicas: 1, schema: Self.schema + "INSERT INTO note VALUES ('theirs', 'x')")
        empty = try LocalRelay(folder: world.folder.file("empty"), space: world.space, limits: RelayLogLimits(), clock: .system)
        var configuration = world.configuration("newcomer")
        configuration.createIfMissing = true
        store = try Store(path: world.folder.file("newcomer.db"), configuration: configuration)
        try await write("CREATE TABLE note (id TEXT PRIMARY KEY NOT NULL, title TEXT); INSERT INTO note VALUES ('own', 'x')")
        _ = try await store.track(.all)
    }

    private func write(_ sql: String) async throws {
        try await store.write { db in try db.execute(sql: sql) }
    }

    /// Does something once, before the first request of a kind.
    private func interposed(
        _ relay: any RelayTransport, before kind: AlteredRelay.Kind, _ body: @escaping @Sendable () async throws -> Void
    ) -> AlteredRelay {
        AlteredRelay(base: relay, before: { if $0.kind == kind, $0.ofKind == 1 { try await body() } })
    }

    /// The space at `relay` has the rows of the store, and is complete.
    private func expectWhole(_ relay: any RelayTransport) async throws {
        let agent = SyncAgent(store: store, transport: relay, environment: world.environment)
        #expect(try await agent.sync().outbox == 0)
        let path = world.folder.file("late.db")
        _ = try await world.joining("late", over: relay).clone(to: path)
        let late = try Store(path: path, configuration: world.configuration("late"))
        #expect(try await late.digest() == store.digest())
        #expect(try await store.verify().isEmpty)
    }

    @Test("a second call of one agent waits for the first", arguments: [true, false])
    func oneAgent(isThere: Bool) async throws {
        let relay: any RelayTransport = isThere ? world.relay : empty
        let calls = Calls()
        let interposed = interposed(relay, before: .describe) { [store] in
            calls.begin { agent in
                try await store.write { db in try db.execute(sql: "INSERT INTO note VALUES ('meanwhile', 'x')") }
                try await agent.sync()
            }
            for _ in 0..<200 { await Task.yield() }
        }
        let address = try SpaceAddress(world.space.description, at: "http://127.0.0.1:1", as: "newcomer")
        let only = SyncAgent(
            store: store, transport: interposed, joining: address, existing: .sameKey, environment: world.environment)
        calls.agent = only
        try await only.sync()
        try await calls.second?.value
        try await expectWhole(relay)
    }

    @Test("who finds the store joined meanwhile does not join it again")
    func joinedMeanwhile() async throws {
        let interposed = interposed(world.relay, before: .describe) { [world, store] in
            _ = try await world.joining("newcomer").join(store, existing: .sameKey)
            _ = try await SyncAgent(store: store, transport: world.relay, environment: world.environment).sync()
        }
        await #expect { _ = try await world.joining("newcomer", over: interposed).join(store, existing: .sameKey) } throws: { error in
            (error as? AnnalsError)?.code == .busy && (error as? AnnalsError)?.isRetryable == true
        }
        try await expectWhole(world.relay)
    }

    @Test("rows of an earlier beginning are not brought under a later one's name")
    func laterBeginning() async throws {
        let interposed = interposed(empty, before: .push) { [world, store, empty] in
            try await store.write { db in try db.execute(sql: "INSERT INTO note VALUES ('meanwhile', 'x')") }
            // Describes the space, begins to create it, and fails.
            let failing = AlteredRelay.failing(empty, from: 2)
            await #expect(throws: AnnalsError.self) { _ = try await world.joining("newcomer", over: failing).join(store) }
        }
        await #expect { _ = try await world.joining("newcomer", over: interposed).join(store) } throws: { error in
            (error as? AnnalsError)?.code == .busy
        }
        _ = try await world.joining("newcomer", over: empty).join(store)
        try await expectWhole(empty)
    }
}
