import ArgumentParser
import Foundation

/// Runs the benchmarks on another thread and waits for them. An asynchronous `main` ends the first thread, and valgrind fails then.
@main
enum Program {
    static func main() {
        let isOver = DispatchSemaphore(value: 0)
        Task.detached {
            await AnnalsBench.main()
            isOver.signal()
        }
        isOver.wait()
    }
}

/// Measures what Annals costs compared with plain SQLite, in one run; see Documentation/benchmarks.md.
struct AnnalsBench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "annals-bench", abstract: "Measure the cost of Annals relative to a baseline. Both run alternately in one run.")

    @Flag(help: "Use fewer rows and rounds: about two minutes.")
    var quick = false

    @Flag(help: "Print JSON instead of a table.")
    var json = false

    @Option(
        help:
            "Run only groups with this text in their name: \(Group.allCases.map(\.rawValue).joined(separator: ", ")). With --growth: only lines with this text in the name of the size."
    )
    var only: String?

    @Option(name: .customLong("cr-sqlite"), help: "Also measure cr-sqlite on the same rows, with the library at this path.")
    var crSQLite: String?

    @Option(help: "Also measure sqlite-sync on the same rows, with the library at this path.")
    var sqliteSync: String?

    @Flag(help: "Measure instead the cost of each operation at growing sizes, and print a Markdown table, or JSON.")
    var growth = false

    @Option(help: ArgumentHelp("Run one core loop, for counting instructions.", visibility: .hidden))
    var loop: String?

    enum Group: String, CaseIterable {
        case capture, commits, first, apply, rebase, large, encode, history, clone, relay, catchup, spaces, fanout, fairness, signing, live,
            library, memory, peers
    }

    func validate() throws {
        if let only, !growth, !Group.allCases.contains(where: { $0.rawValue.contains(only) }) {
            throw ValidationError("there is no group \(only)")
        }
    }

    func run() async throws {
        // Baselines have as large a cache, and instruction counts must not depend on the machine's memory. `large` has no limit.
        setenv("ANNALS_WORK_CACHE", "4", 1)
        if let loop {
            guard let loop = Loop(rawValue: loop) else { throw ValidationError("there is no loop \(loop)") }
            print(try await loop.run())
            return
        }
        if growth {
            let growth = try Growth(quick ? .quick : .whole, only: only)
            try await growth.run()
            return print(json ? try growth.json() : growth.table())
        }
        var report = Report()
        for group in Group.allCases where only.map({ group.rawValue.contains($0) }) ?? true {
            FileHandle.standardError.write(Data("\(group.rawValue) …\n".utf8))
            report.benchmarks += try await benchmarks(group, quick ? .quick : .whole)
        }
        print(json ? try report.json() : report.table())
        #if DEBUG
            FileHandle.standardError.write(Data("warning: this is a debug build; measure with a release build\n".utf8))
        #endif
    }

    private func benchmarks(_ group: Group, _ scale: Scale) async throws -> [Benchmark] {
        switch group {
        case .capture:
            var results: [Benchmark] = []
            for key in Rows.Key.allCases {
                for size in [100, 1_000] {
                    results += try await CaptureBenchmarks.statements(key, perTransaction: size, scale)
                }
            }
            results += try await CaptureBenchmarks.statements(.text, perTransaction: 100, isNamed: true, scale)
            return results
        case .commits:
            return [
                try await CaptureBenchmarks.commits(synchronous: "FULL", count: scale.rows / 50, budget: 1.3, rounds: scale.rounds),
                try await CaptureBenchmarks.commits(synchronous: "NORMAL", count: scale.rows / 5, budget: 2, rounds: scale.rounds),
            ]
        case .first:
            return try await FirstUseBenchmarks.run(scale)
        case .apply:
            var results: [Benchmark] = []
            for work in MergeBenchmarks.Work.allCases { results.append(try await MergeBenchmarks.apply(work, scale)) }
            return results
        case .rebase:
            var results: [Benchmark] = []
            for meeting in MergeBenchmarks.Meeting.allCases { results.append(try await MergeBenchmarks.rebase(meeting, scale)) }
            return results + [try await MergeBenchmarks.disjointPull(scale)]
        case .large:
            return try LargeBenchmarks.run(scale)
        case .encode:
            return try EncodeBenchmarks.run(scale)
        case .history:
            return [try await HistoryBenchmarks.page(scale), try await HistoryBenchmarks.purge(scale)]
        case .clone:
            return try await CloneBenchmarks.run(scale)
        case .relay:
            return try await RelayBenchmarks.run(scale)
        case .catchup:
            return try await CatchUpBenchmarks.run(scale)
        case .spaces:
            return try await SpacesBenchmarks.run(scale)
        case .fanout:
            return try await FanoutBenchmarks.run(scale)
        case .fairness:
            return try await FairnessBenchmarks.run(scale)
        case .signing:
            return try await SigningBenchmarks.run(scale)
        case .live:
            return try await LiveBenchmarks.run(scale)
        case .library:
            return try await LibraryBenchmarks.run(scale)
        case .memory:
            return try MemoryBenchmarks.run(scale)
        case .peers:
            let peers = [crSQLite.map(PeerBenchmarks.Extension.crSQLite), sqliteSync.map(PeerBenchmarks.Extension.sqliteSync)]
            return try await PeerBenchmarks.run(scale, extensions: peers.compactMap(\.self))
        }
    }
}
