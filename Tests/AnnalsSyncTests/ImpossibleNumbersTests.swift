import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import Synchronization
import Testing

@testable import AnnalsHTTP
@testable import AnnalsSync

/// A relay that answers with numbers that no log can have. The answer is refused, and the process continues.
@Suite struct ImpossibleNumbersTests {
    private static let schema = "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT); INSERT INTO note VALUES('a', 'first')"

    @Test func `a first entry that its batch does not hold is read no further`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        var configuration = world.configuration("newcomer")
        configuration.createIfMissing = true
        let store = try Store(path: world.folder.file("newcomer.db"), configuration: configuration)
        try await store.write { db in try db.execute(sql: Self.schema) }
        _ = try await store.track(.all)
        let relay = ChangedRelay(base: world.relay) { page in
            page.head = Position.first
            page.frames = Array(page.frames.prefix(1))
            guard !page.frames.isEmpty else { return }
            page.frames[0].firstIndex = 9
            page.frames[0].receivedAt = 0
        }
        relay.hidesSnapshot.withLock { $0 = true }
        // So the space does not look like an unfinished one. The relay's snapshot has the same rows.
        guard case .recognised = try await world.joining("newcomer", over: relay).join(store) else {
            Issue.record("the space was made anew")
            return
        }
        #expect(try await store.verify().isEmpty)
    }

    @Test(.timeLimit(.minutes(20)))
    func `a page that was not asked for ends the search for a push that got no answer`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "INSERT INTO note VALUES('b', 'x')")
        try await world.settle()
        try world.outside(1, "INSERT INTO note VALUES('c', 'x')")
        let state = try #require(await world.stores[1].replicaState())
        let relay = ChangedRelay(base: world.relay) { $0.isLast = false }
        relay.first.withLock { $0 = LogMark(lineage: state.lineage) }
        relay.refuses.withLock { $0 = true }
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(1, .pushOnly, over: relay) }
        #expect(error?.code == .corruptBatch, "\(String(describing: error))")
        try await world.settle()
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
    }

    @Test func `a part that would begin before the log is refused`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        var body = BodyEncoder(info: TransactionInfo(id: .random(), time: .zero))
        var batch = BatchEncoder(
            lineage: .random(), signer: .random(), firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 1,
            part: BatchPart(number: 1, count: 3))
        batch.append(body: body.finish(), base: .zero, footprint: Footprint())
        let bytes = try batch.finish().bytes
        let relay = ChangedRelay(base: world.relay) { page in
            page.frames = [LogFrame(firstPosition: Position(1), acceptedCount: 1, receivedAt: 0, batch: bytes)]
            page.head = Position(7)
        }
        let state = try #require(await world.stores[0].replicaState())
        let log = BoundedLog(last: Position(1), of: relay)
        await #expect {
            try await log.pull(after: .zero, seen: LogMark(lineage: state.lineage), byteLimit: 1, wait: nil)
        } throws: {
            if case .badAnswer(.badValue("part"))? = $0 as? TransportError { true } else { false }
        }
    }

    @Test func `an own entry that is said to be far away is not gone to step by step`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        let agent = SyncAgent(store: world.stores[0], transport: world.relay, environment: world.environment)
        let far = Position(WireLimits.maximumPosition)
        let error = await #expect(throws: AnnalsError.self) {
            try await agent.pullOwn([far], through: far, into: world.stores[0], at: Position(1))
        }
        #expect(error?.code == .corruptBatch)
    }

    @Test(arguments: [
        ("Annals-Time", "9223372036854775807"), ("Annals-Time", "x"), ("Annals-Position", "-9223372036854775808"),
        ("Annals-Position", "9223372036854775807"), ("Retry-After", "-9223372036854775808"),
    ])
    func `a header with a number that cannot be says nothing`(name: String, value: String) throws {
        let relay = try HTTPRelay(address: "http://127.0.0.1:1", space: #require(SpaceName("shop")), client: HTTPClient())
        let response = HTTPResponse(status: 200, headers: HTTPHeaders([.init(name: name, value: value)]))
        #expect(relay.relayTime(response) == nil)
        #expect(throws: TransportError.self) { try relay.snapshotPosition(response) }
        #expect(relay.retryAfter(response) ?? .zero == .zero)
    }
}

/// Hands out changed pages.
private final class ChangedRelay: ForwardingTransport {
    let base: any RelayTransport
    let change: @Sendable (inout Page) -> Void
    /// Whether it says that the space has no snapshot and only one entry.
    let hidesSnapshot = Mutex(false)
    /// Answers every pull like the first, with this mark.
    let first = Mutex<LogMark?>(nil)
    /// Whether the first push gets no answer, and later ones are refused.
    let refuses = Mutex(false)
    private let pushes = Mutex(0)

    init(base: any RelayTransport, change: @escaping @Sendable (inout Page) -> Void) {
        self.base = base
        self.change = change
    }

    func describe() async throws(TransportError) -> SpaceDescription {
        var description = try await base.describe()
        if hidesSnapshot.withLock({ $0 }) { (description.snapshot, description.head) = (nil, Position.first) }
        return description
    }

    func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        guard refuses.withLock({ $0 }) else { return try await base.push(batch, seen: seen) }
        let number = pushes.withLock { pushes in
            pushes += 1
            return pushes
        }
        guard number > 1 else { throw .unreachable("lost", wasSent: true) }
        throw .problem(Problem(.notPermitted), retryAfter: nil)
    }

    func pull(after: Position, seen: LogMark, byteLimit: Int, wait: Duration?) async throws(TransportError) -> Page {
        let first = first.withLock { $0 }
        var page = try await base.pull(after: first?.position ?? after, seen: first ?? seen, byteLimit: byteLimit, wait: wait)
        change(&page)
        return page
    }
}
