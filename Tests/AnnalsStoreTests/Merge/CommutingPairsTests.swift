import AnnalsCore
import AnnalsMerge
import AnnalsReplica
import AnnalsWire
import Foundation
import GRDB
import SeededRandom
import Testing

@testable import AnnalsStore

/// Merge rule 44: transactions with disjoint footprints commute. Random schemas have every kind of key, UNIQUE, reference,
/// action and CHECK, and user triggers that write other rows. On a legal state there are transactions that are each legal, and every
/// pair of them is applied in both orders.
///
/// `ANNALS_SEED=17 swift test --filter CommutingPairs` replays one state; `ANNALS_SEED=100-900` tries others.
@Suite("Merge rule 44: disjoint transactions commute") struct CommutingPairsTests {
    static let seeds = Seeds.given ?? Array(1...110)

    /// Few transactions, so that there is time for many schemas.
    private static let transactions = 9

    @Test("Pairs with disjoint footprints apply in both orders, to the same legal rows; weaker footprints are caught")
    func disjointPairsCommute() throws {
        var pairs = 0
        var uncaught = Set(ModelFootprint.Weakness.allCases)
        for seed in Self.seeds {
            try eachPair(seed) { world, a, b in
                let story = """
                    ANNALS_SEED=\(seed) swift test --filter CommutingPairs
                    \(world.schema.sql)
                    a: \(a.statements)
                    b: \(b.statements)
                    """
                let meets = a.row.footprint.conflicts(with: b.row.footprint)
                // A second, simple implementation of merge rules 6 to 9.
                #expect(meets == self.meets(a, b, without: nil), "the model of footprints says otherwise\n\(story)")
                let missed = meets ? uncaught.filter { !self.meets(a, b, without: $0) } : []
                guard !meets || !missed.isEmpty else { return }
                let (ab, ba) = (world.end(a, b), world.end(b, a))
                let commute = ab == ba && ab.problems.isEmpty
                if meets {
                    if !commute { uncaught.subtract(missed) }
                } else {
                    pairs += 1
                    #expect(commute, "\(story)\na, b: \(ab.problems)\nb, a: \(ba.problems)")
                }
            }
        }
        #expect(pairs > 5 * Self.seeds.count, "hardly a pair was disjoint")
        if Self.seeds.count > 1 { #expect(uncaught.isEmpty, "footprints that lack these are not caught: \(uncaught)") }
        print("commuting pairs: \(pairs)")
    }

    private func meets(_ a: CommutingPair.Made, _ b: CommutingPair.Made, without weakness: ModelFootprint.Weakness?) -> Bool {
        let footprints = [a, b].map { made in
            var footprint = ModelFootprint(without: weakness)
            for change in made.changes { footprint.add(change.rules, old: change.old, new: change.new) }
            return footprint
        }
        return footprints[0].conflicts(with: footprints[1])
    }

    private func eachPair(_ seed: UInt64, _ body: (CommutingPair, CommutingPair.Made, CommutingPair.Made) throws -> Void) throws {
        var random = SeededGenerator(seed: seed)
        let world = try CommutingPair(&random)
        var made: [CommutingPair.Made] = []
        for _ in 0..<40 where made.count < Self.transactions {
            if let transaction = try world.make(world.schema.transaction(&random)) { made.append(transaction) }
        }
        for (number, a) in made.enumerated() {
            for b in made[(number + 1)...] { try body(world, a, b) }
        }
    }
}
