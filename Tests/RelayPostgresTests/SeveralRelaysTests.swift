import AnnalsCore
import AnnalsWire
import Foundation
import RelayTestSupport
import Testing

@testable import RelayLog
@testable import RelayPostgres

/// Any number of relays serve one database: they certify, number and wake as one.
@Suite(.enabled(if: TestStorage.postgres != nil, "of PostgreSQL: Scripts/with-postgres starts one and names it"))
struct SeveralRelaysTests {
    let directory: TemporaryDirectory
    let relays: [RelayLog]
    let lineage: Lineage

    init() async throws {
        let directory = try TemporaryDirectory()
        self.directory = directory
        relays = try (0..<2).map { _ in try TestStorage.log(directory.path) }
        lineage = try await relays[0].createSpace(.shop).lineage
    }

    func close() async {
        for relay in relays { await relay.close() }
    }

    /// Every entry of the log with its position, as a clone would read it.
    func entries(_ log: RelayLog) async throws -> [(position: Position, replica: ReplicaID, counter: Counter, certificate: Certificate)] {
        var entries: [(position: Position, replica: ReplicaID, counter: Counter, certificate: Certificate)] = []
        var after = Position.zero
        while true {
            let page = try await log.pull(from: .shop, after: after, byteLimit: 20_000)
            for frame in page.frames {
                let header = try BatchHeader.parse(frame.batch)
                for offset in 0..<frame.acceptedCount {
                    let number = frame.firstIndex + offset
                    let entry = (
                        frame.firstPosition.advanced(by: offset), header.replica, header.counter(of: number), header.certificates[number]
                    )
                    entries.append(entry)
                }
            }
            after = entries.last?.position ?? after
            if page.isLast { return entries }
        }
    }

    @Test func `disjoint pushes through two relays are all accepted, at positions without gaps`() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...UInt64(8) {
                group.addTask {
                    var replica = TestReplica(number)
                    for push in 0..<30 {
                        let batch = replica.batch(lineage, base: .zero, .writing(number * 1000 + UInt64(push)))
                        let answer = try await relays[push % 2].push(batch)
                        #expect(answer.outcome == .accepted)
                        replica.accept(batch)
                    }
                }
            }
            try await group.waitForAll()
        }
        for relay in relays {
            #expect(try await entries(relay).map(\.position) == (1...240).map { Position($0) })
        }
        await close()
    }

    @Test func `what one relay appended is certified against by the other`() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...UInt64(6) {
                group.addTask {
                    var replica = TestReplica(number)
                    var (base, accepted, push) = (Position.zero, 0, Int(number))
                    while accepted < 10 {
                        let batch = replica.batch(lineage, base: base, .writing(1))
                        push += 1
                        let answer = try await relays[push % 2].push(batch)
                        base = answer.head
                        if answer.outcome == .accepted {
                            replica.accept(batch)
                            accepted += 1
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        let entries = try await entries(relays[0])
        #expect(entries.count == 60)
        // All write one row: each was made on top of the one before, or is the same replica's next.
        for (before, entry) in zip(entries, entries.dropFirst()) {
            #expect(entry.certificate.base >= before.position || entry.replica == before.replica)
        }
        await close()
    }

    @Test func `law 7: a push that is known to one relay is known to the other`() async throws {
        var replica = TestReplica(1)
        let batch = replica.batch(lineage, base: .zero, .writing(1), .writing(2))
        let first = try await relays[0].push(batch)
        let second = try await relays[1].push(batch)
        #expect(first.outcome == .accepted && second.positions == first.positions && second.head == Position(2))
        await close()
    }

    @Test func `parts of a transaction may come through several relays`() async throws {
        var replica = TestReplica(1)
        let parts = replica.parts(lineage, base: .zero, .writing(1), count: 4)
        for (number, part) in parts.enumerated() {
            let answer = try await relays[number % 2].push(part)
            #expect(answer.outcome == .accepted)
            #expect(try await relays[0].describe(.shop).head == (number == 3 ? Position(4) : .zero))
        }
        replica.accept(parts)
        #expect(try await relays[0].push(replica.batch(lineage, base: .zero, .writing(9))).outcome == .accepted)
        await close()
    }

    @Test(.timeLimit(.minutes(20))) func `who waits at one relay is woken by a push to the other`() async throws {
        var replica = TestReplica(1)
        let waiting = Task { try await relays[0].pull(from: .shop, after: .zero, wait: .seconds(50)) }
        while relays[0].waiterCount == 0 { await Task.yield() }
        #expect(try await relays[1].push(replica.batch(lineage, base: .zero, .writing(1))).outcome == .accepted)
        #expect(try await waiting.value.frames.count == 1)
        await close()
    }

    @Test func `a snapshot that came to one relay is served by the other`() async throws {
        var replica = TestReplica(1)
        _ = try await relays[0].push(replica.batch(lineage, base: .zero, .writing(1)))
        let bytes = TestSnapshot.bytes((0..<2_500_000).map { _ in UInt8.random(in: 0 ... .max) })
        let upload = try await relays[0].snapshots.begin(.shop, position: Position(1))
        for start in stride(from: 0, to: bytes.count, by: 300_000) {
            try await upload.write(Array(bytes[start..<min(start + 300_000, bytes.count)]))
        }
        _ = try await upload.finish(digest: .sha256(bytes[...]))
        let file = try await relays[1].snapshots.open(.shop)
        #expect(try await file.read(at: 0, count: 3_000_000) == bytes)
        #expect(try await file.read(at: 1_048_570, count: 20) == Array(bytes[1_048_570..<1_048_590]))
        await close()
    }

    @Test func `what is revoked at one relay ends at the other within a second`() async throws {
        let (secret, record) = try await relays[0].tokens.create(scope: .read)
        guard case .granted = try await relays[1].tokens.verify(secret) else { throw RelayLogError.closing }
        #expect(try await relays[0].tokens.revoke(record.id))
        #expect(try await relays[0].tokens.verify(secret) == .revoked)
        await close()
    }

    @Test func `what is written again, since a connection was lost over its commit, is as if it had been written once`() async throws {
        let database = try TestStorage.database(directory.path)
        let (lineage, other) = (Lineage.random(), Lineage.random())
        for _ in 0..<2 {
            let isNew = try await database.storage.write { try LogStorage.createSpace(.other, lineage: lineage, at: 1, in: $0) }
            #expect(isNew)
        }
        let isOther = try await database.storage.write { try LogStorage.createSpace(.other, lineage: other, at: 2, in: $0) }
        #expect(!isOther)
        #expect(try await relays[0].describe(.other).lineage == lineage)
        try database.close()
        await close()
    }

    @Test func `law 7: connections that are cut at any moment lose nothing and bring nothing twice`() async throws {
        let url = try #require(TestStorage.postgres)
        let cut = { @Sendable in
            let connection = PostgresConnection(url: url)
            let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ?1"
            _ = try connection.rows("SELECT count(*) FROM (\(sql)) AS cut", [TestStorage.schema(of: directory.path)])
        }
        let accepted = try await withThrowingTaskGroup(of: [ReplicaID: Counter].self) { group in
            for number in 1...UInt64(4) {
                group.addTask {
                    var replica = TestReplica(number)
                    var attempts = 0
                    while replica.counter < Counter(25), attempts < 1000 {
                        let batch = replica.batch(lineage, base: .zero, .writing(number * 1000 + UInt64(replica.counter.rawValue)))
                        // The same bytes again until there is an answer, as an agent does.
                        while attempts < 1000 {
                            attempts += 1
                            let relay = relays[attempts % 2]
                            async let answer = relay.push(batch)
                            if attempts % 4 == 0 { try cut() }
                            guard let answer = try? await answer else { continue }
                            #expect(answer.outcome == .accepted)
                            break
                        }
                        replica.accept(batch)
                    }
                    return [replica.id: replica.counter]
                }
            }
            return try await group.reduce(into: [:]) { $0.merge($1) { one, _ in one } }
        }
        #expect(accepted.values.allSatisfy { $0 == Counter(25) })
        let entries = try await entries(relays[0])
        #expect(entries.map(\.position) == (1...100).map { Position($0) })
        for number in 1...UInt64(4) {
            #expect(entries.filter { $0.replica == TestReplica(number).id }.map(\.counter) == (1...25).map { Counter($0) })
        }
        await close()
    }
}
