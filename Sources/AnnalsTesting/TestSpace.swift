public import Annals
import AnnalsWire
import Logging
import SeededRandom
import Synchronization

/// Replicas of one space in memory, with a relay, a network and a clock under the test's control. With it an app's sync
/// test needs a few lines and milliseconds.
///
///     @Test("a note that is renamed on the phone and ticked off on the laptop is both")
///     func bothEdits() async throws {
///         let space = try await TestSpace { db in
///             try db.execute(sql: "CREATE TABLE note (id TEXT PRIMARY KEY NOT NULL, title TEXT, done INTEGER)")
///             try db.execute(sql: "INSERT INTO note VALUES ('n1', 'Milk', 0)")
///         }
///         try await space[0].store.write { db in try db.execute(sql: "UPDATE note SET title = 'Oat milk'") }
///         try await space[1].store.write { db in try db.execute(sql: "UPDATE note SET done = 1") }
///         try await space.settle()
///         let done = try await space[0].store.read { db in try String.fetchAll(db, sql: "SELECT title FROM note WHERE done") }
///         #expect(done == ["Oat milk"])
///         #expect(try await space.areEqual())
///     }
///
/// The code under test is real: the relay certifies like the real one, the stores are SQLite, and the agents are those
/// of an app. But there are no files, no ports and no waiting. Time only passes if the test advances `clock`. If two
/// writes conflict, the later one wins, so advance the clock between writes where this matters.
public final class TestSpace: Sendable {
    /// One replica of the space.
    public struct Replica: Sendable {
        /// The name in history and conflicts: "replica 0", and so on.
        public let name: String
        public let store: Store
        public let agent: SyncAgent
        /// The connection to the relay. If the test cuts it, the replica works offline.
        public let line: FaultyLine
    }

    /// After the last round the replicas still had transactions to exchange.
    public struct Unsettled: Error, CustomStringConvertible {
        public var description: String {
            "the replicas still have transactions to exchange after the last round: a line may be cut, or the network may have "
                + "too many faults"
        }
    }

    public let clock: ManualClock
    public let relay: MemoryRelay
    public let network: FaultyNetwork
    public let replicas: [Replica]

    private static let start: Int64 = 1_700_000_000_000
    private static let rounds = 50

    /// Creates the replicas and joins them to a new space, before the first fault.
    ///
    /// - Parameters:
    ///   - count: the number of replicas, at least one.
    ///   - network: the network with its faults.
    ///   - seed: the seed of all ids, so that ties have the same result in every run.
    ///   - configuration: the configuration of all stores. The space replaces their clock and random numbers.
    ///   - prepare: creates the tables and the first rows, like an app's migrations. It runs for each replica and must
    ///     do the same each time. All tables are tracked.
    public init(
        replicas count: Int = 2, network: FaultyNetwork = FaultyNetwork(), seed: UInt64 = 1, configuration: Store.Configuration = .init(),
        _ prepare: @escaping @Sendable (Database) throws -> Void
    ) async throws {
        precondition(count > 0, "a space has at least one replica")
        let address = try SpaceAddress("test", at: "http://127.0.0.1:1", as: "")
        let clock = ManualClock(milliseconds: Self.start)
        let chance = Mutex(SeededGenerator(seed: seed))
        let relay = try MemoryRelay(space: address.space, clock: clock)
        let logger = Logger(label: "annals.testing", factory: { _ in SwiftLogNoOpLogHandler() })
        var made: [Replica] = []
        for number in 0..<count {
            let name = "replica \(number)"
            var configuration = configuration
            configuration.process = name
            configuration.now = { clock.milliseconds }
            configuration.random = { chance.withLock { $0.next() } }
            let store = try Store(inMemory: nil, configuration: configuration)
            try await store.write { db in try prepare(db) }
            try await store.track(.all)
            var own = address
            own.name = name
            try await SyncAgent(store: store, transport: relay, joining: own, environment: clock.environment, logger: logger).sync()
            let line = network.line(to: relay, clock: clock)
            let agent = SyncAgent(store: store, transport: line, joining: own, environment: clock.environment, logger: logger)
            made.append(Replica(name: name, store: store, agent: agent, line: line))
        }
        self.clock = clock
        self.relay = relay
        self.network = network
        replicas = made
    }

    public subscript(index: Int) -> Replica { replicas[index] }

    /// Syncs every replica with an uncut line in rounds, until a round exchanges nothing. Faults are handled as in an
    /// app: the agent tries again, and the next round repeats what still failed.
    ///
    /// - Throws: `Unsettled` after many rounds, or an `AnnalsError` that a retry cannot solve.
    public func settle() async throws {
        for _ in 0..<Self.rounds {
            var isQuiet = true
            for replica in replicas where !replica.line.isCut {
                do {
                    let summary = try await replica.agent.sync()
                    if summary.movedSomething || summary.outbox > 0 { isQuiet = false }
                } catch let error as AnnalsError where error.isRetryable {
                    isQuiet = false
                }
            }
            if isQuiet { return }
        }
        throw Unsettled()
    }

    /// Whether all replicas have the same rows.
    public func areEqual() async throws -> Bool {
        var digests: Set<Digest> = []
        for replica in replicas { digests.insert(try await replica.store.digest()) }
        return digests.count == 1
    }
}
