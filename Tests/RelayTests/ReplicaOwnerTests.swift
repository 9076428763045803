import AnnalsCore
import AnnalsWire
import HTTPTypes
import RelayLog
import RelayTestSupport
import Testing

@testable import Relay

/// A replica cannot push as another replica, or acknowledge entries for it.
@Suite struct ReplicaOwnerTests {
    let fixture: RelayFixture
    let clock = TestClock()
    let lineage: Lineage
    let tokens: TokenStore

    init() async throws {
        fixture = try RelayFixture(noAuthorization: false, clock: clock.clock)
        lineage = try await fixture.log.createSpace(.shop).lineage
        tokens = fixture.log.tokens
    }

    private func token(lifetime: Int64? = nil) async throws -> (secret: String, id: Int64) {
        let (secret, record) = try await tokens.create(space: .shop, scope: .write, lifetimeMilliseconds: lifetime)
        return (secret, record.id)
    }

    /// Pushes the replica's next transaction.
    private func push(_ replica: inout TestReplica, _ client: RelayClient, _ token: String) async throws -> TestResponse {
        let batch = replica.batch(lineage, base: .zero, .writing(UInt64.random(in: 1 ... .max)))
        let response = try await client.with(token: token).push(batch.bytes)
        if response.status == .ok { replica.accept(batch) }
        return response
    }

    private func owner(_ replica: TestReplica) async throws -> String? {
        try await fixture.log.replicas(of: .shop).first { $0.replica == replica.id }?.owner
    }

    @Test func `a replica belongs to the token that was the first to push as it`() async throws {
        let (one, other) = (try await token(), try await token())
        try await fixture.run { client in
            var (mine, theirs) = (TestReplica(1), TestReplica(2))
            #expect(try await push(&mine, client, one.secret).status == .ok)
            let problem = try await push(&mine, client, other.secret).expectProblem(403, "replica-owned-elsewhere")
            #expect(problem.hint?.contains("annals relay release") == true)
            #expect(problem.detail?.contains(mine.id.description) == true)
            #expect(try await push(&theirs, client, other.secret).status == .ok)
            #expect(try await push(&mine, client, one.secret).status == .ok)
            #expect(try await owner(mine) == "token \(one.id)")
            #expect(try await fixture.log.describe(.shop).head == Position(3))
        }
    }

    @Test func `what is sent again is answered to its owner alone`() async throws {
        let (one, other) = (try await token(), try await token())
        try await fixture.run { client in
            var replica = TestReplica(1)
            let batch = replica.batch(lineage, base: .zero, .writing(1)).bytes
            #expect(try await client.with(token: one.secret).push(batch).status == .ok)
            try await client.with(token: other.secret).push(batch).expectProblem(403, "replica-owned-elsewhere")
            #expect(try await client.with(token: one.secret).push(batch).status == .ok)
        }
    }

    @Test func `a revoked token, and one that expired, let their replicas go`() async throws {
        let (revoked, expired, new, late) = (try await token(), try await token(lifetime: 86_400_000), try await token(), try await token())
        try await fixture.run { client in
            var (first, second) = (TestReplica(1), TestReplica(2))
            #expect(try await push(&first, client, revoked.secret).status == .ok)
            #expect(try await push(&second, client, expired.secret).status == .ok)
            _ = try await tokens.revoke(revoked.id)
            #expect(try await push(&first, client, new.secret).status == .ok)
            try await push(&first, client, late.secret).expectProblem(403, "replica-owned-elsewhere")
            try await push(&second, client, new.secret).expectProblem(403, "replica-owned-elsewhere")
            clock.advance(milliseconds: 86_400_000)
            #expect(try await push(&second, client, new.secret).status == .ok)
            #expect(try await owner(second) == "token \(new.id)")
        }
    }

    @Test func `a token that renews another shares its replicas, also when the first is gone`() async throws {
        let (old, stranger) = (try await token(), try await token())
        let (renewed, record) = try #require(try await tokens.renew(old.id))
        let (again, _) = try #require(try await tokens.renew(record.id))
        #expect(record.space == .shop && record.scope == .write)
        #expect(try await tokens.renew(999) == nil)
        try await fixture.run { client in
            var replica = TestReplica(1)
            for secret in [old.secret, renewed, again, old.secret] { #expect(try await push(&replica, client, secret).status == .ok) }
            _ = try await tokens.revoke(old.id)
            try await push(&replica, client, stranger.secret).expectProblem(403, "replica-owned-elsewhere")
            #expect(try await push(&replica, client, again).status == .ok)
            #expect(try await owner(replica) == "token \(old.id)")
        }
    }

    @Test func `an operator releases a replica while the relay serves`() async throws {
        let (one, other) = (try await token(), try await token())
        try await fixture.run { client in
            var replica = TestReplica(1)
            #expect(try await push(&replica, client, one.secret).status == .ok)
            try await push(&replica, client, other.secret).expectProblem(403, "replica-owned-elsewhere")
            let beside = try TestStorage.database(fixture.directory.path)
            #expect(try await beside.release(replica.id, of: .shop, now: 1))
            #expect(try await !beside.release(TestReplica(9).id, of: .shop, now: 1))
            try beside.close()
            #expect(try await push(&replica, client, other.secret).status == .ok)
            try await push(&replica, client, one.secret).expectProblem(403, "replica-owned-elsewhere")
        }
    }

    @Test func `a quarantined token reads and does not write, and operators see it`() async throws {
        let (one, other) = (try await token(), try await token())
        let (admin, _) = try await tokens.create(scope: .admin)
        try await fixture.run { client in
            var (mine, theirs) = (TestReplica(1), TestReplica(2))
            #expect(try await push(&mine, client, one.secret).status == .ok)
            let beside = try TestStorage.database(fixture.directory.path)
            _ = try await beside.quarantine("token \(one.id)", of: .shop, now: clock.now, by: .commandLine(user: "ann"))
            let problem = try await push(&mine, client, one.secret).expectProblem(403, "quarantined")
            #expect(problem.detail == "The relay's operator has quarantined token \(one.id) in the space shop: it can read but not write")
            #expect(problem.hint?.contains("annals relay quarantine --lift") == true)
            let snapshot = try await client.with(token: one.secret).upload([1], position: 1)
            try snapshot.expectProblem(403, "quarantined")
            #expect(try await push(&theirs, client, other.secret).status == .ok)
            for path in ["entries?after=0", ""] {
                #expect(try await client.with(token: one.secret).send(.get, "/v1/spaces/shop/\(path)").status == .ok)
            }
            let operators = client.with(token: admin)
            let seen = try await [operators.send(.get, "/v1/spaces"), operators.send(.get, "/v1/spaces/shop/replicas")].map {
                String(decoding: $0.bytes, as: UTF8.self)
            }
            #expect(seen[0].contains("\"quarantined\":[{\"owner\":\"token \(one.id)\",\"since\":\(clock.now)}]"), "\(seen[0])")
            #expect(seen[1].contains("\"quarantined\":\(clock.now)"), "\(seen[1])")
            _ = try await beside.liftQuarantine(of: "token \(one.id)", in: .shop, now: clock.now, by: .commandLine(user: "ann"))
            try beside.close()
            #expect(try await push(&mine, client, one.secret).status == .ok)
        }
    }

    @Test func `nobody but its owner says where a replica is`() async throws {
        let (one, other) = (try await token(), try await token())
        let (reader, _) = try await tokens.create(scope: .read)
        try await fixture.run { client in
            var (replica, busy) = (TestReplica(1), TestReplica(2))
            #expect(try await push(&replica, client, one.secret).status == .ok)
            for _ in 0..<3 { #expect(try await push(&busy, client, other.secret).status == .ok) }
            let headers: HTTPFields = [.replica: replica.id.description, .replicaName: "mallory"]
            for secret in [other.secret, reader] {
                let response = try await client.with(token: secret).send(.get, "/v1/spaces/shop/entries?after=4", headers: headers)
                #expect(response.status == .ok)
            }
            func record() async throws -> ReplicaRecord? { try await fixture.log.replicas(of: .shop).first { $0.replica == replica.id } }
            let before = try await record()
            #expect(before?.position == .zero && before?.name == "")
            let mine: HTTPFields = [.replica: replica.id.description, .replicaName: "till"]
            _ = try await client.with(token: one.secret).send(.get, "/v1/spaces/shop/entries?after=3", headers: mine)
            let after = try await record()
            #expect(after?.position == Position(3) && after?.name == "till")
        }
    }

    @Test func `a replica that only reads is noted, with any token`() async throws {
        let (reader, _) = try await tokens.create(scope: .read)
        let one = try await token()
        try await fixture.run { client in
            let headers: HTTPFields = [.replica: TestReplica(7).id.description]
            for secret in [reader, one.secret] {
                _ = try await client.with(token: secret).send(.get, "/v1/spaces/shop/entries?after=0", headers: headers)
            }
            #expect(try await fixture.log.replicas(of: .shop).map(\.replica) == [TestReplica(7).id])
        }
    }

    @Test func `the first part of a transaction makes the replica its sender's`() async throws {
        let (one, other) = (try await token(), try await token())
        try await fixture.run { client in
            var replica = TestReplica(1)
            let parts = replica.parts(lineage, base: .zero, .writing(1), count: 2)
            #expect(try await client.with(token: one.secret).push(parts[0].bytes).status == .ok)
            try await client.with(token: other.secret).push(parts[1].bytes).expectProblem(403, "replica-owned-elsewhere")
            #expect(try await client.with(token: one.secret).push(parts[1].bytes).status == .ok)
            #expect(try await fixture.log.describe(.shop).head == Position(2))
        }
    }

    @Test func `a subject keeps its replicas, whatever its tokens`() async throws {
        let log = fixture.log
        var replica = TestReplica(1)
        func push(_ owner: ReplicaOwner?) async throws {
            let batch = replica.batch(lineage, base: .zero, .writing(1))
            _ = try await log.push(batch.bytes, header: batch.header(), to: .shop, by: owner)
            replica.accept(batch)
        }
        try await push(.subject("ann", issuer: "https://id"))
        try await push(.subject("ann", issuer: "https://id"))
        for owner in [ReplicaOwner.subject("bob", issuer: "https://id"), .subject("ann", issuer: "https://other"), .token(1)] {
            await #expect(throws: RelayLogError.self) { try await push(owner) }
        }
        // A relay without tokens accepts all requests.
        try await push(nil)
    }
}
