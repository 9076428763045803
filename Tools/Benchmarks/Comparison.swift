/// What one piece of work costs beside another, done in turns in the same run.
///
/// Seconds depend on the machine and on what else it does; the ratio of two works done in turns depends on them far
/// less. So a ratio is what is reported and budgeted.
struct Comparison {
    /// Seconds of both works in one round.
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

/// What a ratio has to be.
enum Budget {
    case atMost(Double)
    case atLeast(Double)
    /// Measured without a promise.
    case none

    func isMet(by ratio: Double) -> Bool {
        switch self {
        case .atMost(let limit): ratio <= limit
        case .atLeast(let limit): ratio >= limit
        case .none: true
        }
    }
}

/// How much work to do.
struct Scale {
    var rows: Int
    var rounds: Int

    static let quick = Scale(rows: 50_000, rounds: 2)
    static let whole = Scale(rows: 100_000, rounds: 5)
}

/// One line of the report.
struct Benchmark {
    var name: String
    /// What the work is compared with.
    var against: String
    var budget: Budget
    /// How much work a round does, in the unit that the name says; 0 when that says nothing.
    var work: Int
    var comparison: Comparison
}

/// Runs works in turns. Which goes first alternates, so that neither always finds the caches warm.
struct PushLease {
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
