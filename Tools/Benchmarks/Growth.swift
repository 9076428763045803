import Annals
import AnnalsHTTP
import AnnalsWire
import Foundation

/// The cost of each operation at growing sizes of something that it may depend on.
///
/// A line is one operation at several sizes, in seconds per unit. If no operation is slower than n log n, the numbers of a line
/// differ only by a small factor from the smallest size to the largest.
final class Growth: Encodable {
    struct Line: Encodable {
        var work: String
        /// The size that grows.
        var of: String
        var points: [Point]
    }

    struct Point: Encodable {
        var size: Int
        /// Seconds per unit.
        var seconds: Double
    }

    private(set) var lines: [Line] = []
    private let folder: BenchmarkFolder
    private let relay: ChildProgram
    private let address: String
    private let largest: Int
    private let only: String?

    /// Measures only lines with `only` in the name of the growing size.
    init(_ scale: Scale, only: String?) throws {
        self.only = only
        folder = try BenchmarkFolder()
        (relay, address) = try ChildProgram.relay(["--data", folder.file("relay")])
        largest = scale.rounds > 2 ? 1_000_000 : 100_000
    }

    private enum CodingKeys: CodingKey { case lines }

    func run() async throws {
        let many = [1_000, 10_000, 100_000, 1_000_000].filter { $0 <= largest }
        try await add("a row written by another program", "rows in one transaction", many, writtenRow)
        try await add("a row applied", "rows pulled", many, appliedRow)
        try await add("a change of an outbox, rebased", "changes on either side", many.dropLast(), rebasedChange)
        try await add("a row of a clone", "rows of the space", many, clonedRow)
        try await add("a one-row commit, recorded and pushed", "transactions before it", many.dropLast(), commit)
        try await add("a sync with nothing to do", "rows of the store", many) { try await idle(tables: 1, columns: 6, rows: $0) }
        try await add("a sync with nothing to do", "tables of the store", [10, 100, 1_000]) {
            try await idle(tables: $0, columns: 6, rows: 1)
        }
        try await add("a value written by another program", "columns of the table", [10, 100, 1_000], writtenValue)
        try await add("a push", "replicas of the space", [10, 100, 1_000, 10_000], pushAmongReplicas)
        try await add("a push", "spaces of the relay", [10, 100, 1_000, 5_000], pushAmongSpaces)
    }

    private func add(
        _ work: String, _ of: String, _ sizes: some Sequence<Int>, _ measure: (Int) async throws -> Double
    ) async throws {
        guard only.map({ of.contains($0) }) ?? true else { return }
        FileHandle.standardError.write(Data("\(work), \(of) …\n".utf8))
        var points: [Point] = []
        for size in sizes { points.append(Point(size: size, seconds: try await measure(size))) }
        lines.append(Line(work: work, of: of, points: points))
    }

    // MARK: Tables

    func table() -> String {
        let heading = ["work", "size", "cost, each", "largest size against smallest"]
        let rows = lines.map { line in
            let costs = line.points.map { "\($0.size): \(Self.text($0.seconds))" }.joined(separator: ", ")
            let growth = (line.points.last?.seconds ?? 0) / (line.points.first?.seconds ?? 1)
            return [line.work, line.of, costs, String(format: "%.2f", growth)]
        }
        return ([heading, heading.map { _ in "---" }] + rows).map { "| \($0.joined(separator: " | ")) |" }.joined(separator: "\n")
    }

    func json() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        return String(decoding: try encoder.encode(self), as: UTF8.self)
    }

    private static func text(_ seconds: Double) -> String {
        seconds < 1e-3 ? String(format: "%.1f µs", seconds * 1e6) : String(format: "%.2f ms", seconds * 1e3)
    }

    // MARK: Work

    private func seconds(_ work: () throws -> Void) rethrows -> Double {
        try ContinuousClock().measure(work) / .seconds(1)
    }

    private func seconds(_ work: () async throws -> Void) async rethrows -> Double {
        let start = ContinuousClock.now
        try await work()
        return (ContinuousClock.now - start) / .seconds(1)
    }

    private func writtenRow(_ count: Int) async throws -> Double {
        let pair = try await Pair(Rows(.text, count: count), synchronous: "NORMAL")
        let indices = Array(pair.rows.keys.indices)
        return try seconds { try pair.transaction(pair.tracked, indices[...]) { try $0.run(Rows.insert, pair.rows.row($1)) } }
            / Double(count)
    }

    private func appliedRow(_ count: Int) async throws -> Double {
        let rows = Rows(.text, count: count)
        let fleet = try await Fleet(rows, present: 0)
        try await fleet.clone("reader")
        try await fleet.write("author", Array(rows.keys.indices), perTransaction: 100) { try $0.run(Rows.insert, rows.row($1)) }
        try await fleet.sync("author", .pushOnly)
        let pages = try await fleet.pages(after: "reader")
        let store = try Store(path: fleet.folder.file("reader.db"))
        defer { try? store.close() }
        return try await seconds { for page in pages { _ = try await store.apply(page) } } / Double(count)
    }

    private func rebasedChange(_ count: Int) async throws -> Double {
        let rows = Rows(.text, count: 2 * count)
        let fleet = try await Fleet(rows, present: 2 * count)
        try await fleet.clone("laggard")
        func write(_ name: String, _ indices: [Int], _ version: Int) async throws {
            try await fleet.write(name, indices, perTransaction: 100) { connection, index in
                try connection.run(Rows.update, Array(rows.row(index, version: version).prefix(3)))
            }
        }
        try await write("author", Array(0..<count), 1)
        try await fleet.sync("author", .pushOnly)
        try await write("laggard", MergeBenchmarks.Meeting.each.indices(count), 2)
        let pages = try await fleet.pages(after: "laggard")
        let store = try Store(path: fleet.folder.file("laggard.db"))
        defer { try? store.close() }
        return try await seconds { for page in pages { _ = try await store.apply(page) } } / Double(count)
    }

    private func clonedRow(_ count: Int) async throws -> Double {
        let store = try await joined("clone\(count)", tables: 1, columns: 6, rows: count).store
        defer { try? store.close() }
        return try seconds {
            try ChildProgram.run(ChildProgram.annals(), ["clone", address, "clone\(count)", folder.file("copy\(count).db")])
        } / Double(count)
    }

    private func commit(_ before: Int) async throws -> Double {
        let (store, agent, writer) = try await joined("commit\(before)", tables: 1, columns: 6, rows: 1)
        defer { try? store.close() }
        func write(_ count: Int) async throws {
            for number in 0..<count {
                try writer.execute("UPDATE t0 SET c1 = \(number)")
                try await store.recordExternalChanges()
            }
        }
        try await write(before)
        _ = try await agent.sync()
        let count = 200
        return try await seconds {
            try await write(count)
            _ = try await agent.sync()
        } / Double(count)
    }

    private func idle(tables: Int, columns: Int, rows: Int) async throws -> Double {
        let (store, agent, _) = try await joined("idle\(tables)-\(rows)", tables: tables, columns: columns, rows: rows)
        defer { try? store.close() }
        for _ in 0..<5 { _ = try await agent.sync() }
        let count = 100
        return try await seconds { for _ in 0..<count { _ = try await agent.sync() } } / Double(count)
    }

    private func writtenValue(_ columns: Int) async throws -> Double {
        let path = folder.file("columns\(columns).db")
        let writer = try BareConnection(path)
        try writer.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; \(Self.schema(tables: 1, columns: columns))")
        let store = try Store(path: path)
        _ = try await store.track(.all)
        try store.close()
        let values = (1..<columns).map { "'value \($0)'" }.joined(separator: ", ")
        let count = 20_000 / columns
        return try seconds {
            try writer.execute("BEGIN")
            for number in 0..<count { try writer.run("INSERT INTO t0 VALUES(?, \(values))", [.integer(Int64(number))]) }
            try writer.execute("COMMIT")
        } / Double(count * columns)
    }

    private func pushAmongReplicas(_ count: Int) async throws -> Double {
        let client = try HTTPClient()
        guard let space = SpaceName("replicas\(count)") else { return .nan }
        let lineage = try await RelayBenchmarks.create(space, address, client)
        for number in 0..<count {
            let batches = try RelayBenchmarks.batches(1, by: number, in: lineage)
            _ = try await RelayBenchmarks.post([batches], to: [address], Endpoints.push(space), expecting: 200, client)
        }
        return try await push(200, by: count, space, lineage, client)
    }

    private func pushAmongSpaces(_ count: Int) async throws -> Double {
        let client = try HTTPClient()
        for number in 0..<count {
            guard let space = SpaceName("space\(count)-\(number)") else { return .nan }
            _ = try await RelayBenchmarks.create(space, address, client)
        }
        guard let space = SpaceName("spaces\(count)") else { return .nan }
        return try await push(200, by: 1, space, RelayBenchmarks.create(space, address, client), client)
    }

    private func push(_ count: Int, by number: Int, _ space: SpaceName, _ lineage: Lineage, _ client: HTTPClient) async throws -> Double {
        let batches = try RelayBenchmarks.batches(count, by: number, in: lineage)
        let path = Endpoints.push(space)
        return try await seconds {
            _ = try await RelayBenchmarks.post([batches], to: [address], path, expecting: 200, client)
        } / Double(count)
    }

    // MARK: Stores

    private static func schema(tables: Int, columns: Int) -> String {
        let list = (1..<columns).map { "c\($0)" }.joined(separator: ", ")
        return (0..<tables).map { "CREATE TABLE t\($0)(id INTEGER PRIMARY KEY, \(list));" }.joined(separator: "\n")
    }

    private func joined(
        _ space: String, tables: Int, columns: Int, rows: Int
    ) async throws -> (store: Store, agent: SyncAgent, writer: BareConnection) {
        let path = folder.file("\(space).db")
        let writer = try BareConnection(path)
        try writer.execute(
            """
            PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; \(Self.schema(tables: tables, columns: columns))
            WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < \(rows))
            INSERT INTO t0(id, c1, c2) SELECT x, 'name of ' || x, x * 7 FROM c
            """)
        let store = try Store(path: path)
        _ = try await store.track(.all)
        let agent = try SyncAgent(store: store, joining: SpaceAddress(space, at: address, as: "bench"))
        _ = try await agent.sync()
        return (store, agent, writer)
    }
}
