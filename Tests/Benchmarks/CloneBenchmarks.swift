import Foundation

/// What a newcomer's copy of a space costs: the whole program `annals clone`, against the same bytes by the tools that can do
/// no less.
enum CloneBenchmarks {
    /// The agent's memory, in megabytes, that DESIGN allows.
    private static let maximumMemory = 100.0

    static func run(_ scale: Scale) async throws -> [Benchmark] {
        let folder = try BenchmarkFolder()
        let count = scale.rounds > 2 ? 1_000_000 : 100_000
        try makeRows(folder.file("author.db"), count)
        let relay = try ChildProgram(annals(), ["relay", "serve", "--data", folder.file("relay"), "--listen", "127.0.0.1:0", "--no-auth"])
        defer { relay.stop() }
        guard let url = try relay.firstLine().split(separator: " ").last else { throw BareConnection.Failure(description: "no relay") }
        try ChildProgram.run(annals(), ["track", folder.file("author.db"), "--all"])
        try ChildProgram.run(annals(), ["join", folder.file("author.db"), "--relay", "\(url)", "--space", "bench"])
        var rounds: [Comparison.Round] = []
        var memory: [Comparison.Round] = []
        for number in 0..<scale.rounds {
            var turns = Turns()
            var peak = 0.0
            let (clone, plain) = (folder.file("clone\(number).db"), folder.file("plain\(number).db"))
            try turns.take(
                subject: { peak = try ChildProgram.run(annals(), ["clone", "\(url)", "bench", clone]) },
                baseline: {
                    try ChildProgram.run(
                        "/bin/sh", ["-c", "curl -sf \(url)/v1/spaces/bench/snapshot | zstd -dq -o \(plain)"])
                    let connection = try BareConnection(plain)
                    try connection.query("SELECT * FROM sqlite_schema")
                    try connection.query("SELECT count(*) FROM item")
                })
            rounds.append(turns.round)
            memory.append(Comparison.Round(subject: peak, baseline: maximumMemory))
            for path in [clone, plain] { try FileManager.default.removeItem(atPath: path) }
        }
        return [
            Benchmark(
                name: "clone of \(count) rows", against: "curl, zstd -d and opening the file", budget: .atMost(2), work: count,
                comparison: Comparison(rounds: rounds)),
            Benchmark(
                name: "its memory, megabytes", against: "what is allowed", budget: .atMost(1), work: 0,
                comparison: Comparison(rounds: memory)),
        ]
    }

    private static func makeRows(_ path: String, _ count: Int) throws {
        let rows = Rows(.text, count: count)
        let author = try BareConnection(path)
        try author.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")
        try author.execute(rows.schema)
        try author.execute("BEGIN")
        for index in rows.keys.indices { try author.run(Rows.insert, rows.row(index)) }
        try author.execute("COMMIT")
    }

    /// The program of the same build, which lies beside this one.
    private static func annals() throws -> String {
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? CommandLine.arguments[0]
        let path = URL(fileURLWithPath: own).deletingLastPathComponent().appendingPathComponent("annals").path
        guard FileManager.default.isExecutableFile(atPath: path) else {
            throw BareConnection.Failure(description: "\(path) is missing: build the product annals too")
        }
        return path
    }
}
