public import Annals
import AnnalsWire
import Logging
import SeededRandom
import Synchronization

/// Replicas of one space in memory, with a relay, a network and a clock that a test has in its hand: an app's sync test in some
/// lines and milliseconds.
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
/// Nothing is real but the code under test: the relay judges as the real one does, the stores are SQLite, and the agents are those of
/// an app, but there is no file, no port, and no waiting. Time stands still unless the test moves `clock`: of two writes that
/// meet the later wins, so move it between them where that matters.
public final class TestSpace: Sendable {
    /// One of the space's replicas.
    public struct Replica: Sendable {
        /// "replica 0", and so on, in history and conflicts.
        public let name: String
        public let store: Store
        public let agent: SyncAgent
        /// Its way to the relay: cut it, and the replica works on its own.
        public let line: FaultyLine
    }

    /// The replicas still had something to say to each other.
    public struct Unsettled: Error, CustomStringConvertible {
        public var description: String { "the replicas do not settle: is a line cut, or the network too bad?" }
    }

    public let clock: ManualClock
    public let relay: MemoryRelay
    public let network: FaultyNetwork
    public let replicas: [Replica]

    private static let start: Int64 = 1_700_000_000_000
    private static let rounds = 50

    /// Makes the replicas and joins them to a new space, before the first fault.
    ///
    /// - Parameters:
    ///   - count: how many replicas; at least one.
    ///   - network: its faults.
    ///   - seed: what identities are drawn from, so that ties end the same way in every run.
    ///   - configuration: for all stores; their clock and random numbers are the space's.
    ///   - prepare: makes the tables, and rows that all begin with: an app's migrations. It is run for each replica and must do the
    ///     same each time. All tables are tracked.
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

    /// Syncs everyone whose line is not cut, again and again, until nobody has anything left to say. A fault of the network is met
    /// as in an app: the agent tries again, and what still fails is tried in the next round.
    ///
    /// - Throws: `Unsettled` after many rounds; an `AnnalsError` for which trying again is of no use.
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

    /// Whether all replicas hold the same rows.
    public func areEqual() async throws -> Bool {
        var digests: Set<Digest> = []
        for replica in replicas { digests.insert(try await replica.store.digest()) }
        return digests.count == 1
    }
}
