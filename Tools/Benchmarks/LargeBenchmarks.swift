import Foundation

/// One transaction that updates all rows of a table with text keys and one more index: a pull, a replay and a verification of it, each by
/// the whole program, compared with the same statements on a plain connection with a cache of 4 MiB.
enum LargeBenchmarks {
    static func run(_ scale: Scale) throws -> [Benchmark] {
        try (scale.rounds > 2 ? [500_000, 2_000_000] : [100_000]).flatMap { count in try run(count, scale) }
    }

    private static func run(_ count: Int, _ scale: Scale) throws -> [Benchmark] {
        let limit = getenv("ANNALS_WORK_CACHE").map { String(cString: $0) }
        unsetenv("ANNALS_WORK_CACHE")
        defer { if let limit { setenv("ANNALS_WORK_CACHE", limit, 1) } }
        let folder = try BenchmarkFolder()
        let rows = Rows(.text, count: count)
        let annals = try ChildProgram.annals()
        func command(_ arguments: String...) throws { try ChildProgram.run(annals, arguments) }

        // The connection must be closed before the file is copied.
        do { try rows.file(folder.file("plain.db"), synchronous: "OFF").execute("CREATE INDEX item_size ON item(size)") }
        let author = try folder.copy("plain.db", to: "author.db")
        let (relay, url) = try ChildProgram.relay(["--data", folder.file("relay")])
        defer { relay.stop() }
        try command("track", author, "--all")
        try command("join", author, "--relay", url, "--space", "bench")
        try command("clone", url, "bench", folder.file("replica.db"))
        try update(author, rows)
        try command("sync", author)

        var (pull, replay, verify): ([Comparison.Round], [Comparison.Round], [Comparison.Round]) = ([], [], [])
        for _ in 0..<max(2, scale.rounds / 2) {
            let replica = try folder.copy("replica.db", to: "pulling.db")
            func round(_ subject: () throws -> Void) throws -> Comparison.Round {
                let written = try folder.copy("plain.db", to: "written.db")
                var turns = Alternation()
                try turns.take(subject: subject, baseline: { try update(written, rows) })
                return turns.round
            }
            pull.append(try round { try command("sync", replica) })
            replay.append(try round { try command("replay", author, "--to", "start", "--force", "--output", folder.file("then.db")) })
            verify.append(try round { try command("verify", author) })
        }
        return [("pull", 1.5, pull), ("replay", 1.3, replay), ("verify", 1.5, verify)].map { name, most, rounds in
            Benchmark(
                name: "\(name) of a transaction of \(rows.keys.count) updates", against: "the same statements, cache of 4 MiB",
                budget: .atMost(most), work: rows.keys.count, comparison: Comparison(rounds: rounds))
        }
    }

    private static func update(_ path: String, _ rows: Rows) throws {
        let connection = try BareConnection(path)
        try connection.execute("PRAGMA synchronous = NORMAL; PRAGMA cache_size = -4096; BEGIN IMMEDIATE")
        for index in rows.shuffled() {
            let row = rows.row(index, version: 1)
            try connection.run(Rows.update, [row[0], row[1], row[2]])
        }
        try connection.execute("COMMIT")
    }
}
