import AnnalsCore
import AnnalsWire
import RelayTestSupport
import Testing

@testable import RelayLog

/// With `auto-void: 2` a relay voids entries that two owners other than the author's cannot apply, and nothing else.
@Suite(.timeLimit(.minutes(20))) struct AutomaticVoidTests {
    let directory: TemporaryDirectory
    let clock = TestClock()

    private static let author = ReplicaOwner.subject("author", issuer: "i")
    private static let ann = ReplicaOwner.subject("ann", issuer: "i")
    private static let bob = ReplicaOwner.subject("bob", issuer: "i")
    private static let carl = ReplicaOwner.subject("carl", issuer: "i")

    init() throws {
        directory = try TemporaryDirectory()
    }

    /// A space with its first entry, and a bad entry of the author at position 2.
    private struct SpaceToVoid {
        let log: RelayLog
        let lineage: Lineage
        var author = TestReplica(1)
        var bad = Digest.zero

        /// Appends an entry of the author after the head.
        mutating func push(by owner: ReplicaOwner?, _ footprint: Footprint = .writing(1)) async throws {
            let batch = author.batch(lineage, base: try await log.describe(.shop).head, footprint)
            #expect(try await log.push(batch.bytes, header: batch.header(), to: .shop, by: owner).outcome == .accepted)
            author.accept(batch)
            bad = batch.transactions[0].digest
        }

        /// Reports the author's newest bad entry, at position 2 if no other is given.
        @discardableResult
        func report(_ owner: ReplicaOwner?, _ rule: RefusedEntry.Rule = .check, at position: Int64 = 2) async throws -> ReportOutcome {
            try await log.report(
                EntryReport(position: Position(position), digest: bad, rule: rule), of: .shop, by: owner, as: .anyone)
        }

        var voided: [Int64] {
            get async throws {
                try await log.pull(from: .shop, after: .zero, byteLimit: .max).frames
                    .filter { try BatchHeader.parse($0.batch).isVoided }.map(\.firstPosition.rawValue)
            }
        }
    }

    private func world(autoVoid: Int = 2, by owner: ReplicaOwner? = author) async throws -> SpaceToVoid {
        let log = try TestStorage.log(directory.path, autoVoid: autoVoid, clock: clock.clock)
        var world = SpaceToVoid(log: log, lineage: try await log.createSpace(.shop).lineage)
        for _ in 1...2 { try await world.push(by: owner) }
        return world
    }

    @Test func `the report of the second owner voids it, once, and the audit log names both`() async throws {
        let world = try await world()
        #expect(try await world.report(Self.ann) == .recorded)
        #expect(try await world.voided == [])
        #expect(try await world.report(Self.bob) == .recorded)
        #expect(try await world.voided == [2])
        #expect(try await world.log.describe(.shop).head == Position(3))
        // A further report does nothing: the entry is void.
        #expect(try await world.report(Self.carl) == .noSuchEntry)
        #expect(try await world.log.describe(.shop).head == Position(3))
        let lines = try await world.log.audit(of: .shop, limit: 9).filter { $0.action == "entry-void" }
        #expect(lines.map(\.actor) == ["automatic"] && lines.map(\.outcome) == ["done"])
        #expect(lines.first?.subject == "2 by \(world.author.id), reported by subject ann, subject bob")
        await world.log.close()
    }

    @Test func `who waits at the relay hears of it at once`() async throws {
        let world = try await world()
        async let waited = world.log.head(of: .shop, after: Position(2), known: Position(2), wait: .seconds(900))
        while world.log.waiterCount == 0 { await Task.yield() }
        for owner in [Self.ann, Self.bob] { try await world.report(owner) }
        #expect(try await waited == Position(3))
        await world.log.close()
    }

    @Test func `where it is off any number of reports voids nothing`() async throws {
        let world = try await world(autoVoid: 0)
        for owner in [Self.ann, Self.bob, Self.carl] { #expect(try await world.report(owner) == .recorded) }
        #expect(try await world.voided == [])
        await world.log.close()
    }

    @Test func `one owner counts once, however many replicas it has, and the author's reports do not count`() async throws {
        let world = try await world()
        for _ in 1...3 { try await world.report(Self.ann) }
        #expect(try await world.report(Self.author) == .recorded)
        #expect(try await world.voided == [])
        try await world.report(Self.bob)
        #expect(try await world.voided == [2])
        await world.log.close()
    }

    @Test func `a token and those that renew it count once, and one that was revoked does not count`() async throws {
        let world = try await world()
        let (_, token) = try await world.log.tokens.create(space: .shop, scope: .write)
        let (_, revoked) = try await world.log.tokens.create(space: .shop, scope: .write)
        let (_, renewed) = try #require(try await world.log.tokens.renew(token.id))
        // The holders, as in requests with either token.
        for holder in [token.id, try #require(renewed.holder)] { try await world.report(.token(holder)) }
        #expect(try await world.voided == [])
        _ = try await world.log.tokens.revoke(revoked.id)
        try await world.report(.token(revoked.id))
        #expect(try await world.voided == [])
        try await world.report(Self.ann)
        #expect(try await world.voided == [2])
        await world.log.close()
    }

    @Test func `a missing key says nothing of the entry, and a later report by another rule does`() async throws {
        let world = try await world()
        try await world.report(Self.ann)
        #expect(try await world.report(Self.bob, .missingKey) == .recorded)
        #expect(try await world.report(Self.carl, .missingKey) == .recorded)
        #expect(try await world.voided == [])
        #expect(try await world.report(Self.bob, .missingKey) == .known)
        #expect(try await world.report(Self.bob, .badSeal) == .recorded)
        #expect(try await world.voided == [2])
        await world.log.close()
    }

    @Test func `a later report by another rule that takes the place of one for a missing key is one report still`() async throws {
        let world = try await world(autoVoid: 0)
        #expect(try await world.report(Self.ann, .missingKey) == .recorded)
        #expect(try await world.report(Self.ann, .check) == .recorded)
        #expect(try await world.report(Self.ann, .unique) == .known)
        let entries = try await world.log.reports(of: .shop, limit: 9)
        #expect(entries.map(\.rule) == ["CHECK"] && entries.map(\.reporters.count) == [1])
        await world.log.close()
    }

    @Test func `a quarantined owner's report does not count`() async throws {
        let world = try await world()
        _ = try await world.log.database.quarantine(Self.ann.text, of: .shop, now: clock.now)
        for owner in [Self.ann, Self.bob] { try await world.report(owner) }
        #expect(try await world.voided == [])
        try await world.report(Self.carl)
        #expect(try await world.voided == [2])
        await world.log.close()
    }

    @Test func `what another is beyond is not voided by any number, until that replica is retired`() async throws {
        let world = try await world()
        world.log.note(TestReplica(7).id, named: "dora", at: Position(2), in: .shop, by: .subject("dora", issuer: "i"))
        for owner in [Self.ann, Self.bob, Self.carl] { try await world.report(owner) }
        #expect(try await world.voided == [])
        #expect(try await world.log.audit(of: .shop, limit: 9).allSatisfy { $0.action == "entry-report" })
        clock.advance(milliseconds: 1)
        #expect(try await world.log.retire(TestReplica(7).id, of: .shop))
        #expect(try await world.report(Self.ann) == .known)
        #expect(try await world.voided == [2])
        await world.log.close()
    }

    @Test func `the author's other replicas do not keep it, also those that never pushed`() async throws {
        var world = try await world()
        world.log.note(TestReplica(7).id, named: "second", at: Position(2), in: .shop, by: Self.author)
        // Another replica of the author wrote after it. Its entry is voided too.
        let bad = world.bad
        var second = TestReplica(8)
        let later = second.batch(world.lineage, base: Position(2), .writing(1))
        #expect(try await world.log.push(later.bytes, header: later.header(), to: .shop, by: Self.author).outcome == .accepted)
        second.accept(later)
        try await world.push(by: Self.author, .writing(1))
        world.bad = bad
        for owner in [Self.ann, Self.bob] { try await world.report(owner) }
        #expect(try await world.voided == [2, 3, 4])
        await world.log.close()
    }

    @Test func `what another owner wrote on top of it is left to the operator`() async throws {
        let world = try await world()
        var other = TestReplica(7)
        let later = other.batch(world.lineage, base: Position(2), .writing(1))
        #expect(try await world.log.push(later.bytes, header: later.header(), to: .shop, by: Self.carl).outcome == .accepted)
        other.accept(later)
        clock.advance(milliseconds: 1)
        #expect(try await world.log.retire(other.id, of: .shop))
        for owner in [Self.ann, Self.bob] { try await world.report(owner) }
        #expect(try await world.voided == [])
        #expect(try await world.log.void(Position(2), of: .shop, withLater: true).voided == [Position(2), Position(3)])
        await world.log.close()
    }

    @Test func `nothing is voided of a replica that is nobody's, or on the word of everybody`() async throws {
        var world = try await world(autoVoid: 1, by: nil)
        try await world.report(Self.ann)
        #expect(try await world.voided == [])
        try await world.push(by: Self.author)
        try await world.report(nil, at: 3)
        #expect(try await world.voided == [])
        try await world.report(Self.ann, at: 3)
        #expect(try await world.voided == [3])
        await world.log.close()
    }
}
