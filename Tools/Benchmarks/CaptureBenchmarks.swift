import Annals

/// The cost of capture for a program that writes: the same statements run alternately on a tracked and on an untracked file.
enum CaptureBenchmarks {
    private static let budgets: [Rows.Key: [String: Double]] = [
        .text: ["insert": 1.6, "update": 1.8, "delete": 1.3],
        .integer: ["insert": 2.2, "update": 2.2, "delete": 2.2],
    ]

    /// - Parameter isNamed: the tracked file's writer gives its name in each transaction.
    static func statements(
        _ key: Rows.Key, perTransaction: Int, isNamed: Bool = false, _ scale: Scale
    ) async throws -> [Benchmark] {
        var rounds: [String: [Comparison.Round]] = [:]
        for _ in 0..<scale.rounds {
            let pair = try await Pair(Rows(key, count: scale.rows), synchronous: "NORMAL")
            for (name, order, work) in pair.phases {
                var turns = Alternation()
                for indices in order.chunks(of: perTransaction) {
                    try turns.take(
                        subject: { try pair.transaction(pair.tracked, indices, isNamed: isNamed, work) },
                        baseline: { try pair.transaction(pair.plain, indices, work) })
                }
                rounds[name, default: []].append(turns.round)
            }
        }
        return ["insert", "update", "delete"].map { name in
            Benchmark(
                name: "tracked \(name), \(key.rawValue), \(perTransaction) a transaction\(isNamed ? ", named" : "")", against: "untracked",
                budget: .atMost(budgets[key]?[name] ?? 0), work: scale.rows, comparison: Comparison(rounds: rounds[name] ?? []))
        }
    }

    /// Commits of one row each, as in a typical app.
    static func commits(synchronous: String, count: Int, budget: Double, rounds: Int) async throws -> Benchmark {
        var results: [Comparison.Round] = []
        for _ in 0..<rounds {
            let pair = try await Pair(Rows(.text, count: count), synchronous: synchronous)
            var turns = Alternation()
            for index in pair.rows.keys.indices {
                try turns.take(subject: { try pair.insert(pair.tracked, index) }, baseline: { try pair.insert(pair.plain, index) })
            }
            results.append(turns.round)
        }
        return Benchmark(
            name: "tracked one-row commits, \(synchronous == "FULL" ? "durable" : "NORMAL")", against: "untracked", budget: .atMost(budget),
            work: count, comparison: Comparison(rounds: results))
    }
}

/// Two files in WAL mode with the same rows, one of them tracked.
final class Pair {
    typealias Work = (BareConnection, Int) throws -> Void

    let folder: BenchmarkFolder
    let rows: Rows
    let plain: BareConnection
    let tracked: BareConnection

    init(_ rows: Rows, synchronous: String) async throws {
        folder = try BenchmarkFolder()
        self.rows = rows
        for name in ["plain.db", "tracked.db"] {
            let connection = try BareConnection(folder.file(name))
            try connection.execute("PRAGMA journal_mode = WAL")
            try connection.execute(rows.schema)
        }
        let store = try Store(path: folder.file("tracked.db"))
        _ = try await store.track(.all)
        try store.close()
        plain = try BareConnection(folder.file("plain.db"))
        tracked = try BareConnection(folder.file("tracked.db"))
        for connection in [plain, tracked] { try connection.execute("PRAGMA synchronous = \(synchronous)") }
    }

    var phases: [(name: String, order: [Int], work: Work)] {
        let rows = rows
        let shuffled = rows.shuffled()
        return [
            ("insert", Array(rows.keys.indices), { try $0.run(Rows.insert, rows.row($1)) }),
            ("update", shuffled, { try $0.run(Rows.update, Array(rows.row($1, version: 1).prefix(3))) }),
            ("delete", shuffled, { try $0.run(Rows.delete, [rows.keys[$1]]) }),
        ]
    }

    func transaction(_ connection: BareConnection, _ indices: ArraySlice<Int>, isNamed: Bool = false, _ work: Work) throws {
        try connection.execute("BEGIN IMMEDIATE")
        if isNamed { try connection.run("INSERT INTO annals_context(author) VALUES (?)", [.text("till 3")]) }
        for index in indices { try work(connection, index) }
        if isNamed { try connection.run("DELETE FROM annals_context", []) }
        try connection.execute("COMMIT")
    }

    func insert(_ connection: BareConnection, _ index: Int) throws {
        try connection.run(Rows.insert, rows.row(index))
    }
}
