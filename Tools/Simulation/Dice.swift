/// The only source of random numbers: SplitMix64. The algorithm is here in full, so that a seed always gives the same run.
///
/// Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
struct Dice: RandomNumberGenerator, Sendable {
    private var state: UInt64

    init(seed: UInt64) {
        state = seed
    }

    /// Dice for one part of a run. If another part is left out, these dice draw the same numbers.
    init(seed: UInt64, _ parts: UInt64...) {
        state = seed
        for part in parts {
            state = next() ^ part
        }
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// A number in the range. Ranges are so small compared with 2^64 that the distribution is nearly uniform.
    mutating func number(_ range: ClosedRange<Int>) -> Int {
        range.lowerBound + Int(next() % UInt64(range.count))
    }

    mutating func chance(_ percent: Int) -> Bool {
        number(0...99) < percent
    }

    mutating func one<T>(of choices: [T]) -> T {
        choices[number(0...choices.count - 1)]
    }

    /// One of the choices, with a probability in proportion to its weight.
    mutating func weighted<T>(_ choices: [(weight: Int, value: T)]) -> T {
        var left = number(0...choices.reduce(0) { $0 + $1.weight } - 1)
        for choice in choices {
            left -= choice.weight
            if left < 0 { return choice.value }
        }
        return choices[choices.count - 1].value
    }
}
