import AnnalsCore
import AnnalsWire
import SeededRandom
import Testing

@Suite struct CertificationIndexTests {
    static let replicas = (1...4).map { ReplicaID(high: 0, low: $0) }

    private static func randomFootprint(using generator: inout SeededGenerator) -> Footprint {
        if Int.random(in: 0..<60, using: &generator) == 0 { return .everything }
        var groups: [Footprint.Group] = []
        for table in UInt64(0)..<3 where Bool.random(using: &generator) {
            func hashes() -> [UInt64] {
                (0..<Int.random(in: 0...2, using: &generator)).map { _ in table * 100 + .random(in: 0..<40, using: &generator) }
            }
            groups.append(
                .init(
                    table: table, writesWhole: Int.random(in: 0..<30, using: &generator) == 0,
                    readsWhole: Int.random(in: 0..<30, using: &generator) == 0, writes: hashes(), reads: hashes()))
        }
        return Footprint(keyID: Int.random(in: 0..<80, using: &generator) == 0 ? 1 : 0, groups: groups).normalized()
    }

    /// The rule as it is written: every entry after the base is looked at.
    private static func plainConflict(
        of footprint: Footprint, base: Position, replica: ReplicaID, in log: [(Footprint, ReplicaID)]
    ) -> Position? {
        for index in stride(from: log.count, to: Int(base.rawValue), by: -1) {
            let (entry, author) = log[index - 1]
            if author != replica, entry.conflicts(with: footprint) { return Position(Int64(index)) }
        }
        return nil
    }

    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func `it answers as looking at every entry would`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var index = CertificationIndex(maximumHashes: 100_000)
        var log: [(Footprint, ReplicaID)] = []
        for position in 1...300 {
            let author = try #require(Self.replicas.randomElement(using: &generator))
            let footprint = Self.randomFootprint(using: &generator)
            index.record(footprint, replica: author, position: Position(Int64(position)))
            log.append((footprint, author))
            let probe = Self.randomFootprint(using: &generator)
            let base = Position(Int64.random(in: 0...Int64(position), using: &generator))
            for replica in Self.replicas {
                let expected = Self.plainConflict(of: probe, base: base, replica: replica, in: log)
                #expect(index.conflict(of: probe, base: base, replica: replica) == expected, "seed \(seed), position \(position)")
            }
        }
        #expect(index.floor == .zero)
    }

    @Test(arguments: [5, 6] as [UInt64])
    func `a small one forgets, raises its floor and accepts nothing wrongly`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var index = CertificationIndex(maximumHashes: 60)
        var log: [(Footprint, ReplicaID)] = []
        for position in 1...400 {
            let author = try #require(Self.replicas.randomElement(using: &generator))
            let footprint = Self.randomFootprint(using: &generator)
            index.record(footprint, replica: author, position: Position(Int64(position)))
            log.append((footprint, author))
            #expect(index.count <= 60)
            let probe = Self.randomFootprint(using: &generator)
            let base = Position(Int64.random(in: 0...Int64(position), using: &generator))
            let expected = Self.plainConflict(of: probe, base: base, replica: author, in: log)
            let found = index.conflict(of: probe, base: base, replica: author)
            if base >= index.floor {
                #expect(found == expected, "seed \(seed), position \(position)")
            } else {
                #expect(found != nil, "seed \(seed), position \(position)")
            }
        }
        #expect(index.floor > .zero)
        #expect(index.floor < Position(400))
    }

    @Test func `a footprint larger than the index is kept coarsely`() {
        var index = CertificationIndex(maximumHashes: 20)
        let large = Footprint(groups: [.init(table: 1, writes: Array(0..<100))])
        index.record(large, replica: Self.replicas[0], position: Position(1))
        #expect(index.count <= 20)
        let other = Footprint(groups: [.init(table: 1, writes: [1_000])])
        #expect(index.conflict(of: other, base: .zero, replica: Self.replicas[1]) == Position(1))
        #expect(index.conflict(of: Footprint(groups: [.init(table: 2, writes: [1])]), base: .zero, replica: Self.replicas[1]) == nil)
    }

    @Test func `more kinds of footprints than a space can have meet everything`() {
        var index = CertificationIndex(maximumHashes: 10_000)
        for position in 1...100 {
            let footprint = Footprint(keyID: UInt64(position), groups: [.init(table: 1, writes: [UInt64(position)])])
            index.record(footprint, replica: Self.replicas[0], position: Position(Int64(position)))
        }
        #expect(index.conflict(of: Footprint(keyID: 1), base: .zero, replica: Self.replicas[1]) == Position(100))
        #expect(index.conflict(of: Footprint(keyID: 100), base: .zero, replica: Self.replicas[1]) == Position(100))
        #expect(index.conflict(of: Footprint(keyID: 100), base: .zero, replica: Self.replicas[0]) == nil)
    }

    @Test func `own entries never count against their author`() {
        var index = CertificationIndex(maximumHashes: 100)
        let row = Footprint(groups: [.init(table: 1, writes: [7])])
        index.record(row, replica: Self.replicas[0], position: Position(1))
        index.record(row, replica: Self.replicas[1], position: Position(2))
        index.record(row, replica: Self.replicas[0], position: Position(3))
        index.record(row, replica: Self.replicas[0], position: Position(4))
        #expect(index.conflict(of: row, base: .zero, replica: Self.replicas[0]) == Position(2))
        #expect(index.conflict(of: row, base: Position(2), replica: Self.replicas[0]) == nil)
        #expect(index.conflict(of: row, base: .zero, replica: Self.replicas[1]) == Position(4))
    }
}
