import Foundation

/// The resident memory of programs. `Scripts/measure-memory` starts each in a separate process and measures it from outside.
enum MemoryBenchmarks {
    static func run(_ scale: Scale) throws -> [Benchmark] {
        let rows = scale.rounds > 2 ? 1_000_000 : 100_000
        var results: [Benchmark] = []
        for line in try lines(["--only", "rows", "--rows", "\(rows)"]) where line.first == "rows" {
            // The words of a line: "rows", the number of rows, the name of the process, its peak memory, the peak for a hundredth of
            // the rows, and the difference.
            let numbers = line.compactMap(Double.init)
            guard numbers.count == 4 else { continue }
            let process = line.dropFirst(2).prefix { Double($0) == nil }.joined(separator: " ")
            results.append(benchmark("memory of \(process), \(rows) changes", "one MB", .atMost(100), rows, numbers[1]))
            results.append(
                benchmark("memory of \(process), difference to a hundredth of the changes", "one MB", .atMost(20), rows, numbers[3]))
        }
        guard scale.rounds > 2 else { return results }
        for line in try lines(["--only", "watchers"]) where line.first == "watchers" && line.contains("http") {
            guard let count = line.compactMap(Int.init).first, let kilobytes = line.compactMap(Double.init).dropFirst().max() else {
                continue
            }
            results.append(benchmark("memory of an idle watcher, of \(count)", "one KB", .atMost(30), count, kilobytes))
        }
        return results
    }

    private static func benchmark(_ name: String, _ against: String, _ budget: Budget, _ work: Int, _ amount: Double) -> Benchmark {
        let round = Comparison.Round(subject: amount, baseline: 1)
        return Benchmark(name: name, against: against, budget: budget, work: work, comparison: Comparison(rounds: [round]))
    }

    /// The output of the script as lines of words. Its exit status is ignored, because the table shows each missed budget.
    private static func lines(_ arguments: [String]) throws -> [[String]] {
        let build = URL(fileURLWithPath: try ChildProgram.annals()).deletingLastPathComponent()
        var root = build
        while root.path != "/", root.lastPathComponent != ".build" { root.deleteLastPathComponent() }
        let script = root.deletingLastPathComponent().appendingPathComponent("Scripts/measure-memory").path
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "-B", script] + arguments
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        let lines = text.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        guard lines.contains(where: { $0.count > 3 && Double($0[1]) != nil }) else {
            throw BareConnection.Failure(description: "Scripts/measure-memory printed no numbers: build the release configuration")
        }
        return lines
    }
}
