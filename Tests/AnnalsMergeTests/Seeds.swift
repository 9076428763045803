import SeededRandom

extension Seeds {
    /// Runs a body with a generator of its own for each of many seeds.
    static func each(_ count: Int, _ body: (UInt64, inout SeededGenerator) throws -> Void) rethrows {
        for seed in givenOrNew(count) {
            var random = SeededGenerator(seed: seed)
            try body(seed, &random)
        }
    }
}
