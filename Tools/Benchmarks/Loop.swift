import Annals
import AnnalsStore
import AnnalsWire
import CInstructionCount
import Foundation

/// The core loops, each with a fixed amount of data, for counting instructions: see `Scripts/count-instructions`.
enum Loop: String, CaseIterable {
    case capture, named, prepare, open, encode, decode, apply, rebase, history

    private static let rows = 2_000

    /// Runs the loop once as a warm-up, and once for counting. Returns a description of the counted work.
    func run() async throws -> String {
        switch self {
        case .capture: try await capture(isNamed: false)
        case .named: try await capture(isNamed: true)
        case .prepare: try await twice(FirstUseBenchmarks.preparation(100), "3 statements compiled 100 times")
        case .open: try await twice(FirstUseBenchmarks.opening(tables: 100), "a file of 100 tables opened")
        case .encode: try encode()
        case .decode: try decode()
        case .apply: try await apply()
        case .rebase: try await rebase()
        case .history: try await history()
        }
    }

    private static func counted<T>(_ work: () throws -> T) rethrows -> T {
        annals_count_begin()
        defer { annals_count_end() }
        return try work()
    }

    private static func counted<T>(_ work: () async throws -> T) async rethrows -> T {
        annals_count_begin()
        defer { annals_count_end() }
        return try await work()
    }

    private func twice(_ work: () throws -> Void, _ what: String) throws -> String {
        try work()
        try Self.counted(work)
        return what
    }

    private func capture(isNamed: Bool) async throws -> String {
        let rows = Rows(.text, count: 2 * Self.rows)
        let pair = try await Pair(rows, synchronous: "OFF")
        for half in 0..<2 {
            let work = {
                for (_, _, work) in pair.phases {
                    for indices in Array(half * Self.rows..<(half + 1) * Self.rows).chunks(of: 100) {
                        try pair.transaction(pair.tracked, indices, isNamed: isNamed, work)
                    }
                }
            }
            try half == 0 ? work() : Self.counted(work)
        }
        return "\(3 * Self.rows) changes"
    }

    private func encode() throws -> String {
        let transactions = EncodeBenchmarks.samples(Self.rows / 10)
        _ = try EncodeBenchmarks.batch(transactions)
        _ = try Self.counted { try EncodeBenchmarks.batch(transactions) }
        return "\(Self.rows) changes"
    }

    private func decode() throws -> String {
        let batch = try EncodeBenchmarks.batch(EncodeBenchmarks.samples(Self.rows / 10))
        func read() throws {
            let batch = try Batch.open(batch)
            var change = WireChange()
            for index in batch.header.certificates.indices {
                var body = try batch.body(index)
                while try body.nextTable() != nil { while try body.nextChange(into: &change) {} }
                _ = try body.rest()
            }
        }
        try read()
        try Self.counted(read)
        return "\(Self.rows) changes"
    }

    private func apply() async throws -> String {
        let rows = Rows(.text, count: 2 * Self.rows)
        let fleet = try await Fleet(rows, present: 0)
        try await fleet.clone("reader")
        for half in 0..<2 {
            let indices = Array(half * Self.rows..<(half + 1) * Self.rows)
            try await fleet.write("author", indices, perTransaction: 100) { try $0.run(Rows.insert, rows.row($1)) }
            try await fleet.sync("author", .pushOnly)
            let pages = try await fleet.pages(after: "reader")
            let store = try Store(path: fleet.folder.file("reader.db"))
            let work = { for page in pages { _ = try await store.apply(page) } }
            try await half == 0 ? work() : Self.counted(work)
            try store.close()
        }
        return "\(Self.rows) changes"
    }

    private func rebase() async throws -> String {
        let rows = Rows(.text, count: Self.rows)
        let fleet = try await Fleet(rows, present: Self.rows)
        try await fleet.clone("laggard")
        let half = Self.rows / 2
        func write(_ name: String, _ indices: [Int], _ version: Int) async throws {
            try await fleet.write(name, indices, perTransaction: 100) { connection, index in
                try connection.run(Rows.update, Array(rows.row(index, version: version).prefix(3)))
            }
        }
        try await write("author", Array(0..<half), 1)
        try await fleet.sync("author", .pushOnly)
        try await write("laggard", MergeBenchmarks.Meeting.each.indices(half), 2)
        let pages = try await fleet.pages(after: "laggard")
        let store = try Store(path: fleet.folder.file("laggard.db"))
        try await Self.counted { for page in pages { _ = try await store.apply(page) } }
        try store.close()
        return "\(half) changes rebased on \(half)"
    }

    private func history() async throws -> String {
        let folder = try BenchmarkFolder()
        let store = try await HistoryBenchmarks.store(folder.file("history.db"), changes: 10 * Self.rows)
        for place in [0.1, 0.5] {
            let work = { try await HistoryBenchmarks.read(store, at: place) }
            try await place < 0.5 ? work() : Self.counted(work)
        }
        try store.close()
        return "a page of 50 transactions"
    }
}
