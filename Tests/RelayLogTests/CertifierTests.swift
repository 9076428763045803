import AnnalsCore
import AnnalsWire
import RelayTestSupport
import Testing

@testable import RelayLog

/// Merge rules 10, 11 and 13, one case each.
@Suite struct CertifierTests {
    let lineage = Lineage(high: 1, low: 2)
    var limits = RelayLogLimits()

    /// A certifier with its log.
    struct Space {
        var certifier: Certifier
        var log: [ReplicaID: [Counter: Certifier.Accepted]] = [:]
        var now: Int64 = 0

        init(_ lineage: Lineage, limits: RelayLogLimits = RelayLogLimits(), head: Position = .zero) {
            certifier = Certifier(lineage: lineage, head: head, loadedFrom: head, limits: limits)
        }

        mutating func push(_ batch: TestBatch) throws -> Certifier.Verdict {
            let header = try batch.header()
            let log = self.log
            let verdict = certifier.certify(header, now: now) { log[batch.replica]?[$0] }
            for (index, position) in verdict.positions.enumerated() {
                self.log[batch.replica, default: [:]][header.counter(of: index)] = .init(
                    digest: header.certificates[index].digest, position: position)
            }
            return verdict
        }
    }

    @Test func `the first transaction takes position 1`() throws {
        var space = Space(lineage)
        var replica = TestReplica(1)
        let verdict = try space.push(replica.batch(lineage, base: .zero, .writing(1)))
        #expect(verdict.outcome == .accepted)
        #expect(verdict.positions == [Position(1)])
        #expect(space.certifier.head == Position(1))
    }

    @Test func `merge rule 10: another lineage is a rolled back log, before anything else is checked`() throws {
        var space = Space(lineage)
        var replica = TestReplica(1)
        let batch = replica.batch(lineage, base: .zero, .writing(1))
        _ = try space.push(batch)
        var foreign = batch
        foreign.lineage = Lineage(high: 9, low: 9)
        let verdict = try space.push(foreign)
        #expect(verdict.outcome == .logRolledBack)
        #expect(verdict.positions.isEmpty)
    }

    @Test func `merge rule 10: a base beyond the head is a rolled back log`() throws {
        var space = Space(lineage)
        var replica = TestReplica(1)
        #expect(try space.push(replica.batch(lineage, base: Position(1), .writing(1))).outcome == .logRolledBack)
        #expect(space.certifier.head == .zero)
    }

    @Test func `merge rule 10: the same counter with the same digest is answered with its position, whatever came since`() throws {
        var space = Space(lineage)
        var (one, two) = (TestReplica(1), TestReplica(2))
        let batch = one.batch(lineage, base: .zero, .writing(1), .writing(2))
        _ = try space.push(batch)
        _ = try space.push(two.batch(lineage, base: Position(2), .writing(1)))
        let again = try space.push(batch)
        #expect(again.outcome == .accepted)
        #expect(again.known == [Position(1), Position(2)])
        #expect(again.accepted == 0)
        #expect(space.certifier.head == Position(3))
    }

    @Test func `merge rule 10: the same counter with another digest is an identity conflict`() throws {
        var space = Space(lineage)
        var replica = TestReplica(1)
        _ = try space.push(replica.batch(lineage, base: .zero, .writing(1)))
        #expect(try space.push(replica.batch(lineage, base: .zero, .writing(2))).outcome == .identityConflict)
        #expect(space.certifier.head == Position(1))
    }

    @Test func `merge rule 10: a counter whose entry is gone is known by the last digest, and never accepted again`() throws {
        var space = Space(lineage)
        var replica = TestReplica(1)
        var batch = replica.batch(lineage, base: .zero, .writing(1))
        _ = try space.push(batch)
        space.log = [:]
        let again = try space.push(batch)
        #expect(again.outcome == .accepted && again.known == [Position(1)] && again.accepted == 0)
        batch.transactions[0].digest = .test(99)
        #expect(try space.push(batch).outcome == .identityConflict)
        #expect(space.certifier.head == Position(1))
    }

    @Test func `merge rule 10: a counter that leaves one out is a gap`() throws {
        var space = Space(lineage)
        var replica = TestReplica(1)
        let skipped = replica.batch(lineage, base: .zero, .writing(1))
        replica.accept(skipped)
        #expect(try space.push(replica.batch(lineage, base: .zero, .writing(2))).outcome == .gap)
    }

    @Test func `merge rules 10 and 17: a late part built on what was rewritten is a gap`() throws {
        var space = Space(lineage)
        var replica = TestReplica(1)
        let refused = replica.batch(lineage, base: .zero, .writing(1))
        var copy = replica
        copy.accept(refused)
        let late = copy.batch(lineage, base: .zero, .writing(2))
        let rewritten = replica.batch(lineage, base: .zero, .writing(1))
        #expect(try space.push(rewritten).outcome == .accepted)
        let verdict = try space.push(late)
        #expect(verdict.outcome == .gap)
        #expect(verdict.stoppedBase == .zero)
    }

    @Test func `merge rule 10: a base below the footprints kept is stale`() throws {
        var space = Space(lineage, head: Position(10))
        var replica = TestReplica(1)
        #expect(try space.push(replica.batch(lineage, base: Position(9), .writing(1))).outcome == .stale(at: nil))
        #expect(try space.push(replica.batch(lineage, base: Position(10), .writing(1))).outcome == .accepted)
    }

    @Test func `merge rule 10: what both write is stale, with the position that was met`() throws {
        var space = Space(lineage)
        var (one, two) = (TestReplica(1), TestReplica(2))
        let first = one.batch(lineage, base: .zero, .writing(1), .writing(2), .writing(3))
        _ = try space.push(first)
        let verdict = try space.push(two.batch(lineage, base: .zero, .writing(2)))
        #expect(verdict.outcome == .stale(at: Position(2)))
        #expect(verdict.stoppedBase == .zero)
        #expect(try space.push(two.batch(lineage, base: Position(2), .writing(2))).outcome == .accepted)
    }

    @Test func `merge rule 10: what one writes and the other reads meets in both orders, two readers do not`() throws {
        for (first, second, meets) in [
            (Footprint.writing(1), Footprint.writing(2, reading: [1]), true),
            (.writing(2, reading: [1]), .writing(1), true),
            (.writing(2, reading: [1]), .writing(3, reading: [1]), false),
            (.everything, .writing(5), true),
            (.writing(5), .everything, true),
        ] {
            var space = Space(lineage)
            var (one, two) = (TestReplica(1), TestReplica(2))
            #expect(try space.push(one.batch(lineage, base: .zero, first)).outcome == .accepted)
            let outcome = try space.push(two.batch(lineage, base: .zero, second)).outcome
            #expect(outcome == (meets ? .stale(at: Position(1)) : .accepted))
        }
    }

    @Test func `merge rule 10: one's own entries never count against one`() throws {
        var space = Space(lineage)
        var replica = TestReplica(1)
        for _ in 0..<5 {
            let batch = replica.batch(lineage, base: .zero, .writing(1))
            #expect(try space.push(batch).outcome == .accepted)
            replica.accept(batch)
        }
    }

    @Test func `merge rule 11: the longest acceptable prefix goes in, and what follows the first refusal does not`() throws {
        var space = Space(lineage)
        var (one, two) = (TestReplica(1), TestReplica(2))
        _ = try space.push(one.batch(lineage, base: .zero, .writing(7)))
        let verdict = try space.push(two.batch(lineage, base: .zero, .writing(1), .writing(2), .writing(7), .writing(3)))
        #expect(verdict.positions == [Position(2), Position(3)])
        #expect(verdict.outcome == .stale(at: Position(1)))
        #expect(space.certifier.head == Position(3))
    }

    @Test func `known transactions in front of new ones: the new ones are appended after them`() throws {
        var space = Space(lineage)
        var (one, two) = (TestReplica(1), TestReplica(2))
        var batch = one.batch(lineage, base: .zero, .writing(1))
        _ = try space.push(batch)
        _ = try space.push(two.batch(lineage, base: .zero, .writing(2)))
        batch.transactions.append(.init(base: .zero, digest: .test(77), footprint: .writing(3)))
        let verdict = try space.push(batch)
        #expect(verdict.known == [Position(1)])
        #expect(verdict.accepted == 1)
        #expect(verdict.positions == [Position(1), Position(3)])
    }

    @Test func `merge rule 13: after three stale answers in a row the replica has the push lease, and the others wait`() throws {
        var space = Space(lineage, limits: limits)
        var (slow, quick) = (TestReplica(1), TestReplica(2))
        for round in 0..<3 {
            let batch = quick.batch(lineage, base: Position(Int64(round)), .writing(1))
            #expect(try space.push(batch).outcome == .accepted)
            quick.accept(batch)
            let refused = slow.batch(lineage, base: Position(Int64(round)), .writing(1))
            #expect(try space.push(refused).outcome == .stale(at: Position(Int64(round + 1))))
        }
        let held = quick.batch(lineage, base: Position(3), .writing(1))
        #expect(try space.push(held).outcome == .wait(milliseconds: Int(limits.waitHintMilliseconds)))
        let leased = slow.batch(lineage, base: Position(3), .writing(1))
        #expect(try space.push(leased).outcome == .accepted)
        #expect(try space.push(held).outcome == .stale(at: Position(4)))
    }

    /// Gives the push lease to `slow`, at head 1.
    func spaceWithLease(slow: inout TestReplica, quick: inout TestReplica) throws -> Space {
        var space = Space(lineage, limits: limits)
        let first = quick.batch(lineage, base: .zero, .writing(1))
        _ = try space.push(first)
        quick.accept(first)
        for _ in 0..<limits.staleAnswersBeforeLease { _ = try space.push(slow.batch(lineage, base: .zero, .writing(1))) }
        return space
    }

    @Test func `merge rule 13: the push lease ends after two seconds`() throws {
        var (slow, quick) = (TestReplica(1), TestReplica(2))
        var space = try spaceWithLease(slow: &slow, quick: &quick)
        let batch = quick.batch(lineage, base: Position(1), .writing(9))
        space.now = 1990
        #expect(try space.push(batch).outcome == .wait(milliseconds: 10))
        space.now = 2000
        #expect(try space.push(batch).outcome == .accepted)
    }

    @Test func `merge rule 13: the push lease ends with one push, even a stale one`() throws {
        var (slow, quick) = (TestReplica(1), TestReplica(2))
        var space = try spaceWithLease(slow: &slow, quick: &quick)
        #expect(try space.push(slow.batch(lineage, base: .zero, .writing(1))).outcome == .stale(at: Position(1)))
        #expect(try space.push(quick.batch(lineage, base: Position(1), .writing(9))).outcome == .accepted)
    }

    @Test func `merge rule 13: what the log holds is answered during another's push lease`() throws {
        var (slow, quick) = (TestReplica(1), TestReplica(2))
        var space = Space(lineage, limits: limits)
        let first = quick.batch(lineage, base: .zero, .writing(1))
        _ = try space.push(first)
        for _ in 0..<3 { _ = try space.push(slow.batch(lineage, base: .zero, .writing(1))) }
        let again = try space.push(first)
        #expect(again.outcome == .accepted)
        #expect(again.known == [Position(1)])
    }

    @Test func `merge rule 13: a schema change gets the push lease at once`() throws {
        var space = Space(lineage, limits: limits)
        var (schema, quick) = (TestReplica(1), TestReplica(2))
        let first = quick.batch(lineage, base: .zero, .writing(1))
        _ = try space.push(first)
        quick.accept(first)
        #expect(try space.push(schema.batch(lineage, base: .zero, .everything)).outcome == .stale(at: Position(1)))
        #expect(try space.push(quick.batch(lineage, base: Position(1), .writing(9))).outcome == .wait(milliseconds: 50))
        #expect(try space.push(schema.batch(lineage, base: Position(1), .everything)).outcome == .accepted)
    }

    @Test func `merge rule 13: an accepted push ends the row of stale answers`() throws {
        var space = Space(lineage, limits: limits)
        var (one, two) = (TestReplica(1), TestReplica(2))
        let first = two.batch(lineage, base: .zero, .writing(1))
        _ = try space.push(first)
        two.accept(first)
        for _ in 0..<2 { _ = try space.push(one.batch(lineage, base: .zero, .writing(1))) }
        let good = one.batch(lineage, base: Position(1), .writing(1))
        _ = try space.push(good)
        one.accept(good)
        let next = two.batch(lineage, base: Position(2), .writing(1))
        #expect(try space.push(next).outcome == .accepted)
        two.accept(next)
        _ = try space.push(one.batch(lineage, base: Position(2), .writing(1)))
        #expect(try space.push(two.batch(lineage, base: Position(3), .writing(2))).outcome == .accepted)
    }
}
