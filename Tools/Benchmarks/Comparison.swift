/// The cost of one operation (the subject) relative to another (the baseline). Both run alternately in the same run.
///
/// Seconds depend on the machine and its other load. The ratio of two alternating operations depends on these far less. So ratios
/// are reported and have budgets.
struct Comparison {
    /// Seconds of both operations in one round.
    struct Round {
        var subject = 0.0
        var baseline = 0.0
        var ratio: Double { baseline > 0 ? subject / baseline : .nan }
    }

    var rounds: [Round]

    var ratio: Double { Self.median(rounds.map(\.ratio)) }
    var lowest: Double { rounds.map(\.ratio).min() ?? .nan }
    var highest: Double { rounds.map(\.ratio).max() ?? .nan }
    var subjectSeconds: Double { Self.median(rounds.map(\.subject)) }
    var baselineSeconds: Double { Self.median(rounds.map(\.baseline)) }

    static func median(_ values: [Double]) -> Double {
        let sorted = values.sorted()
        guard !sorted.isEmpty else { return .nan }
        let middle = sorted.count / 2
        return sorted.count.isMultiple(of: 2) ? (sorted[middle - 1] + sorted[middle]) / 2 : sorted[middle]
    }
}

/// The limit of a ratio.
enum Budget {
    case atMost(Double)
    case atLeast(Double)
    /// Measured without a limit.
    case none

    func isMet(by ratio: Double) -> Bool {
        switch self {
        case .atMost(let limit): ratio <= limit
        case .atLeast(let limit): ratio >= limit
        case .none: true
        }
    }
}

/// The amount of work.
struct Scale {
    var rows: Int
    var rounds: Int

    static let quick = Scale(rows: 50_000, rounds: 2)
    static let whole = Scale(rows: 100_000, rounds: 5)
}

/// One line of the report.
struct Benchmark {
    var name: String
    /// The name of the baseline.
    var against: String
    var budget: Budget
    /// The amount of work in a round, in the unit of the name; 0 if the unit is meaningless.
    var work: Int
    var comparison: Comparison
}

/// Runs subject and baseline alternately. They also alternate in running first, so that neither always has warm caches.
struct Alternation {
    private(set) var round = Comparison.Round()
    private var subjectFirst = false

    mutating func take(subject: () throws -> Void, baseline: () throws -> Void) rethrows {
        subjectFirst.toggle()
        if subjectFirst {
            round.subject += try seconds(subject)
            round.baseline += try seconds(baseline)
        } else {
            round.baseline += try seconds(baseline)
            round.subject += try seconds(subject)
        }
    }

    mutating func take(subject: () async throws -> Void, baseline: () async throws -> Void) async rethrows {
        subjectFirst.toggle()
        if subjectFirst {
            round.subject += try await seconds(subject)
            round.baseline += try await seconds(baseline)
        } else {
            round.baseline += try await seconds(baseline)
            round.subject += try await seconds(subject)
        }
    }

    private func seconds(_ work: () throws -> Void) rethrows -> Double {
        let clock = ContinuousClock()
        return try clock.measure(work) / .seconds(1)
    }

    private func seconds(_ work: () async throws -> Void) async rethrows -> Double {
        let clock = ContinuousClock()
        let start = clock.now
        try await work()
        return (clock.now - start) / .seconds(1)
    }
}
