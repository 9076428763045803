import AnnalsCore
import AnnalsWire
import RelayTestSupport
import Testing

@testable import RelayLog

/// Voiding entries in the relay's log, also by a process beside a serving relay.
@Suite struct VoidTests {
    let directory: TemporaryDirectory
    let clock = TestClock()
    let log: RelayLog
    let lineage: Lineage

    init() async throws {
        directory = try TemporaryDirectory()
        log = try TestStorage.log(directory.path, clock: clock.clock)
        lineage = try await log.createSpace(.shop).lineage
    }

    private func push(_ replica: inout TestReplica, _ footprints: Footprint...) async throws -> TestBatch {
        let batch = replica.batch(lineage, base: try await log.describe(.shop).head, footprints: footprints)
        #expect(try await log.push(batch).outcome == .accepted)
        replica.accept(batch)
        return batch
    }

    @Test func `what a batch brought is voided as a whole, and everything else stays as it was`() async throws {
        var (one, two) = (TestReplica(1), TestReplica(2))
        _ = try await push(&one, .writing(1))
        let voided = try await push(&two, .writing(2), .writing(3))
        _ = try await push(&one, .writing(4))
        let digests = try await log.reading { try RunningDigests.at(Position(4), of: 1, in: $0) }
        clock.advance(milliseconds: 500)
        // It acknowledges the voided entries, and this is stored after a second.
        #expect(try await log.retire(one.id, of: .shop))
        // Beside the relay, like the operator's command.
        let beside = try TestStorage.database(directory.path)
        let outcome = try await beside.void(Position(3), of: .shop, withLater: false, now: clock.now)
        try beside.close()
        #expect(outcome.voided == [Position(2), Position(3)] && outcome.author == two.id && outcome.entry == Position(5))
        #expect(try await log.reading { try RunningDigests.at(Position(4), of: 1, in: $0) } == digests)

        let page = try await log.pull(from: .shop, after: .zero)
        let headers = try page.frames.map { try BatchHeader.parse($0.batch) }
        #expect(headers.map(\.isVoided) == [false, true, false, false])
        #expect(headers[1].certificates.map(\.digest) == voided.transactions.map(\.digest))
        var body = try Batch.open(page.frames[3].batch).body(0)
        let said = zip(outcome.voided, voided.transactions).map { VoidedEntry(position: $0, digest: $1.digest) }
        #expect(try body.rest().voids == said && headers[3].replica == .relay)
        #expect(page.frames[3].receivedAt == clock.now && page.head == Position(5))
        // The log continues after the void. A push that has not seen it is stale, and a repeated push of the voided batch is recognized.
        let late = one.batch(lineage, base: Position(4), .writing(9))
        #expect(try await log.push(late).outcome == .stale(at: Position(5)))
        #expect(try await log.push(voided).positions == outcome.voided)
        _ = try await push(&two, .writing(2))
        #expect(try await log.describe(.shop).head == Position(6))
        #expect(try await log.replicas(of: .shop).allSatisfy { $0.replica != .relay })
        await #expect(throws: VoidRefusal.isVoided) { try await log.void(Position(2), of: .shop, withLater: false) }
        await #expect(throws: VoidRefusal.cannotBeVoided) { try await log.void(Position(5), of: .shop, withLater: false) }
        // The next void comes directly after it.
        #expect(try await log.void(Position(6), of: .shop, withLater: false).entry == Position(7))
        await log.close()
    }

    @Test func `refused where it was taken in, and for what does not exist`() async throws {
        var (one, two) = (TestReplica(1), TestReplica(2))
        _ = try await push(&one, .writing(1))
        _ = try await push(&one, .writing(2))
        await #expect(throws: VoidRefusal.noSuchPosition(head: Position(2), horizon: .zero)) {
            try await log.void(Position(3), of: .shop, withLater: false)
        }
        log.note(two.id, named: "two", at: Position(2), in: .shop)
        await #expect(throws: VoidRefusal.self) { try await log.void(Position(2), of: .shop, withLater: false) }
        #expect(try await log.retire(two.id, of: .shop))
        #expect(try await log.void(Position(2), of: .shop, withLater: false).voided == [Position(2)])
        await #expect(throws: RelayLogError.self) { try await log.void(Position(2), of: .other, withLater: false) }
        two.accept(two.batch(lineage, base: .zero, .writing(1)))
        await log.close()
    }

    @Test func `nobody pushes as the relay, and nobody pushes what is voided`() async throws {
        var one = TestReplica(1)
        let batch = one.batch(lineage, base: .zero, .writing(1))
        let voided = try Voiding.voided(batch.bytes)
        await #expect(throws: RelayLogError.self) { try await log.push(voided, header: BatchHeader.parse(voided), to: .shop) }
        var asRelay = batch
        asRelay.key = nil
        await #expect(throws: RelayLogError.self) { try await log.push(asRelay) }
        #expect(try await log.describe(.shop).head == .zero)
        await log.close()
    }

    @Test func `nobody pushes in another replica's name, or what another log is said to hold`() async throws {
        var one = TestReplica(1)
        let batch = try await push(&one, .writing(1))
        var forged = one.batch(lineage, base: Position(1), .writing(2)).bytes
        let header = try BatchHeader.parse(forged)
        forged[header.signature.lowerBound] ^= 1
        forged = Array(forged.dropLast(8)) + Digest.sha256(forged.dropLast(8)).bytes.prefix(8)
        await #expect { _ = try await log.push(forged, header: BatchHeader.parse(forged), to: .shop) } throws: {
            if case .badSignature? = $0 as? RelayLogError { true } else { false }
        }
        var other = one.batch(lineage, base: Position(1), .writing(2))
        for seen in [SeenLog(position: Position(1), digest: .test(7)), SeenLog(position: Position(2), digest: .test(7))] {
            other.seen = seen
            await #expect { try await log.push(other) } throws: {
                if case .logRolledBack? = $0 as? RelayLogError { true } else { false }
            }
        }
        other.seen = SeenLog(position: Position(1), digest: Digest.zero.following(batch.transactions[0].digest))
        #expect(try await log.push(other).outcome == .accepted)
        await log.close()
    }

    @Test func `a snapshot that may hold it goes, and one of before is taken no more`() async throws {
        var one = TestReplica(1)
        _ = try await push(&one, .writing(1))
        _ = try await push(&one, .writing(2))
        for position in [1, 2] as [Int64] {
            let upload = try await log.snapshots.begin(.shop, position: Position(position))
            try await upload.complete(Array("rows at \(position)".utf8))
        }
        #expect(try await log.void(Position(2), of: .shop, withLater: false).snapshots == [Position(2)])
        #expect(try await log.snapshots.open(.shop).record.position == Position(1))
        await #expect(throws: RelayLogError.self) { _ = try await log.snapshots.begin(.shop, position: Position(2)) }
        let upload = try await log.snapshots.begin(.shop, position: Position(3))
        try await upload.complete([1])
        await log.close()
    }

    @Test func `what another wrote on top of it goes with it, or it is refused`() async throws {
        var (one, two, three) = (TestReplica(1), TestReplica(2), TestReplica(3))
        _ = try await push(&one, .writing(1))
        let blind = three.batch(lineage, base: Position(1), .writing(3))
        _ = try await push(&one, .writing(2), .writing(5))
        #expect(try await log.push(blind).outcome == .accepted)
        three.accept(blind)
        // It has acknowledged position 3, and conflicts with it. Its next entry does not conflict.
        _ = try await push(&two, .writing(5), .writing(6))
        _ = try await push(&two, .writing(7))
        clock.advance(milliseconds: 1)
        for replica in [two, three] { #expect(try await log.retire(replica.id, of: .shop)) }
        await #expect(throws: VoidRefusal.isBuiltUpon(at: Position(5))) { try await log.void(Position(2), of: .shop, withLater: false) }
        let outcome = try await log.void(Position(2), of: .shop, withLater: true)
        #expect(outcome.voided == [2, 3, 5, 6].map { Position($0) })
        #expect(outcome.author == one.id && outcome.others == [two.id])
        await log.close()
    }

    @Test func `the relay's own entries count as growth, and the relay as no replica`() async throws {
        var one = TestReplica(1)
        _ = try await push(&one, .writing(1))
        _ = try await push(&one, .writing(2))
        let before = try #require(try await log.summaries(limit: 1).spaces.first)
        let outcome = try await log.void(Position(2), of: .shop, withLater: false)
        let summary = try #require(try await log.summaries(limit: 1).spaces.first)
        let entry = try #require(try await log.pushes(of: .shop, limit: 1).first)
        #expect(summary.replicas == 1 && entry.position == outcome.entry)
        #expect(summary.days[0].positions == 3 && summary.days[0].bytes == before.days[0].bytes + entry.bytes)
        let usage = try await log.usage(spaces: 5, replicas: 5, silence: 1000)
        #expect(usage.replicaCount == 1 && usage.replicas.map(\.replica) == [one.id])
        // The number of written bytes only grows. The number of stored bytes is separate.
        #expect(usage.spaces[0].writtenBytes == before.logBytes + entry.bytes)
        let kept = try await log.pull(from: .shop, after: .zero).frames.reduce(Int64(0)) { $0 + Int64($1.batch.count) }
        #expect(summary.logBytes == kept)
        await log.close()
    }

    @Test func `a void leaves a line, and so does one that is refused`() async throws {
        var one = TestReplica(1)
        _ = try await push(&one, .writing(1))
        _ = try await push(&one, .writing(2))
        for position in [7, 2, 2] as [Int64] {
            _ = try? await log.database.void(Position(position), of: .shop, withLater: false, now: clock.now, by: .commandLine(user: "ann"))
        }
        let lines = try await log.audit(limit: 9).reversed()
        #expect(lines.map(\.action) == ["entry-void", "entry-void", "entry-void"] && lines.allSatisfy { $0.actor == "cli (ann)" })
        #expect(lines.map(\.subject) == ["7", "2 by \(one.id)", "2"])
        #expect(lines.map(\.outcome) == ["no such position", "done", "already void"])
        await log.close()
    }

    @Test func `a snapshot that went with a void does not count when the next is due`() async throws {
        var limits = RelayLogLimits()
        limits.snapshotLogPositions = 2
        let directory = try TemporaryDirectory()
        let log = try TestStorage.log(directory.path, limits: limits, clock: clock.clock)
        let lineage = try await log.createSpace(.shop).lineage
        var one = TestReplica(1)
        for position in [1, 2] as [Int64] {
            let batch = one.batch(lineage, base: Position(position - 1), .writing(1))
            _ = try await log.push(batch)
            one.accept(batch)
            let upload = try await log.snapshots.begin(.shop, position: Position(position))
            try await upload.complete([UInt8(position)])
        }
        #expect(try await log.void(Position(2), of: .shop, withLater: false).snapshots == [Position(2)])
        let seen = LogMark(lineage: lineage, position: Position(3), replica: one.id)
        #expect(try await log.pull(from: .shop, after: Position(3), seen: seen).isSnapshotDue)
        await log.close()
    }

    @Test func `other replicas of the author's owner do not keep what another owner reported, and those of any other owner do`()
        async throws
    {
        let (ann, bob) = (ReplicaOwner.subject("ann", issuer: "i"), ReplicaOwner.token(2))
        var (one, sister, other) = (TestReplica(1), TestReplica(2), TestReplica(3))
        for _ in 1...2 { try await push(&one, by: ann) }
        // A replica that pushed before, and one that was only named with ann's credential. Both acknowledge everything.
        try await push(&sister, by: ann, .writing(9))
        log.note(sister.id, named: "sister", at: Position(3), in: .shop, by: ann)
        log.note(TestReplica(4).id, named: "seen", at: Position(3), in: .shop, by: ann)
        // They may have applied it, as long as no other owner reports it.
        #expect(try await keepers().sorted() == ["seen", "sister"])
        try await report(by: ann)
        #expect(try await keepers().sorted() == ["seen", "sister"])
        try await report(by: bob)
        // A replica of another owner counts, if it was only named and if it pushed after the entry. So does one without an owner.
        log.note(TestReplica(5).id, named: "other", at: Position(2), in: .shop, by: bob)
        #expect(try await keepers() == ["other"])
        clock.advance(milliseconds: 1)
        #expect(try await log.retire(TestReplica(5).id, of: .shop))
        try await push(&other, by: bob, .writing(8))
        #expect(try await keepers() == [""])
        clock.advance(milliseconds: 1)
        #expect(try await log.retire(other.id, of: .shop))
        log.note(TestReplica(6).id, named: "nobody's", at: Position(2), in: .shop)
        #expect(try await keepers() == ["nobody's"])
        clock.advance(milliseconds: 1)
        #expect(try await log.retire(TestReplica(6).id, of: .shop))
        #expect(try await log.void(Position(2), of: .shop, withLater: false).voided == [Position(2)])
        await log.close()
    }

    @Test func `what another replica of the author's owner wrote on top goes only where that is asked for`() async throws {
        let ann = ReplicaOwner.token(1)
        var (one, sister) = (TestReplica(1), TestReplica(2))
        for _ in 1...2 { try await push(&one, by: ann) }
        try await push(&sister, by: ann)
        try await report(by: .token(2))
        await #expect(throws: VoidRefusal.isBuiltUpon(at: Position(3))) { try await log.void(Position(2), of: .shop, withLater: false) }
        let outcome = try await log.void(Position(2), of: .shop, withLater: true)
        #expect(outcome.voided == [Position(2), Position(3)] && outcome.others == [sister.id])
        await log.close()
    }

    @Test func `where the author is nobody's, all other replicas keep its entry`() async throws {
        let ann = ReplicaOwner.token(1)
        var one = TestReplica(1)
        for _ in 1...2 { try await push(&one, by: ann) }
        try await report(by: .token(2))
        log.note(TestReplica(4).id, named: "seen", at: Position(2), in: .shop, by: ann)
        log.note(TestReplica(5).id, named: "nobody's", at: Position(2), in: .shop)
        #expect(try await keepers() == ["nobody's"])
        #expect(try await log.release(one.id, of: .shop))
        #expect(try await keepers().sorted() == ["nobody's", "seen"])
        await log.close()
    }

    /// Pushes the replica's next entry after the head.
    private func push(_ replica: inout TestReplica, by owner: ReplicaOwner, _ footprint: Footprint = .writing(1)) async throws {
        let batch = replica.batch(lineage, base: try await log.describe(.shop).head, footprint)
        #expect(try await log.push(batch.bytes, header: batch.header(), to: .shop, by: owner).outcome == .accepted)
        replica.accept(batch)
    }

    /// Reports that the entry at position 2 cannot be applied.
    private func report(by owner: ReplicaOwner) async throws {
        let frame = try #require(try await log.pull(from: .shop, after: Position(1), byteLimit: .max).frames.first)
        let digest = try BatchHeader.parse(frame.batch).certificates[0].digest
        let report = EntryReport(position: Position(2), digest: digest, rule: .check)
        #expect(try await log.report(report, of: .shop, by: owner, as: .anyone) == .recorded)
    }

    /// The names of the replicas that prevent a void of the entry at position 2.
    private func keepers() async throws -> [String] {
        do {
            _ = try await log.void(Position(2), of: .shop, withLater: true)
        } catch VoidRefusal.isTakenIn(let replicas) {
            return replicas.map(\.name)
        }
        Issue.record("it is void")
        return []
    }
}
