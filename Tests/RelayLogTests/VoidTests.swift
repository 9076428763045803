import AnnalsCore
import AnnalsWire
import RelayTestSupport
import Testing

@testable import RelayLog

/// Voiding entries in the relay's log, also beside a relay that serves.
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
        // Beside the relay, as the operator's command does.
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
        // The relay goes on behind it: what did not see it is stale, and its author's push is known.
        let late = one.batch(lineage, base: Position(4), .writing(9))
        #expect(try await log.push(late).outcome == .stale(at: Position(5)))
        #expect(try await log.push(voided).positions == outcome.voided)
        _ = try await push(&two, .writing(2))
        #expect(try await log.describe(.shop).head == Position(6))
        #expect(try await log.replicas(of: .shop).allSatisfy { $0.replica != .relay })
        await #expect(throws: VoidRefusal.isVoided) { try await log.void(Position(2), of: .shop, withLater: false) }
        await #expect(throws: VoidRefusal.cannotBeVoided) { try await log.void(Position(5), of: .shop, withLater: false) }
        // The next void follows upon it.
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
        asRelay.replica = .relay
        await #expect(throws: RelayLogError.self) { try await log.push(asRelay) }
        #expect(try await log.describe(.shop).head == .zero)
        await log.close()
    }

    @Test func `a snapshot that may hold it goes, and one of before is taken no more`() async throws {
        var one = TestReplica(1)
        _ = try await push(&one, .writing(1))
        _ = try await push(&one, .writing(2))
        for position in [1, 2] as [Int64] {
            let upload = try await log.snapshots.begin(.shop, position: Position(position))
            let bytes = Array("rows at \(position)".utf8)
            try await upload.write(bytes)
            _ = try await upload.finish(digest: .sha256(bytes[...]))
        }
        #expect(try await log.void(Position(2), of: .shop, withLater: false).snapshots == [Position(2)])
        #expect(try await log.snapshots.open(.shop).record.position == Position(1))
        await #expect(throws: RelayLogError.self) { _ = try await log.snapshots.begin(.shop, position: Position(2)) }
        let upload = try await log.snapshots.begin(.shop, position: Position(3))
        try await upload.write([1])
        _ = try await upload.finish(digest: .sha256([1]))
        await log.close()
    }
}
