import Foundation

/// The source of randomness in tests: SplitMix64, which a seed repeats exactly. A failing test prints its seed.
///
/// Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
package struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    package mutating func one<T>(of choices: [T]) -> T { choices[Int.random(in: choices.indices, using: &self)] }

    package mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }
}

/// The seeds of a test.
package enum Seeds {
    /// The seeds in `ANNALS_SEED`: one number, or a range such as `100-200`.
    package static let given: [UInt64]? = {
        let parts = ProcessInfo.processInfo.environment["ANNALS_SEED"]?.split(separator: "-").compactMap { UInt64($0) } ?? []
        guard let first = parts.first, let last = parts.last, first <= last else { return nil }
        return Array(first...last)
    }()

    /// The given seeds, or `count` new ones. With `ANNALS_FIRST_SEED`, every run has the same ones, from this number on.
    package static func givenOrNew(_ count: Int) -> [UInt64] {
        let fixed = ProcessInfo.processInfo.environment["ANNALS_FIRST_SEED"].flatMap { UInt64($0) }
        let first = fixed ?? UInt64.random(in: 0..<1_000_000)
        return given ?? (0..<UInt64(count)).map { first + $0 }
    }
}
