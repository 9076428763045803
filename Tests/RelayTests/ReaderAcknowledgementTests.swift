import AnnalsCore
import AnnalsWire
import HTTPTypes
import RelayLog
import RelayTestSupport
import Testing

@testable import Relay

/// A token that may only read never holds back a purge, also with invented replicas.
@Suite struct ReaderAcknowledgementTests {
    let fixture: RelayFixture
    let clock = TestClock()
    let lineage: Lineage
    let reader: String
    let writer: String

    init() async throws {
        var limits = RelayLimits()
        limits.log.sightedReplicas = 8
        limits.log.readersPerSpace = 12
        fixture = try RelayFixture(noAuthorization: false, limits: limits, clock: clock.clock)
        lineage = try await fixture.log.createSpace(.shop).lineage
        reader = try await fixture.log.tokens.create(space: .shop, scope: .read).secret
        writer = try await fixture.log.tokens.create(space: .shop, scope: .write).secret
    }

    /// Pulls as a replica.
    private func pull(_ client: RelayClient, _ token: String, as replica: ReplicaID, after: Int64) async throws {
        let headers: HTTPFields = [.replica: replica.description]
        #expect(try await client.with(token: token).send(.get, "/v1/spaces/shop/entries?after=\(after)", headers: headers).status == .ok)
    }

    private func push(_ replica: inout TestReplica, _ client: RelayClient) async throws {
        let head = try await fixture.log.describe(.shop).head
        let batch = replica.batch(lineage, base: head, .writing(UInt64(head.rawValue)))
        #expect(try await client.with(token: writer).push(batch.bytes).status == .ok)
        replica.accept(batch)
    }

    private var replicas: [ReplicaRecord] {
        get async throws { try await fixture.log.replicas(of: .shop) }
    }

    @Test func `a reader that has taken in nothing does not hold back a purge`() async throws {
        try await fixture.run { client in
            var author = TestReplica(1)
            for _ in 0..<3 { try await push(&author, client) }
            try await pull(client, writer, as: author.id, after: 3)
            for number in 10..<13 { try await pull(client, reader, as: TestReplica(UInt64(number)).id, after: 0) }
            #expect(try await client.with(token: writer).upload([1], position: 3).status == .created)
            var rules = PurgeRules()
            rules.keep = 0
            clock.advance(milliseconds: 10_000)
            let outcome = try await fixture.log.purge(.shop, rules)
            #expect(outcome.horizon == Position(3) && outcome.holding.isEmpty)
        }
    }

    @Test func `a reader that claims to have taken in an entry does not keep it from being voided`() async throws {
        try await fixture.run { client in
            var author = TestReplica(1)
            for _ in 0..<2 { try await push(&author, client) }
            try await pull(client, reader, as: TestReplica(10).id, after: 2)
            #expect(try await fixture.log.void(Position(2), of: .shop, withLater: false).voided == [Position(2)])
        }
    }

    @Test func `a replica of another writer's token holds back both before it has pushed`() async throws {
        let other = try await fixture.log.tokens.create(space: .shop, scope: .write).secret
        try await fixture.run { client in
            var author = TestReplica(1)
            for _ in 0..<2 { try await push(&author, client) }
            try await pull(client, other, as: TestReplica(2).id, after: 2)
            await #expect(throws: VoidRefusal.self) { try await fixture.log.void(Position(2), of: .shop, withLater: false) }
            // Its first acknowledgement counts, also if a reader sent one in its name before.
            try await pull(client, reader, as: TestReplica(3).id, after: 0)
            try await pull(client, writer, as: TestReplica(3).id, after: 0)
            #expect(try await replicas.first { $0.replica == TestReplica(3).id }?.holdsBack == true)
        }
    }

    @Test func `invented replicas take the place of each other, and of nobody else`() async throws {
        let other = try await fixture.log.tokens.create(space: .shop, scope: .read).secret
        try await fixture.run { client in
            var author = TestReplica(1)
            try await push(&author, client)
            try await pull(client, other, as: TestReplica(500).id, after: 1)
            for round in 0..<5 {
                for number in 0..<40 {
                    clock.advance(milliseconds: 10)
                    try await pull(client, reader, as: TestReplica(UInt64(1000 + round * 40 + number)).id, after: 1)
                }
                _ = try await replicas
            }
            let found = try await replicas
            #expect(found.count == 10 && found.filter { !$0.holdsBack }.count == 9)
            // The newest replicas are recorded.
            #expect(Set(found.map(\.replica)).isSuperset(of: [author.id, TestReplica(500).id, TestReplica(1199).id, TestReplica(1192).id]))
            // There are more read tokens than the space has room for. Those that were seen last stay.
            let third = try await fixture.log.tokens.create(space: .shop, scope: .read).secret
            for number in 0..<8 { try await pull(client, third, as: TestReplica(UInt64(3000 + number)).id, after: 1) }
            #expect(try await replicas.filter { !$0.holdsBack }.count == 12)
            // The same for the replicas of a write token that have not pushed.
            for number in 0..<20 { try await pull(client, writer, as: TestReplica(UInt64(2000 + number)).id, after: 1) }
            #expect(try await replicas.filter { $0.holdsBack }.count == 9)
        }
    }

    @Test func `a replica whose row gave way pushes all the same`() async throws {
        try await fixture.run { client in
            var (author, late) = (TestReplica(1), TestReplica(2))
            try await push(&author, client)
            // The push is stale, so the relay has a row of the replica and no transaction of it.
            let stale = late.batch(lineage, base: .zero, .writing(0))
            #expect(try PushAnswer.decode(try await client.with(token: writer).push(stale.bytes).bytes).outcome == .stale(at: Position(1)))
            _ = try await replicas
            #expect(try PushAnswer.decode(try await client.with(token: writer).push(stale.bytes).bytes).outcome == .stale(at: Position(1)))
            clock.advance(milliseconds: 1)
            for number in 0..<20 { try await pull(client, writer, as: TestReplica(UInt64(2000 + number)).id, after: 1) }
            #expect(try await !replicas.contains { $0.replica == late.id })
            try await push(&late, client)
            #expect(try await replicas.first { $0.replica == late.id }?.holdsBack == true)
        }
    }

    @Test func `a relay that serves everybody lets everyone hold back, as many as there are`() async throws {
        var limits = RelayLimits()
        limits.log.sightedReplicas = 2
        let open = try RelayFixture(limits: limits, clock: clock.clock)
        try await open.run { client in
            _ = try await client.create()
            for number in 1...5 {
                let headers: HTTPFields = [.replica: TestReplica(UInt64(number)).id.description]
                #expect(try await client.send(.get, "/v1/spaces/shop/entries?after=0", headers: headers).status == .ok)
            }
            let found = try await open.log.replicas(of: .shop)
            #expect(found.count == 5 && found.allSatisfy(\.holdsBack))
        }
    }
}
