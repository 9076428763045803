@testable import SeededRandom
import Testing

@testable import Annals

@Suite("The difference of two lists")
struct ListDifferenceTests {
    @Test("leads from the one to the other, whatever was inserted, removed and moved", arguments: Seeds.givenOrNew(200))
    func applies(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let all = Array(0..<Int.random(in: 0...30, using: &random))
        let old = all.filter { _ in random.chance(70) }.shuffled(using: &random)
        var new = all.filter { _ in random.chance(70) }
        if random.chance(50) { new.shuffle(using: &random) }
        let difference = ListDifference.between(old, new)
        #expect(old.applying(difference) == new, "seed \(seed)")
        // A move names both of its ends.
        for change in difference {
            guard case .insert(let offset, let element, let origin?) = change else { continue }
            #expect(old[origin] == element && new[offset] == element, "seed \(seed)")
        }
    }

    @Test("tells one row that moved as one move")
    func oneMove() {
        let difference = ListDifference.between([1, 2, 3, 4, 5], [2, 3, 4, 1, 5])
        #expect(difference.insertions.count == 1 && difference.removals.count == 1)
    }

    @Test("of ten thousand rows that were all turned round takes no time to speak of", .timeLimit(.minutes(20)))
    func reversed() {
        let old = Array(0..<10_000)
        let difference = ListDifference.between(old, old.reversed())
        #expect(difference.count == 2 * 9_999)
        #expect(old.applying(difference) == old.reversed())
    }
}
