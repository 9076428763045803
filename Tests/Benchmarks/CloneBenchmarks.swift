import Foundation

/// What a newcomer's copy of a space costs: the whole program `annals clone`, against the same bytes by the tools that can do
/// no less.
enum CloneBenchmarks {
    static func run(_ scale: Scale) async throws -> [Benchmark] {
        let folder = try BenchmarkFolder()
        let count = scale.rounds > 2 ? 1_000_000 : 100_000
        try makeRows(folder.file("author.db"), count)
        let relay = try ChildProgram(
            ChildProgram.annals(), ["relay", "serve", "--data", folder.file("relay"), "--listen", "127.0.0.1:0", "--no-auth"])
        defer { relay.stop() }
        guard let url = try relay.firstLine().split(separator: " ").last else { throw BareConnection.Failure(description: "no relay") }
        try ChildProgram.run(ChildProgram.annals(), ["track", folder.file("author.db"), "--all"])
        try ChildProgram.run(ChildProgram.annals(), ["join", folder.file("author.db"), "--relay", "\(url)", "--space", "bench"])
        var rounds: [Comparison.Round] = []
        for number in 0..<scale.rounds {
            var turns = Turns()
            // Twice, so that each goes first once.
            for turn in 0..<2 {
                let (clone, plain) = (folder.file("clone\(number)-\(turn).db"), folder.file("plain\(number)-\(turn).db"))
                try turns.take(
                    subject: { try ChildProgram.run(ChildProgram.annals(), ["clone", "\(url)", "bench", clone]) },
                    baseline: { try fetch("\(url)", plain) })
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

    private static func makeRows(_ path: String, _ count: Int) throws {
        let rows = Rows(.text, count: count)
        let author = try BareConnection(path)
        try author.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")
        try author.execute(rows.schema)
        try author.execute("BEGIN")
        for index in rows.keys.indices { try author.run(Rows.insert, rows.row(index)) }
        try author.execute("COMMIT")
    }
}
