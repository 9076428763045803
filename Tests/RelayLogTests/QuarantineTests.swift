import AnnalsCore
import AnnalsWire
import RelayTestSupport
import Testing

@testable import RelayLog

/// An owner in quarantine can read and cannot write. Others are not affected.
@Suite(.timeLimit(.minutes(20))) struct QuarantineTests {
    let directory: TemporaryDirectory
    let clock = TestClock()
    let log: RelayLog
    let lineage: Lineage

    private static let ann = ReplicaOwner.subject("ann", issuer: "https://id.example.org")
    private static let bob = ReplicaOwner.token(2)

    init() async throws {
        directory = try TemporaryDirectory()
        log = try TestStorage.log(directory.path, clock: clock.clock)
        lineage = try await log.createSpace(.shop).lineage
    }

    /// Pushes the replica's next transaction after the head. A refused one is not accepted.
    private func push(_ replica: inout TestReplica, by owner: ReplicaOwner?, to space: SpaceName = .shop) async throws {
        let description = try await log.describe(space)
        let batch = replica.batch(description.lineage, base: description.head, .writing(UInt64(description.head.rawValue) + 1))
        #expect(try await send(batch, by: owner, to: space).outcome == .accepted)
        replica.accept(batch)
    }

    private func send(_ batch: TestBatch, by owner: ReplicaOwner?, to space: SpaceName = .shop) async throws -> PushAnswer {
        try await log.push(batch.bytes, header: batch.header(), to: space, by: owner)
    }

    private func expectRefused(_ owner: ReplicaOwner = ann, _ body: () async throws -> Void) async {
        await #expect {
            try await body()
        } throws: { error in
            if case .quarantined(owner.text, .shop)? = error as? RelayLogError { true } else { false }
        }
    }

    /// Like the operator's command, in a process beside the relay.
    private func quarantine(_ owner: ReplicaOwner = ann) async throws {
        let beside = try TestStorage.database(directory.path)
        let quarantine = try await beside.quarantine(owner.text, of: .shop, now: clock.now, by: .commandLine(user: "ann"))
        #expect(quarantine.owner == owner.text)
        try beside.close()
    }

    private func lift(_ owner: ReplicaOwner = ann) async throws -> Bool {
        try await log.database.liftQuarantine(of: owner.text, in: .shop, now: clock.now, by: .commandLine(user: "ann"))
    }

    @Test func `while the relay serves, its pushes are refused until it is lifted, and those of others and elsewhere are not`() async throws
    {
        _ = try await log.createSpace(.other)
        var (one, two, elsewhere) = (TestReplica(1), TestReplica(2), TestReplica(1))
        try await push(&one, by: Self.ann)
        try await quarantine()
        await expectRefused { try await push(&one, by: Self.ann) }
        // Also as a new replica.
        var new = TestReplica(3)
        await expectRefused { try await push(&new, by: Self.ann) }
        try await push(&two, by: Self.bob)
        try await push(&elsewhere, by: Self.ann, to: .other)
        #expect(try await log.pull(from: .shop, after: .zero, by: Self.ann).frames.count == 2)
        #expect(try await lift())
        try await push(&one, by: Self.ann)
        #expect(try await !lift())
        #expect(try await log.describe(.shop).head == Position(3))
        await log.close()
    }

    @Test func `it outlives the process, and a copy of the relay has it too`() async throws {
        var one = TestReplica(1)
        try await push(&one, by: Self.ann)
        try await quarantine()
        await log.close()
        let again = try TestStorage.log(directory.path, clock: clock.clock)
        let batch = one.batch(lineage, base: Position(1), .writing(9))
        await expectRefused { _ = try await again.push(batch.bytes, header: batch.header(), to: .shop, by: Self.ann) }
        await again.close()
        let source = try TestStorage.database(directory.path)
        let target = directory.path + "/copy"
        _ = try RelayCopy.makeFolder(target, from: source)
        try source.close()
        let copy = try RelayLog(database: RelayDatabase(directory: target), clock: clock.clock, logger: .silent)
        await expectRefused { _ = try await copy.push(batch.bytes, header: batch.header(), to: .shop, by: Self.ann) }
        await copy.close()
    }

    @Test func `what the log has already is answered as it was`() async throws {
        var one = TestReplica(1)
        let batch = one.batch(lineage, base: .zero, .writing(1))
        #expect(try await send(batch, by: Self.ann).positions == [Position(1)])
        try await quarantine()
        let again = try await send(batch, by: Self.ann)
        #expect(again.outcome == .accepted && again.positions == [Position(1)])
        #expect(try await log.describe(.shop).head == Position(1))
        await log.close()
    }

    @Test func `the rest of a transaction in parts is refused, and all of it is taken later`() async throws {
        var one = TestReplica(1)
        let parts = one.parts(lineage, base: .zero, .writing(1), count: 2)
        _ = try await send(parts[0], by: Self.ann)
        try await quarantine()
        await expectRefused { _ = try await send(parts[1], by: Self.ann) }
        #expect(try await log.describe(.shop).head == .zero)
        #expect(try await lift())
        for part in parts { #expect(try await send(part, by: Self.ann).outcome == .accepted) }
        #expect(try await log.describe(.shop).head == Position(2))
        await log.close()
    }

    @Test func `no snapshot is taken from it, not even one that is on its way, and none is asked of it`() async throws {
        var limits = RelayLogLimits()
        limits.snapshotLogPositions = 1
        let path = directory.path + "/due"
        let log = try TestStorage.log(path, limits: limits, clock: clock.clock)
        let lineage = try await log.createSpace(.shop).lineage
        var one = TestReplica(1)
        for position in [1, 2] as [Int64] {
            let batch = one.batch(lineage, base: Position(position - 1), .writing(1))
            _ = try await log.push(batch.bytes, header: batch.header(), to: .shop, by: Self.bob)
            one.accept(batch)
            guard position == 1 else { continue }
            let upload = try await log.snapshots.begin(.shop, position: Position(1))
            try await upload.complete([1])
        }
        let bytes = TestSnapshot.bytes([7])
        let (ann, digest) = (Taker(credential: Self.ann, space: .shop), Digest.sha256(bytes[...]))
        let whole = try await log.snapshots.begin(.shop, position: Position(2), by: ann)
        try await whole.write(bytes)
        let parts = try await log.snapshots.uploadInParts(.shop, position: Position(2), digest: digest, by: ann)
        _ = try await log.database.quarantine(Self.ann.text, of: .shop, now: clock.now)
        await expectRefused { _ = try await whole.finish(digest: digest) }
        await expectRefused { _ = try await parts.add(bytes, at: 0, partDigest: nil, of: Int64(bytes.count), digest: digest) }
        await expectRefused { _ = try await log.snapshots.begin(.shop, position: Position(2), by: ann) }
        await expectRefused { _ = try await log.snapshots.uploadInParts(.shop, position: Position(2), digest: digest, by: ann) }
        await expectRefused { _ = try await log.snapshots.progress(.shop, position: Position(2), digest: digest, by: ann) }
        #expect(try await log.snapshots.open(.shop).record.position == Position(1))

        let seen = { LogMark(lineage: lineage, position: Position(2), replica: TestReplica($0).id) }
        #expect(try await !log.pull(from: .shop, after: Position(2), seen: seen(5), by: Self.ann).isSnapshotDue)
        #expect(try await log.pull(from: .shop, after: Position(2), seen: seen(6), by: Self.bob).isSnapshotDue)
        await log.close()
    }

    @Test func `its word about a snapshot does not count, also not an earlier one`() async throws {
        var (one, two) = (TestReplica(1), TestReplica(2))
        try await push(&one, by: Self.bob)
        try await push(&two, by: Self.ann)
        try await push(&one, by: Self.bob)
        let bobs = Taker(credential: Self.bob, space: .shop)
        let upload = try await log.snapshots.begin(.shop, position: Position(3), by: bobs)
        let snapshot = try await upload.complete([7])
        let bad = SnapshotCheck(position: Position(3), digest: snapshot.digest, isGood: false)
        #expect(try await log.check(bad, of: .shop, by: Self.ann) == .recorded(isDispute: true))
        #expect(try await log.snapshots.open(.shop).record.verdict == .refuted)
        try await quarantine()
        await expectRefused { _ = try await log.check(bad, of: .shop, by: Self.ann) }
        #expect(try await log.snapshots.open(.shop).record.verdict == .unchecked)
        log.note(one.id, named: "one", at: Position(3), in: .shop, by: Self.bob)
        var rules = PurgeRules()
        rules.keep = -1
        #expect(try await lift())
        #expect(try await log.snapshots.open(.shop).record.verdict == .refuted)
        #expect(try await log.purge(.shop, rules, commits: false).horizon == .zero)
        try await quarantine()
        // There is no other owner that could confirm it.
        #expect(try await log.purge(.shop, rules, commits: false).horizon == Position(3))
        await log.close()
    }

    @Test func `its replicas hold back neither purges nor voids, and do again when it is lifted`() async throws {
        var (one, two) = (TestReplica(1), TestReplica(2))
        try await push(&one, by: Self.ann)
        for _ in 0..<3 { try await push(&two, by: Self.bob) }
        let upload = try await log.snapshots.begin(.shop, position: Position(2))
        try await upload.complete([1])
        // It has acknowledged position 3. A replica that it never pushed as has acknowledged nothing.
        log.note(one.id, named: "one", at: Position(3), in: .shop, by: Self.ann)
        log.note(TestReplica(3).id, named: "three", at: .zero, in: .shop, by: Self.ann)
        var rules = PurgeRules()
        rules.keep = -1
        #expect(try await log.purge(.shop, rules, commits: false).horizon == .zero)
        await #expect(throws: VoidRefusal.self) { try await log.void(Position(3), of: .shop, withLater: true) }
        try await quarantine()
        let records = try await log.replicas(of: .shop)
        #expect(records.filter { !$0.holdsBack }.map(\.name).sorted() == ["one", "three"])
        #expect(records.allSatisfy { ($0.quarantined == clock.now) != $0.holdsBack })
        #expect(try await log.purge(.shop, rules, commits: false).horizon == Position(2))
        #expect(try await lift())
        await #expect(throws: VoidRefusal.self) { try await log.void(Position(3), of: .shop, withLater: true) }
        try await quarantine()
        #expect(try await log.void(Position(3), of: .shop, withLater: true).voided.first == Position(3))
        await log.close()
    }

    @Test func `it is in the audit log and in what operators see, and goes with its space`() async throws {
        var one = TestReplica(1)
        try await push(&one, by: Self.ann)
        try await quarantine()
        let since = clock.now
        clock.advance(milliseconds: 5)
        // A second quarantine keeps the time of the first one.
        #expect(try await log.database.quarantine(Self.ann.text, of: .shop, now: clock.now, by: .commandLine(user: "ann")).since == since)
        let summary = try #require(try await log.summaries(limit: 1).spaces.first)
        #expect(summary.quarantines == [Quarantine(owner: Self.ann.text, since: since)])
        #expect(try await lift())
        #expect(try await !lift())
        #expect(try await log.database.quarantines(of: .shop).isEmpty)
        let lines = try await log.audit(of: .shop, limit: 9).reversed()
        #expect(lines.map(\.action) == ["owner-quarantine", "owner-quarantine", "owner-lift", "owner-lift"])
        #expect(lines.allSatisfy { $0.subject == "subject ann" && $0.actor == "cli (ann)" })
        #expect(lines.map(\.outcome) == ["done", "already quarantined", "done", "not quarantined"])
        try await quarantine()
        _ = try await log.deleteSpace(.shop)
        #expect(try await log.reading { try $0.integer("SELECT count(*) FROM annals_quarantines", []) } == 0)
        await #expect(throws: RelayLogError.self) { try await quarantine() }
        await log.close()
    }

    @Test func `an operator calls an owner by a token's number, also of one that renews it, or by a subject`() async throws {
        let (_, token) = try await log.tokens.create(space: .shop, scope: .write)
        let (_, renewed) = try #require(try await log.tokens.renew(token.id))
        let (_, elsewhere) = try await log.tokens.create(space: .other, scope: .write)
        var (one, two) = (TestReplica(1), TestReplica(2))
        try await push(&one, by: Self.ann)
        try await push(&two, by: .subject("ann", issuer: "https://other.example.org"))
        var called: [String: [String]] = [:]
        for word in ["\(token.id)", "token \(token.id)", "token \(renewed.id)", "\(elsewhere.id)", "token 99", "subject bob", ""] {
            called[word] = try await log.database.owners(called: word, in: .shop)
        }
        let own = ["token \(token.id)"]
        #expect(called["\(token.id)"] == own && called["token \(token.id)"] == own && called["token \(renewed.id)"] == own)
        #expect(called["\(elsewhere.id)"] == [] && called["token 99"] == [] && called["subject bob"] == [] && called[""] == [])
        #expect(try await log.database.owners(called: "subject ann", in: .shop).count == 2)
        #expect(try await log.database.owners(called: "ann", in: .shop).count == 2)
        #expect(try await log.database.owners(called: "subject ann https://id.example.org", in: .shop) == [Self.ann.text])
        await #expect(throws: RelayLogError.self) { try await log.database.owners(called: "ann", in: .other) }
        await log.close()
    }
}
