import Foundation

/// Repeatable randomness: a failing test prints the seed it started from, and `ANNALS_SEED` sets it.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    // SplitMix64.
    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}

enum Seeds {
    static let first: UInt64 = ProcessInfo.processInfo.environment["ANNALS_SEED"].flatMap(UInt64.init) ?? .random(in: 0..<1_000_000)

    /// Runs a body with a generator of its own for each of many seeds.
    static func each(_ count: Int, _ body: (UInt64, inout SeededGenerator) throws -> Void) rethrows {
        let isReplay = ProcessInfo.processInfo.environment["ANNALS_SEED"] != nil
        for seed in first..<first + UInt64(isReplay ? 1 : count) {
            var random = SeededGenerator(seed: seed)
            try body(seed, &random)
        }
    }
}
