import Annals
import AnnalsTesting
import Foundation
import Synchronization
import Testing

/// One replica of a space, with a running agent as in an app. The test controls the space's other replica.
final class RunningAgent: Sendable {
    let space: TestSpace
    let network: FaultyNetwork
    let line: FaultyLine
    let agent: SyncAgent
    let task: Task<Void, any Error>
    private let told: Told

    /// - Parameter pause: Called instead of waiting. Without it nothing takes time.
    init(
        _ network: FaultyNetwork = FaultyNetwork(), cut: Bool = false,
        pause: (@Sendable (Duration) async throws -> Void)? = nil
    ) async throws {
        let space = try await TestSpace(AgentSupport.makeNotes)
        self.space = space
        self.network = network
        let line = network.line(to: space.relay, clock: space.clock)
        self.line = line
        if cut { line.cut() }
        var environment = space.clock.environment
        if let pause { environment.pause = pause }
        let agent = SyncAgent(store: space[0].store, transport: line, environment: environment)
        self.agent = agent
        told = Told(agent.events)
        task = Task { try await agent.run() }
    }

    /// The next event that is not nil.
    @discardableResult
    func next(where isOne: @escaping @Sendable (SyncEvent) -> Bool) async throws -> SyncEvent {
        try await told.next(where: isOne)
    }

    func caughtUp() async throws { try await next { $0.isCaughtUp } }

    func end() async throws {
        task.cancel()
        try await task.value
    }
}

/// Reads a sequence of events, beginning where the last reader stopped.
actor Told {
    private var iterator: AsyncStream<SyncEvent>.Iterator

    init(_ events: AsyncStream<SyncEvent>) { iterator = events.makeAsyncIterator() }

    func next(where isOne: @Sendable (SyncEvent) -> Bool) async throws -> SyncEvent {
        var iterator = iterator
        while let event = await iterator.next(isolation: self) {
            guard isOne(event) else { continue }
            self.iterator = iterator
            return event
        }
        throw CancellationError()
    }
}

enum AgentSupport {
    static let makeNotes: @Sendable (Database) throws -> Void = { db in
        try db.execute(sql: "CREATE TABLE note (id TEXT PRIMARY KEY NOT NULL, title TEXT)")
    }

    static func add(_ id: String, to store: Store) async throws {
        try await store.write { db in try db.execute(sql: "INSERT INTO note VALUES (?, ?)", arguments: [id, id]) }
    }

    static func ids(_ store: Store) async throws -> [String] {
        try await store.read { db in try String.fetchAll(db, sql: "SELECT id FROM note ORDER BY id") }
    }

    /// Waits for its task to be cancelled.
    static func forever() async throws {
        for await _ in AsyncStream<Void>.makeStream().stream {}
        throw CancellationError()
    }
}

/// A folder that is deleted after the test.
final class AgentFolder: Sendable {
    let path = FileManager.default.temporaryDirectory.path + "/annals-agent-\(UUID())"

    init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false) }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func file(_ name: String) -> String { "\(path)/\(name)" }
}
