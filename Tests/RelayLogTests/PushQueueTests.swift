import AnnalsCore
import RelayTestSupport
import SeededRandom
import Testing

@testable import RelayLog

/// The order in which the writer takes waiting pushes.
@Suite struct PushQueueTests {
    private struct Push: Sendable {
        var space: SpaceName
        var number: Int
        var size: Int
    }

    private static let large = 4 << 20

    @Test func `a push to a quiet space goes next, with no large one in its commit`() {
        var queue = PushQueue<Push>()
        let limits = RelayLogLimits()
        for number in 0..<32 { queue.append(Push(space: .shop, number: number, size: Self.large), of: .shop, size: Self.large) }
        #expect(queue.takeGroup(limits: limits).map(\.number) == [0])
        for round in 1..<10 {
            queue.append(Push(space: .other, number: 100 + round, size: 1_000), of: .other, size: 1_000)
            queue.append(Push(space: .shop, number: 31 + round, size: Self.large), of: .shop, size: Self.large)
            #expect(queue.takeGroup(limits: limits).map(\.number) == [100 + round])
            #expect(queue.takeGroup(limits: limits).map(\.number) == [round])
        }
        #expect(queue.count == 31 && queue.byteCount == 31 * Self.large && queue.byteCount(of: .other) == 0)
    }

    @Test func `small pushes share a commit, whatever their spaces`() {
        var queue = PushQueue<Push>()
        for number in 0..<600 {
            let space: SpaceName = number.isMultiple(of: 3) ? .other : .shop
            queue.append(Push(space: space, number: number, size: 100), of: space, size: 100)
        }
        #expect(queue.takeGroup(limits: RelayLogLimits()).count == 512)
        #expect(queue.takeGroup(limits: RelayLogLimits()).count == 88)
        #expect(queue.isEmpty && queue.byteCount == 0)
    }

    @Test(arguments: Seeds.givenOrNew(1))
    func `everything is taken once, in its space's order, and spaces that wait get as much as each other`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let spaces = try (0..<4).map { try #require(SpaceName("s\($0)")) }
        var queue = PushQueue<Push>()
        var limits = RelayLogLimits()
        limits.groupBytes = 5_000
        var (sent, taken, served) = ([SpaceName: Int](), [SpaceName: Int](), [SpaceName: Int]())
        func add(_ place: Int) {
            // The first space writes little at once, the last one much.
            let push = Push(
                space: spaces[place], number: sent[spaces[place], default: 0], size: Int.random(in: 0...(place * 3_000), using: &generator))
            sent[push.space, default: 0] += 1
            queue.append(push, of: push.space, size: push.size)
        }
        func take() {
            for push in queue.takeGroup(limits: limits) {
                #expect(push.number == taken[push.space, default: 0], "seed \(seed)")
                taken[push.space, default: 0] += 1
                served[push.space, default: 0] += push.size + 4_096
            }
        }
        for _ in 0..<2_000 {
            for place in spaces.indices { while queue.count(of: spaces[place]) < 20 { add(place) } }
            take()
            let amounts = spaces.map { served[$0, default: 0] }
            #expect((amounts.max() ?? 0) - (amounts.min() ?? 0) <= 2 * (9_000 + 4_096) + limits.groupBytes, "seed \(seed)")
        }
        while !queue.isEmpty { take() }
        #expect(sent == taken, "seed \(seed)")
    }
}
