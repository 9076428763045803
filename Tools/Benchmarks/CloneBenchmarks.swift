import Foundation

/// The cost of a clone by the program `annals clone`, compared with the fewest tools that produce the same file.
enum CloneBenchmarks {
    static func run(_ scale: Scale) async throws -> [Benchmark] {
        let folder = try BenchmarkFolder()
        let count = scale.rounds > 2 ? 1_000_000 : 100_000
        _ = try Rows(.text, count: count).file(folder.file("author.db"), synchronous: "OFF")
        let (relay, url) = try ChildProgram.relay(["--data", folder.file("relay")])
        defer { relay.stop() }
        try ChildProgram.run(ChildProgram.annals(), ["track", folder.file("author.db"), "--all"])
        try ChildProgram.run(ChildProgram.annals(), ["join", folder.file("author.db"), "--relay", url, "--space", "bench"])
        var rounds: [Comparison.Round] = []
        for number in 0..<scale.rounds {
            var turns = Alternation()
            // Two turns, so that each runs first once.
            for turn in 0..<2 {
                let (clone, plain) = (folder.file("clone\(number)-\(turn).db"), folder.file("plain\(number)-\(turn).db"))
                try turns.take(
                    subject: { try ChildProgram.run(ChildProgram.annals(), ["clone", url, "bench", clone]) },
                    baseline: { try fetch(url, plain) })
                for path in [clone, plain] { try FileManager.default.removeItem(atPath: path) }
            }
            rounds.append(turns.round)
        }
        return [
            Benchmark(
                name: "clone of \(count) rows", against: "curl, zstd -d and opening the file", budget: .atMost(2), work: count,
                comparison: Comparison(rounds: rounds))
        ]
    }

    private static func fetch(_ url: String, _ path: String) throws {
        try ChildProgram.run("/bin/sh", ["-c", "curl -sf \(url)/v1/spaces/bench/snapshot | zstd -dq -o \(path)"])
        let connection = try BareConnection(path)
        try connection.query("SELECT * FROM sqlite_schema")
        try connection.query("SELECT count(*) FROM item")
    }
}
