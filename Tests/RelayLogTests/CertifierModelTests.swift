import AnnalsCore
import AnnalsWire
import RelayTestSupport
import SeededRandom
import Testing

@testable import RelayLog

/// Compares the certifier with a slow implementation of the text of merge rules 10 and 11, which keeps every entry and compares with
/// each. Failures print the seed; `ANNALS_SEED=… swift test --filter CertifierModel` repeats one.
@Suite struct CertifierModelTests {
    struct Entry {
        var replica: ReplicaID
        var counter: Counter
        var digest: Digest
        var footprint: Footprint
        var position: Position
    }

    struct Oracle {
        var lineage: Lineage
        var entries: [Entry] = []

        mutating func push(_ batch: TestBatch) -> (positions: [Position], outcome: PushAnswer.Outcome) {
            var positions: [Position] = []
            var previous = batch.previousDigest
            for (index, transaction) in batch.transactions.enumerated() {
                let counter = Counter(batch.firstCounter.rawValue + Int64(index))
                let head = Position(Int64(entries.count))
                let own = entries.filter { $0.replica == batch.replica }
                defer { previous = transaction.digest }
                if batch.lineage != lineage || transaction.base > head { return (positions, .logRolledBack) }
                if let known = own.first(where: { $0.counter == counter }) {
                    if known.digest != transaction.digest { return (positions, .identityConflict) }
                    positions.append(known.position)
                    continue
                }
                let last = own.last
                if counter != (last?.counter ?? .zero).next || previous != last?.digest ?? .zero { return (positions, .gap) }
                let met = entries.last {
                    $0.position > transaction.base && $0.replica != batch.replica && Footprint.conflict($0.footprint, transaction.footprint)
                }
                if let met { return (positions, .stale(at: met.position)) }
                entries.append(
                    Entry(
                        replica: batch.replica, counter: counter, digest: transaction.digest, footprint: transaction.footprint,
                        position: head.next))
                positions.append(head.next)
            }
            return (positions, .accepted)
        }
    }

    /// Replicas that usually behave correctly, and sometimes not.
    struct ModelledSpace {
        var generator: SeededGenerator
        let lineage = Lineage(high: 3, low: 4)
        var replicas: [TestReplica]
        var sent: [TestBatch] = []

        init(seed: UInt64) {
            generator = SeededGenerator(seed: seed)
            replicas = (1...5).map { TestReplica(UInt64($0)) }
        }

        mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

        mutating func footprint() -> Footprint {
            if chance(2) { return .everything }
            var footprint = Footprint()
            if chance(2) { footprint.keyID = 7 }
            for table in UInt64(1)...3 where chance(50) {
                var group = Footprint.Group(table: table)
                // Hashes include the table's name, so tables do not share them.
                func hashes(_ generator: inout SeededGenerator) -> [UInt64] {
                    let count = Int.random(in: 0...3, using: &generator)
                    return Set((0..<count).map { _ in table * 100 + UInt64.random(in: 0..<30, using: &generator) }).sorted()
                }
                if chance(3) { group.writesWhole = true } else { group.writes = hashes(&generator) }
                if chance(3) { group.readsWhole = true } else { group.reads = hashes(&generator) }
                footprint.groups.append(group)
            }
            return footprint
        }

        /// The next batch of some replica, and the number of that replica.
        mutating func next(head: Position) -> (batch: TestBatch, replica: Int) {
            let number = Int.random(in: 0..<replicas.count, using: &generator)
            if chance(10), let old = sent.randomElement(using: &generator),
                let author = replicas.firstIndex(where: { $0.id == old.replica })
            {
                return (old, author)
            }
            let base = Position(max(0, head.rawValue - Int64.random(in: 0...(chance(10) ? 40 : 4), using: &generator)))
            let footprints = (0..<Int.random(in: 1...4, using: &generator)).map { _ in footprint() }
            var batch = replicas[number].batch(lineage, base: base, footprints: footprints)
            if chance(2) { batch.lineage = Lineage(high: 8, low: 8) }
            if chance(2) { batch.firstCounter = batch.firstCounter.next }
            if chance(2), batch.firstCounter.rawValue > 1 { batch.firstCounter = Counter(batch.firstCounter.rawValue - 1) }
            if chance(2) { batch.previousDigest = .test(999) }
            if chance(2) { batch.transactions[batch.transactions.count - 1].base = head.advanced(by: 3) }
            sent.append(batch)
            return (batch, number)
        }

        /// The author gets the accepted count. A late copy of an old batch does not set it back.
        mutating func accept(_ batch: TestBatch, count: Int, by number: Int) {
            if batch.firstCounter > replicas[number].counter { replicas[number].accept(batch, count: count) }
        }
    }

    /// Without push leases, which the oracle does not have.
    static func limits(hashes: Int) -> RelayLogLimits {
        var limits = RelayLogLimits()
        limits.hashesPerSpace = hashes
        limits.staleAnswersBeforeLease = .max
        limits.pushLeaseMilliseconds = 0
        return limits
    }

    static func reload(_ oracle: Oracle, limits: RelayLogLimits) -> Certifier {
        var certifier = Certifier(
            lineage: oracle.lineage, head: Position(Int64(oracle.entries.count)), loadedFrom: .zero, limits: limits)
        for entry in oracle.entries { certifier.recall(entry.footprint, replica: entry.replica, position: entry.position) }
        return certifier
    }

    static func setLast(of replica: ReplicaID, in certifier: inout Certifier, from oracle: Oracle) {
        guard certifier.last(of: replica) == nil else { return }
        let last = oracle.entries.last { $0.replica == replica }
        certifier.setLast(last.map { LastAccepted(counter: $0.counter, digest: $0.digest) } ?? .none, of: replica)
    }

    @Test(arguments: 0..<3) func `agrees with the oracle, through reloads too`(round: UInt64) throws {
        let seed = Seeds.givenOrNew(1)[0] &+ round
        let limits = Self.limits(hashes: 1 << 20)
        var world = ModelledSpace(seed: seed)
        var oracle = Oracle(lineage: world.lineage)
        var certifier = Self.reload(oracle, limits: limits)
        for step in 0..<1000 {
            if world.chance(1) { certifier = Self.reload(oracle, limits: limits) }
            let (batch, number) = world.next(head: certifier.head)
            Self.setLast(of: batch.replica, in: &certifier, from: oracle)
            let entries = oracle.entries
            let verdict = certifier.certify(try batch.header(), now: 0) { counter in
                entries.first { $0.replica == batch.replica && $0.counter == counter }
                    .map { Certifier.Accepted(digest: $0.digest, position: $0.position) }
            }
            let expected = oracle.push(batch)
            try #require(verdict.outcome == expected.outcome, "step \(step), seed \(seed)")
            try #require(verdict.positions == expected.positions, "step \(step), seed \(seed)")
            try #require(certifier.head.rawValue == Int64(oracle.entries.count), "step \(step), seed \(seed)")
            world.accept(batch, count: expected.positions.count, by: number)
        }
        #expect(oracle.entries.count > 200, "the walk got nowhere, seed \(seed)")
    }

    @Test(arguments: 0..<3) func `with little room it is stale more often, and never accepts what the oracle refuses`(round: UInt64) throws
    {
        let seed = Seeds.givenOrNew(1)[0] &+ round
        let limits = Self.limits(hashes: 60)
        var world = ModelledSpace(seed: seed)
        var oracle = Oracle(lineage: world.lineage)
        var certifier = Self.reload(oracle, limits: limits)
        var forgotten = 0
        for step in 0..<1000 {
            let (batch, number) = world.next(head: certifier.head)
            Self.setLast(of: batch.replica, in: &certifier, from: oracle)
            let entries = oracle.entries
            let verdict = certifier.certify(try batch.header(), now: 0) { counter in
                entries.first { $0.replica == batch.replica && $0.counter == counter }
                    .map { Certifier.Accepted(digest: $0.digest, position: $0.position) }
            }
            // The oracle gets the batch that the certifier accepted and must accept all of it.
            var taken = batch
            taken.transactions = Array(batch.transactions.prefix(verdict.positions.count))
            let expected = oracle.push(taken)
            try #require(expected.positions == verdict.positions, "step \(step), seed \(seed)")
            if verdict.outcome == .stale(at: nil) { forgotten += 1 }
            world.accept(batch, count: verdict.positions.count, by: number)
        }
        #expect(forgotten > 0 && oracle.entries.count > 100, "seed \(seed)")
    }
}
