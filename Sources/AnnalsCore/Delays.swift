/// Counts delays by their length, for a histogram.
public struct Delays: Sendable, Equatable {
    /// The longest delay of each class, in seconds. Longer delays are in no class.
    public static let bounds: [Double] = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 600, 3_600, 86_400,
    ]

    /// The number of delays in each class of `bounds`.
    public private(set) var counts = [Int](repeating: 0, count: bounds.count)
    /// The number of all delays.
    public private(set) var count = 0
    /// The sum of all delays, in seconds.
    public private(set) var seconds = 0.0

    public init() {}

    /// Adds a delay. One below zero, which two clocks can make, counts as zero.
    public mutating func add(milliseconds: Int64) {
        let delay = Double(max(0, milliseconds)) / 1_000
        if let index = Self.bounds.firstIndex(where: { delay <= $0 }) { counts[index] += 1 }
        count += 1
        seconds += delay
    }

    public static func += (left: inout Delays, right: Delays) {
        for index in left.counts.indices { left.counts[index] += right.counts[index] }
        left.count += right.count
        left.seconds += right.seconds
    }
}
