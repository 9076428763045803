import Annals
import Foundation

/// What a program pays that keeps no statements and no connections, for example PHP, a shell or a cron job. And what `track` pays.
enum FirstUseBenchmarks {
    static func run(_ scale: Scale) async throws -> [Benchmark] {
        var results: [Benchmark] = []
        for (columns, budget) in [(12, Budget.atMost(10)), (60, .none), (200, .none)] {
            results += try await preparing(columns: columns, budget, scale)
        }
        return try await results + opening(scale) + tracking(300, budget: 1, scale) + tracking(1_000, budget: 3, scale)
    }

    /// One-row statements on a tracked table of 12 text columns, for counting instructions. Compiles each of the three `count` times.
    static func preparation(_ count: Int) async throws -> () throws -> Void {
        let columns = (0..<12).map { "c\($0) TEXT" }.joined(separator: ", ")
        let files = try await Files(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, \(columns))")
        return { for _ in 0..<count { for sql in statements { try files.tracked.compile(sql) } } }
    }

    /// Opens a tracked file of so many tables, for counting instructions.
    static func opening(tables: Int) async throws -> () throws -> Void {
        let files = try await Files(schema: schema(tables: tables))
        return { try files.open("tracked.db") }
    }

    private static let statements = [
        "UPDATE t SET c1 = 'y' WHERE id = 1", "INSERT INTO t(c1) VALUES ('y')", "DELETE FROM t WHERE id = 1",
    ]

    /// One-row statements that are compiled and not run, on tables with text columns.
    private static func preparing(columns: Int, _ budget: Budget, _ scale: Scale) async throws -> [Benchmark] {
        let names = (0..<columns).map { "c\($0)" }
        let files = try await Files(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, \(names.map { "\($0) TEXT" }.joined(separator: ", ")))")
        return try zip(["UPDATE", "INSERT", "DELETE"], statements).map { name, sql in
            let budget = name == "UPDATE" ? budget : .none
            let count = scale.rows / 100
            let rounds = try (0..<scale.rounds).map { _ in
                var turns = Alternation()
                for _ in 0..<10 {
                    try turns.take(
                        subject: { for _ in 0..<count / 10 { try files.tracked.compile(sql) } },
                        baseline: { for _ in 0..<count / 10 { try files.plain.compile(sql) } })
                }
                return turns.round
            }
            return Benchmark(
                name: "preparing \(name), \(columns) text columns", against: "untracked", budget: budget, work: count,
                comparison: Comparison(rounds: rounds))
        }
    }

    /// SQLite reads the text of the whole schema when a connection is first used. An update trigger has more text for a column with long
    /// texts.
    private static func opening(_ scale: Scale) async throws -> [Benchmark] {
        let count = 300
        var results: [Benchmark] = []
        for (what, text, budgets) in [
            ("", nil, (open: Budget.atMost(25), size: Budget.atMost(9))),
            (", long texts", "a text of more than eight characters", (.none, .none)),
        ] {
            let files = try await Files(schema: schema(tables: count, text: text))
            let rounds = try (0..<scale.rounds).map { _ in
                var turns = Alternation()
                for _ in 0..<20 { try turns.take(subject: { try files.open("tracked.db") }, baseline: { try files.open("plain.db") }) }
                return turns.round
            }
            let bytes = try Double(files.size("tracked.db") - files.size("plain.db")) / Double(count)
            results += [
                Benchmark(
                    name: "opening a connection, \(count) tables of 13 columns\(what)", against: "untracked", budget: budgets.open,
                    work: 20,
                    comparison: Comparison(rounds: rounds)),
                Benchmark(
                    name: "bytes that tracking alone adds to a file, a table\(what)", against: "1 KB", budget: budgets.size, work: 0,
                    comparison: Comparison(rounds: [.init(subject: bytes, baseline: 1_000)])),
            ]
        }
        return results
    }

    private static func tracking(_ count: Int, budget: Double, _ scale: Scale) async throws -> [Benchmark] {
        var rounds: [Comparison.Round] = []
        for _ in 0..<min(scale.rounds, 2) {
            let begun = ContinuousClock.now
            let files = try await Files(schema: schema(tables: count))
            rounds.append(.init(subject: (begun.duration(to: .now) - files.before) / .seconds(1), baseline: 1))
        }
        return [
            Benchmark(
                name: "track of \(count) tables", against: "one second", budget: .atMost(budget), work: count,
                comparison: Comparison(rounds: rounds))
        ]
    }

    /// - Parameter text: the text columns of a row in each table; nil for no rows.
    private static func schema(tables count: Int, text: String? = nil) -> String {
        let names = (0..<12).filter { !$0.isMultiple(of: 3) }.map { "c\($0)" }
        let columns = (0..<12).map { "c\($0) \($0.isMultiple(of: 3) ? "INTEGER" : "TEXT")" }.joined(separator: ", ")
        let row = text.map { text in
            "(\(names.joined(separator: ", "))) VALUES(\(names.map { _ in "'\(text)'" }.joined(separator: ", ")));"
        }
        return (0..<count).map { number in
            "CREATE TABLE t\(number)(id INTEGER PRIMARY KEY, \(columns));" + (row.map { "INSERT INTO t\(number)\($0)" } ?? "")
        }.joined()
    }

    /// Two files with the same schema, one of them tracked.
    private struct Files {
        let folder: BenchmarkFolder
        let plain: BareConnection
        let tracked: BareConnection
        /// The time until `track` began.
        let before: Duration

        init(schema: String) async throws {
            let begun = ContinuousClock.now
            folder = try BenchmarkFolder()
            for name in ["plain.db", "tracked.db"] {
                let connection = try BareConnection(folder.file(name))
                try connection.execute("BEGIN; \(schema); COMMIT")
            }
            before = begun.duration(to: .now)
            let store = try Store(path: folder.file("tracked.db"))
            _ = try await store.track(.all)
            try store.close()
            plain = try BareConnection(folder.file("plain.db"))
            tracked = try BareConnection(folder.file("tracked.db"))
        }

        func open(_ name: String) throws {
            _ = try BareConnection(folder.file(name)).integer("SELECT count(*) FROM sqlite_master WHERE name = ''")
        }

        func size(_ name: String) throws -> Int {
            try (FileManager.default.attributesOfItem(atPath: folder.file(name))[.size] as? Int) ?? 0
        }
    }
}
