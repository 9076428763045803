import Foundation

/// The report as a table and as JSON.
struct Report {
    var benchmarks: [Benchmark] = []

    static let heading = [
        "work", "baseline", "ratio", "lowest-highest", "budget", "met", "time", "baseline's",
    ]

    static func cells(_ benchmark: Benchmark) -> [String] {
        let comparison = benchmark.comparison
        let limit =
            switch benchmark.budget {
            case .atMost(let limit): "<= \(number(limit))"
            case .atLeast(let limit): ">= \(number(limit))"
            case .none: "-"
            }
        let isTime = benchmark.work > 0
        return [
            benchmark.name, benchmark.against, number(comparison.ratio), "\(number(comparison.lowest))-\(number(comparison.highest))",
            limit,
            benchmark.budget.isMet(by: comparison.ratio) ? "yes" : "NO",
            isTime ? milliseconds(comparison.subjectSeconds) : "\(Int(comparison.subjectSeconds))",
            isTime ? milliseconds(comparison.baselineSeconds) : "\(Int(comparison.baselineSeconds))",
        ]
    }

    private static func number(_ value: Double) -> String { String(format: value < 10 ? "%.2f" : "%.0f", value) }
    private static func milliseconds(_ seconds: Double) -> String { String(format: "%.1f ms", seconds * 1000) }

    func table() -> String {
        let rows = [Self.heading] + benchmarks.map(Self.cells)
        let widths = Self.heading.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            row.indices.map { column in
                let padding = String(repeating: " ", count: widths[column] - row[column].count)
                return column < 2 ? row[column] + padding : padding + row[column]
            }.joined(separator: "  ")
        }.joined(separator: "\n")
    }

    private struct Entry: Encodable {
        var work: String
        var against: String
        var ratio: Double
        var ratios: [Double]
        var atMost: Double?
        var atLeast: Double?
        var isMet: Bool
        var seconds: [Double]
        var baselineSeconds: [Double]
    }

    func json() throws -> String {
        let entries = benchmarks.map { benchmark in
            var entry = Entry(
                work: benchmark.name, against: benchmark.against, ratio: benchmark.comparison.ratio,
                ratios: benchmark.comparison.rounds.map(\.ratio), isMet: benchmark.budget.isMet(by: benchmark.comparison.ratio),
                seconds: benchmark.comparison.rounds.map(\.subject), baselineSeconds: benchmark.comparison.rounds.map(\.baseline))
            if case .atMost(let limit) = benchmark.budget { entry.atMost = limit }
            if case .atLeast(let limit) = benchmark.budget { entry.atLeast = limit }
            return entry
        }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        return String(decoding: try encoder.encode(entries), as: UTF8.self)
    }
}
