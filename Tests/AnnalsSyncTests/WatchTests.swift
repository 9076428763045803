import AnnalsCore
import AnnalsHTTP
import AnnalsHistory
import AnnalsStore
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import Logging
import Synchronization
import Testing

@testable import AnnalsSync

/// Reports commits when the test says so.
private final class ToldCommits: CommitNotices {
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init() { (stream, continuation) = AsyncStream<Void>.makeStream() }

    func report() { continuation.yield() }

    func next() async throws {
        for await _ in stream { return }
        throw CancellationError()
    }
}

/// Collects log lines.
private final class Lines: Sendable {
    private let lines = Mutex<[String]>([])

    var all: [String] { lines.withLock { $0 } }
    func append(_ line: String) { lines.withLock { $0.append(line) } }

    var logger: Logger { Logger(label: "test") { _ in Handler(lines: self) } }

    private struct Handler: LogHandler {
        let lines: Lines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.notice
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }
        func log(event: LogEvent) { lines.append("\(event.message)") }
    }
}

@Suite("An agent that stays in touch", .timeLimit(.minutes(20)))
struct WatchTests {
    /// The running agent of one replica. The test controls the other replica.
    private struct Running {
        let world: SyncedStores
        let relay: AlteredRelay
        let commits = ToldCommits()
        let lines = Lines()
        let reports: AsyncStream<SyncAgent.Summary>
        let task: Task<Void, any Error>

        /// - Parameter onPause: Called instead of pausing, with the length of the pause.
        init(
            fault: TransportError? = nil, schema: String = "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v TEXT);",
            onPause: @escaping @Sendable (AlteredRelay, Duration) async throws -> Void = { _, _ in }
        ) async throws {
            world = try await SyncedStores(replicas: 2, schema: schema)
            let relay = AlteredRelay(base: world.relay)
            relay.fault = fault
            self.relay = relay
            let (stream, continuation) = AsyncStream<SyncAgent.Summary>.makeStream()
            reports = stream
            let environment = SyncAgent.Environment(
                pause: { duration in
                    try Task.checkCancellation()
                    try await onPause(relay, duration)
                    await Task.yield()
                }, random: { 0.5 })
            let agent = SyncAgent(store: world.stores[0], transport: relay, environment: environment, logger: lines.logger)
            task = Task { [commits] in
                defer { continuation.finish() }
                try await agent.run(commits: commits) { continuation.yield($0) }
            }
        }

        func report() async throws -> SyncAgent.Summary {
            for await summary in reports { return summary }
            throw CancellationError()
        }

        func end() async throws {
            task.cancel()
            try await task.value
        }
    }

    @Test("sends what is committed here and takes in what is committed there, and ends when it is cancelled")
    func bothWays() async throws {
        let running = try await Running()
        let first = try await running.report()
        #expect(!first.movedSomething && first.position == Position(1))

        try running.world.outside(0, "INSERT INTO t VALUES ('a', 'here')")
        running.commits.report()
        let sent = try await running.report()
        #expect(sent.pushed.transactions == 1 && sent.position == Position(2))

        try await running.world.sync(1)
        try running.world.outside(1, "INSERT INTO t VALUES ('b', 'there')")
        try await running.world.sync(1)
        let taken = try await running.report()
        #expect(taken.pulled.transactions == 1 && taken.position == Position(3) && taken.outbox == 0)

        try await running.end()
        #expect(try await running.world.stores[0].digest() == running.world.stores[1].digest())
        #expect(running.lines.all == ["connected to the relay"])
    }

    @Test("its own commits wake it without a request being made")
    func ownCommits() async throws {
        let running = try await Running()
        _ = try await running.report()
        let requests = running.relay.requests
        for _ in 0..<10 { running.commits.report() }
        try running.world.outside(0, "INSERT INTO t VALUES ('a', 'here')")
        running.commits.report()
        _ = try await running.report()
        #expect(running.relay.pushes == 1)
        // The push, and at most one new waiting pull after each of two answers.
        #expect(running.relay.requests - requests <= 3)
        try await running.end()
    }

    @Test("references that a program broke are settled while it stays in touch, and counted")
    func brokenReferences() async throws {
        let running = try await Running(
            schema: """
                CREATE TABLE team (id INTEGER PRIMARY KEY);
                CREATE TABLE person (id INTEGER PRIMARY KEY, team INTEGER REFERENCES team (id) ON DELETE SET NULL);
                """)
        _ = try await running.report()
        try running.world.outside(0, "INSERT INTO person VALUES (1, 77)", foreignKeys: false)
        running.commits.report()
        let report = try await running.report()
        #expect(report.conflicts == 1 && report.pushed.transactions == 1)
        try await running.end()
    }

    @Test("a conflict with work that is not sent yet is settled while it stays in touch")
    func conflict() async throws {
        let running = try await Running()
        _ = try await running.report()
        try running.world.outside(1, "INSERT INTO t VALUES ('a', 'there')")
        running.world.clock.advance(.seconds(1))
        try running.world.outside(0, "INSERT INTO t VALUES ('a', 'here')")
        try await running.world.sync(1)
        running.commits.report()
        var position = Position.zero
        while position < Position(3) { position = try await running.report().position }
        try await running.end()
        try await running.world.sync(1)
        #expect(try await running.world.stores[0].digest() == running.world.stores[1].digest())
    }

    @Test("while the relay is away it tries again after growing pauses, says so once, and comes back by itself")
    func away() async throws {
        let pauses = Mutex<[Duration]>([])
        let running = try await Running(fault: .unreachable("no connection", wasSent: false)) { relay, pause in
            let count = pauses.withLock { pauses in
                pauses.append(pause)
                return pauses.count
            }
            if count == 40 { relay.fault = nil }
        }
        let first = try await running.report()
        #expect(first.position == Position(1))
        try await running.end()
        #expect(running.lines.all.count == 2, "\(running.lines.all)")
        #expect(running.lines.all.first?.contains("retrying") == true && running.lines.all.last == "connected to the relay")
        let longest = pauses.withLock { $0.max() }
        #expect(longest.map { $0 > .seconds(5) && $0 <= SyncLimits.longestPause } == true)
    }

    @Test("while the relay cannot be reached, each commit is recorded as a transaction")
    func recordsWhileUnreachable() async throws {
        let (pausing, continuation) = AsyncStream<Void>.makeStream()
        // The relay never answers, and the first pause does not end.
        let running = try await Running(fault: .unreachable("no connection", wasSent: false)) { _, pause in
            continuation.yield()
            // Waits until the agent is cancelled.
            for await _ in AsyncStream<Never>.makeStream().stream {}
            try Task.checkCancellation()
        }
        for await _ in pausing { break }
        for number in 1...4 {
            let before = try await running.world.rows(0, "SELECT count(*) FROM annals_transactions")
            try running.world.outside(0, "INSERT INTO t VALUES ('\(number)', '\(number)')")
            running.commits.report()
            var turns = 0
            while try await running.world.rows(0, "SELECT count(*) FROM annals_transactions") == before, turns < 10_000 {
                await Task.yield()
                turns += 1
            }
        }
        try await running.end()
        let recorded = try await running.world.rows(0, "SELECT count(*) FROM annals_transactions WHERE origin = 1")
        #expect(recorded == [[4.databaseValue]])
    }

    @Test("while the space refuses the store's schema, writes are captured, and it comes back by itself")
    func refusedSchema() async throws {
        let world = Mutex<SyncedStores?>(nil)
        let captured = Mutex<[Bool]>([])
        let running = try await Running { _, _ in
            guard let world = world.withLock({ $0 }) else { return }
            let pauses = captured.withLock { $0.count }
            // A tool rebuilds the table a second time, and then restores the first form.
            if pauses == 2 { try world.outside(0, Self.rebuild("v TEXT COLLATE NOCASE")) }
            if pauses == 4 { try world.outside(0, Self.rebuild("v TEXT")) }
            guard pauses < 5 else { return }
            let triggers = try await world.rows(0, "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 't'")
            try world.outside(0, "INSERT INTO t VALUES ('\(pauses)', '\(pauses)')")
            captured.withLock { $0.append(Int.fromDatabaseValue(triggers[0][0]).map { $0 > 0 } ?? false) }
        }
        _ = try await running.report()
        world.withLock { $0 = running.world }
        try running.world.outside(0, Self.rebuild("v TEXT COLLATE NOCASE"))
        running.commits.report()
        _ = try await running.report()
        try await running.end()
        // After a rebuild the table's triggers are missing until the next check.
        #expect(captured.withLock { $0 } == [true, true, false, true, false])
        try await running.world.sync(0)
        try await running.world.sync(1)
        #expect(try await running.world.rows(1, "SELECT count(*) FROM t") == [[5.databaseValue]])
        #expect(try await running.world.stores[0].digest() == running.world.stores[1].digest())
    }

    @Test("while the store waits for its migration, it continues to watch")
    func waiting() async throws {
        let world = Mutex<SyncedStores?>(nil)
        let pauses = Mutex(0)
        let running = try await Running(schema: "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, v TEXT NOT NULL);") { _, _ in
            guard let world = world.withLock({ $0 }) else { return }
            let count = pauses.withLock { count in
                count += 1
                return count
            }
            if count == 3 { try world.outside(0, Self.rebuild("v TEXT")) }
        }
        _ = try await running.report()
        world.withLock { $0 = running.world }
        try await running.world.stores[1].migrate(label: "v2", sql: Self.rebuild("v TEXT"))
        try running.world.outside(1, "INSERT INTO t VALUES ('a', NULL)")
        try await running.world.sync(1)
        _ = try await running.report()
        try await running.end()
        #expect(pauses.withLock { $0 } >= 3)
        try await running.world.sync(0)
        #expect(try await running.world.rows(0, "SELECT v FROM t") == [[.null]])
    }

    private static func rebuild(_ column: String) -> String {
        """
        CREATE TABLE new(id TEXT PRIMARY KEY NOT NULL, \(column));
        INSERT INTO new SELECT * FROM t; DROP TABLE t; ALTER TABLE new RENAME TO t;
        """
    }

    @Test("what does not pass by itself ends it with that error")
    func refused() async throws {
        let running = try await Running(fault: .problem(Problem(.notPermitted), retryAfter: nil))
        await #expect { try await running.task.value } throws: { ($0 as? AnnalsError)?.code == .notPermitted }
    }

    @Test("an address that was never a relay ends it; one that was is waited for")
    func notARelay() async throws {
        let wrong = try await Running(fault: .notARelay("it answered with text/html"))
        await #expect { try await wrong.task.value } throws: { ($0 as? AnnalsError)?.code == .notARelay }

        let running = try await Running { relay, _ in relay.fault = nil }
        _ = try await running.report()
        running.relay.fault = .notARelay("it answered with text/html")
        try running.world.outside(0, "INSERT INTO t VALUES ('a', 'here')")
        running.commits.report()
        #expect(try await running.report().pushed.transactions == 1)
        try await running.end()
        #expect(running.lines.all.count == 3)
    }

    @Test("who is not trusted ends it at the beginning; one that was in touch waits until its certificate is renewed")
    func notTrusted() async throws {
        let expired = TransportError.untrusted("the certificate has expired", .expired)
        let wrong = try await Running(fault: expired)
        await #expect { try await wrong.task.value } throws: { error in
            guard let error = error as? AnnalsError else { return false }
            return error.code == .relayUnreachable && !error.isRetryable && error.hint == CertificateProblem.expired.hint
        }

        let running = try await Running { relay, _ in relay.fault = nil }
        _ = try await running.report()
        running.relay.fault = expired
        try running.world.outside(0, "INSERT INTO t VALUES ('a', 'here')")
        running.commits.report()
        #expect(try await running.report().pushed.transactions == 1)
        try await running.end()
    }

    @Test("no request goes to a relay before the time that it names")
    func retryAfter() async throws {
        let pauses = Mutex<[(pause: Duration, requests: Int)]>([])
        let overloaded = TransportError.problem(Problem(.tooManyRequests), retryAfter: .seconds(60))
        let running = try await Running(fault: overloaded) { relay, pause in
            let count = pauses.withLock { pauses in
                pauses.append((pause, relay.requests))
                return pauses.count
            }
            if count == 20 { relay.fault = nil }
        }
        _ = try await running.report()
        // Also while it waits for new entries.
        running.relay.fault = overloaded
        pauses.withLock { $0 = [] }
        try await running.world.sync(1)
        try running.world.outside(1, "INSERT INTO t VALUES ('a', 'there')")
        try await running.world.sync(1)
        while try await running.report().position < Position(2) {}
        try await running.end()
        let all = pauses.withLock { $0 }
        #expect(all.count >= 20)
        // At most one request between two long pauses.
        var asked = all.first?.requests ?? 0
        for step in all where step.pause >= .seconds(60) {
            #expect(step.requests <= asked + 1)
            asked = step.requests
        }
    }

    @Test("contact is told of when it changes, and only then")
    func contact() {
        var contact = Reachability()
        #expect(contact.failed() == .lost)
        #expect(contact.failed() == nil)
        #expect(contact.answered() == .made)
        #expect(contact.answered() == nil)
        #expect(contact.failed() == .lost)
        #expect(contact.answered() == .madeAgain)
    }
}
