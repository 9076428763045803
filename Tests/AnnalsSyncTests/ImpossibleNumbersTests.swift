import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
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
        let relay = AlteredRelay(
            base: world.relay,
            space: { space in (space.snapshot, space.head) = (nil, Position.first) },
            page: { page, _ in
                page.head = Position.first
                page.frames = Array(page.frames.prefix(1))
                guard !page.frames.isEmpty else { return }
                page.frames[0].firstIndex = 9
                page.frames[0].receivedAt = 0
            })
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
        // The first push gets no answer, later ones are refused, and every pull is answered like one of the whole log.
        let relay = AlteredRelay(
            base: world.relay,
            before: { request in
                guard request.kind == .push else { return }
                guard request.ofKind > 1 else { throw TransportError.unreachable("lost", wasSent: true) }
                throw TransportError.problem(Problem(.notPermitted), retryAfter: nil)
            },
            ask: { position, seen in (position, seen) = (.zero, LogMark(lineage: state.lineage)) },
            page: { page, _ in (page.after, page.isLast) = (.zero, false) })
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
        let relay = AlteredRelay(
            base: world.relay,
            page: { page, _ in
                page.frames = [LogFrame(firstPosition: Position(1), acceptedCount: 1, receivedAt: 0, batch: bytes)]
                page.head = Position(7)
            })
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
