import AnnalsCore
import AnnalsWire
import RelayTestSupport
import Testing

@testable import RelayLog

/// Receivers report entries that they cannot apply, and the operator voids many of them with one call.
@Suite struct ReportTests {
    let directory: TemporaryDirectory
    let clock = TestClock()
    let log: RelayLog
    let lineage: Lineage

    init() async throws {
        directory = try TemporaryDirectory()
        var limits = RelayLogLimits()
        (limits.reportsPerSpace, limits.reportsPerOwner) = (4, 2)
        log = try TestStorage.log(directory.path, limits: limits, clock: clock.clock)
        lineage = try await log.createSpace(.shop).lineage
    }

    /// Pushes entries in batches of their own that do not conflict. Returns their digests.
    private func push(_ replica: inout TestReplica, count: Int, base: Position? = nil) async throws -> [Digest] {
        var digests: [Digest] = []
        for _ in 0..<count {
            let head = try await log.describe(.shop).head
            let batch = replica.batch(lineage, base: base ?? head, .writing(UInt64(head.rawValue) + 1))
            #expect(try await log.push(batch).outcome == .accepted)
            replica.accept(batch)
            digests += batch.transactions.map(\.digest)
        }
        return digests
    }

    private func report(_ position: Int64, _ digest: Digest, by owner: Int64?, table: String? = "book") async throws -> ReportOutcome {
        let report = EntryReport(position: Position(position), digest: digest, rule: .check, table: table)
        return try await log.report(report, of: .shop, by: owner.map { .token($0) }, as: owner.map { .token($0) } ?? .anyone)
    }

    @Test func `an owner's report counts once, and only of an entry that the log holds`() async throws {
        var one = TestReplica(1)
        let digests = try await push(&one, count: 3)
        #expect(try await report(2, digests[1], by: 7) == .recorded)
        #expect(try await report(2, digests[1], by: 7) == .known)
        #expect(try await report(2, digests[1], by: 8) == .recorded)
        #expect(try await report(3, digests[1], by: 7) == .noSuchEntry)
        #expect(try await report(9, digests[1], by: 7) == .noSuchEntry)
        #expect(try await report(0, digests[1], by: 7) == .noSuchEntry)
        let entries = try await log.reports(of: .shop, limit: 10)
        #expect(entries.map(\.position) == [Position(2)] && entries[0].author == one.id && entries[0].rule == "CHECK")
        #expect(entries[0].table == "book" && entries[0].reporters == ["token 7", "token 8"])
        let lines = try await log.audit(of: .shop, limit: 10)
        #expect(lines.map(\.action) == ["entry-report", "entry-report"] && lines[0].subject.hasPrefix("2 by \(one.id): CHECK"))
        #expect(try await log.usage(spaces: 9, replicas: 9, silence: 1_000).spaces[0].reportedEntries == 1)
        await log.close()
    }

    @Test func `reports are bounded for an owner and for the space`() async throws {
        var one = TestReplica(1)
        let digests = try await push(&one, count: 6)
        for position in 2...3 { #expect(try await report(Int64(position), digests[position - 1], by: 7) == .recorded) }
        #expect(try await report(4, digests[3], by: 7) == .full)
        for position in 4...5 { #expect(try await report(Int64(position), digests[position - 1], by: 8) == .recorded) }
        #expect(try await report(6, digests[5], by: 9) == .full)
        // A void makes room for another report.
        _ = try await log.void(Position(5), of: .shop, withLater: false)
        #expect(try await report(6, digests[5], by: 9) == .recorded)
        #expect(try await report(5, digests[4], by: 9) == .noSuchEntry)
        await log.close()
    }

    @Test func `what is reported is voided with one call, and is reported no longer`() async throws {
        var one = TestReplica(1)
        let digests = try await push(&one, count: 5)
        for position in [2, 4] { #expect(try await report(Int64(position), digests[position - 1], by: 7) == .recorded) }
        let beside = try TestStorage.database(directory.path)
        let outcome = try await beside.void(.reported, of: .shop, withLater: false, now: clock.now, by: .commandLine(user: "ann"))
        #expect(outcome.voided.flatMap(\.voided) == [Position(4), Position(2)] && outcome.refused.isEmpty)
        #expect(try await log.reports(of: .shop, limit: 10).isEmpty)
        #expect(try await beside.void(.reported, of: .shop, withLater: false, now: clock.now).voided.isEmpty)
        #expect(try await log.audit(of: .shop, limit: 10).count { $0.action == "entry-void" } == 2)
        try beside.close()
        await log.close()
    }

    @Test func `200 entries of an author are voided with one call, and those of others stay`() async throws {
        var (one, two) = (TestReplica(1), TestReplica(2))
        _ = try await push(&one, count: 2)
        _ = try await push(&two, count: 100)
        // Its base is before the entries of the other replica.
        _ = try await push(&one, count: 1, base: Position(2))
        _ = try await push(&two, count: 101)
        let database = log.database
        let outcome = try await database.void(.author(two.id, from: Position(4)), of: .shop, withLater: false, now: clock.now)
        #expect(outcome.voided.count == 200 && outcome.refused.isEmpty)
        let page = try await log.pull(from: .shop, after: .zero, byteLimit: .max)
        let voided = try page.frames.filter { try BatchHeader.parse($0.batch).isVoided }.map(\.firstPosition.rawValue)
        #expect(voided == Array(4...102) + Array(104...204))
        await log.close()
    }

    @Test func `a range is voided from its newest entry on, and what is refused keeps no other`() async throws {
        var (one, two) = (TestReplica(1), TestReplica(2))
        _ = try await push(&one, count: 2)
        for _ in 0..<3 {
            // Each entry conflicts with the one before it.
            let batch = two.batch(lineage, base: Position(1), .writing(1_000))
            #expect(try await log.push(batch).outcome == .accepted)
            two.accept(batch)
        }
        let database = log.database
        let part = try await database.void(.range(Position(1)...Position(4)), of: .shop, withLater: false, now: clock.now)
        #expect(part.voided.flatMap(\.voided) == [Position(2)])
        #expect(part.refused.map(\.position) == [Position(4), Position(3), Position(1)])
        #expect(part.refused[0].refusal == .isBuiltUpon(at: Position(5)) && part.refused[2].refusal == .cannotBeVoided)
        let all = try await database.void(.range(Position(3)...Position(99)), of: .shop, withLater: false, now: clock.now)
        #expect(all.voided.flatMap(\.voided) == [Position(5), Position(4), Position(3)] && all.refused.isEmpty)
        await log.close()
    }
}
