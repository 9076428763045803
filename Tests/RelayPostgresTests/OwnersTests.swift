import AnnalsCore
import AnnalsWire
import RelayTestSupport
import Testing

@testable import RelayLog
@testable import RelayPostgres

/// Whose replicas are, at several relays of one database.
@Suite(.enabled(if: TestStorage.postgres != nil, "of PostgreSQL: Scripts/with-postgres starts one and names it"))
struct OwnersTests {
    let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func push(_ replica: inout TestReplica, _ log: RelayLog, _ lineage: Lineage, by owner: ReplicaOwner) async throws {
        let batch = replica.batch(lineage, base: .zero, .writing(1))
        #expect(try await log.push(batch.bytes, header: batch.header(), to: .shop, by: owner).outcome == .accepted)
        replica.accept(batch)
    }

    @Test func `what one relay knows of an owner ends when another, or an operator, gives the replica away`() async throws {
        let relays = try (0..<2).map { _ in try TestStorage.log(directory.path) }
        let lineage = try await relays[0].createSpace(.shop).lineage
        let (ann, bob) = (ReplicaOwner.subject("ann", issuer: "i"), ReplicaOwner.subject("bob", issuer: "i"))
        var replica = TestReplica(1)
        for log in relays { try await push(&replica, log, lineage, by: ann) }
        for log in relays { await #expect(throws: RelayLogError.self) { try await push(&replica, log, lineage, by: bob) } }
        #expect(try await relays[0].database.release(replica.id, of: .shop, now: 1))
        try await push(&replica, relays[1], lineage, by: bob)
        for log in relays { await #expect(throws: RelayLogError.self) { try await push(&replica, log, lineage, by: ann) } }
        try await push(&replica, relays[0], lineage, by: bob)
        // A token that is revoked: the other relay had it for the owner.
        let (_, old) = try await relays[0].tokens.create(scope: .write)
        var other = TestReplica(2)
        let batch = other.batch(lineage, base: .zero, .writing(2))
        for log in relays {
            let answer = try await log.push(batch.bytes, header: batch.header(), to: .shop, by: .token(old.id))
            #expect(answer.outcome == .accepted)
        }
        other.accept(batch)
        _ = try await relays[0].tokens.revoke(old.id)
        let next = other.batch(lineage, base: .zero, .writing(2))
        _ = try await relays[0].push(next.bytes, header: next.header(), to: .shop, by: bob)
        await #expect(throws: RelayLogError.self) {
            try await relays[1].push(next.bytes, header: next.header(), to: .shop, by: .token(old.id))
        }
        for log in relays { await log.close() }
    }

    @Test func `a replica that one relay only ever refused is whose it became at another`() async throws {
        let relays = try (0..<2).map { _ in try TestStorage.log(directory.path) }
        let lineage = try await relays[0].createSpace(.shop).lineage
        var (stranger, replica) = (TestReplica(1), TestReplica(2))
        try await push(&stranger, relays[0], lineage, by: .token(9))
        let stale = replica.batch(lineage, base: .zero, .writing(1))
        let refused = try await relays[1].push(stale.bytes, header: stale.header(), to: .shop, by: .token(1))
        #expect(refused.outcome == .stale(at: Position(1)))
        let batch = replica.batch(lineage, base: Position(1), .writing(1))
        #expect(try await relays[0].push(batch.bytes, header: batch.header(), to: .shop, by: .token(1)).outcome == .accepted)
        replica.accept(batch)
        _ = try await relays[0].tokens.create(scope: .write)
        let next = replica.batch(lineage, base: Position(2), .writing(7))
        for log in relays {
            await #expect(throws: RelayLogError.self) { try await log.push(next.bytes, header: next.header(), to: .shop, by: .token(2)) }
        }
        // And what it has there is found again beyond its newest transaction.
        #expect(try await relays[1].push(next.bytes, header: next.header(), to: .shop, by: .token(1)).positions == [Position(3)])
        #expect(try await relays[1].push(batch.bytes, header: batch.header(), to: .shop, by: .token(1)).positions == [Position(2)])
        #expect(try await relays[0].replicas(of: .shop).map(\.owner) == ["token 9", "token 1"])
        for log in relays { await log.close() }
    }

    @Test func `a database of the version before is taken over`() async throws {
        var log = try TestStorage.log(directory.path)
        let lineage = try await log.createSpace(.shop).lineage
        var replica = TestReplica(1)
        let batch = replica.batch(lineage, base: .zero, .writing(1))
        _ = try await log.push(batch)
        replica.accept(batch)
        try await log.database.storage.write { db in
            try db.execute("ALTER TABLE annals_spaces DROP COLUMN owner_changes", [])
            try db.execute("ALTER TABLE annals_replicas DROP COLUMN owner", [])
            try db.execute("ALTER TABLE annals_tokens DROP COLUMN holder", [])
            try db.execute("ALTER TABLE annals_replicas DROP COLUMN sighted_by", [])
            try db.execute("ALTER TABLE annals_replicas DROP COLUMN holds", [])
            try db.execute("ALTER TABLE annals_spaces DROP COLUMN creator", [])
            try db.execute("DROP TABLE annals_reports", [])
            try db.execute("DROP TABLE annals_snapshot_checks", [])
            try db.execute("ALTER TABLE annals_snapshots DROP COLUMN owner", [])
            try db.execute("DROP TABLE annals_quarantines", [])
            try db.execute("UPDATE annals_relay SET version = 2", [])
        }
        await log.close()
        log = try TestStorage.log(directory.path)
        try await push(&replica, log, lineage, by: .token(1))
        #expect(try await log.replicas(of: .shop).map(\.owner) == ["token 1"])
        await log.close()
    }
}
