import Annals
import AnnalsStore
import Foundation
import GRDB
import Synchronization

/// The cost of a long history: of reading a page, and of a purge while another program writes.
enum HistoryBenchmarks {
    private static let perTransaction = 100
    private static let rows = 10_000

    /// Transactions on a page.
    private static let page = 50
    private static let pages = 200

    /// Pages after tokens in a long history, compared with pages of a short one.
    static func page(_ scale: Scale) async throws -> Benchmark {
        let folder = try BenchmarkFolder()
        let changes = scale.rounds > 2 ? 10_000_000 : 1_000_000
        let long = try await store(folder.file("long.db"), changes: changes)
        let short = try await store(folder.file("short.db"), changes: 10_000)
        var results: [Comparison.Round] = []
        for round in 0..<scale.rounds {
            var turns = Alternation()
            for number in 0..<pages {
                let place = Double((number * 37 + round * 11) % pages) / Double(pages)
                try await turns.take(subject: { try await read(long, at: place) }, baseline: { try await read(short, at: place) })
            }
            results.append(turns.round)
        }
        try long.close()
        try short.close()
        return Benchmark(
            name: "a page of history after a token, of \(changes) changes", against: "of 10000 changes", budget: .atMost(1.5), work: pages,
            comparison: Comparison(rounds: results))
    }

    static func read(_ store: Store, at place: Double) async throws {
        _ = try await store.read { db in
            let reader = try HistoryReader(db)
            let span = Double(reader.bounds.latest.number - Int64(page))
            let token = try reader.bounds.resolve(String(Int64(span * place)), db)
            var count = 0
            for transaction in try reader.transactions(HistoryRequest(after: token).limit(page)) {
                try reader.forEachChange(in: transaction) { _ in count += 1 }
            }
            return count
        }
    }

    /// The longest one-row commit on another connection during a purge, compared with the longest without a purge.
    static func purge(_ scale: Scale) async throws -> Benchmark {
        let folder = try BenchmarkFolder()
        let changes = scale.rounds > 2 ? 5_000_000 : 500_000
        let store = try await store(folder.file("purged.db"), changes: changes)
        var round = Comparison.Round()
        round.baseline = try await longestCommit(folder.file("purged.db")) {
            for _ in 0..<2_000 { try await store.recordExternalChanges() }
        }
        round.subject = try await longestCommit(folder.file("purged.db")) { _ = try await store.purge(.untilConsumed) }
        try store.close()
        return Benchmark(
            name: "longest commit during a purge of \(changes) changes", against: "without a purge", budget: .none, work: changes,
            comparison: Comparison(rounds: [round]))
    }

    private static func longestCommit(_ path: String, during work: @Sendable () async throws -> Void) async throws -> Double {
        let isOver = Flag()
        return try await withThrowingTaskGroup(of: Double.self) { group in
            group.addTask {
                let connection = try BareConnection(path)
                let clock = ContinuousClock()
                var longest = Duration.zero
                var number: Int64 = 0
                while !isOver.isRaised {
                    number += 1
                    let start = clock.now
                    try connection.run("UPDATE item SET size = ?1 WHERE id = ?2", [.integer(number), .integer(number % 1_000)])
                    longest = max(longest, clock.now - start)
                }
                return longest / .seconds(1)
            }
            defer { isOver.raise() }
            try await work()
            isOver.raise()
            return try await group.next() ?? 0
        }
    }

    /// A store with this many changes in its history. All of them are updates.
    static func store(_ path: String, changes: Int) async throws -> Store {
        let writer = try BareConnection(path)
        let rows = Rows(.integer, count: rows)
        try writer.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")
        try writer.execute(rows.schema)
        try writer.execute("BEGIN")
        for index in rows.keys.indices { try writer.run(Rows.insert, rows.row(index)) }
        try writer.execute("COMMIT")
        let store = try Store(path: path)
        _ = try await store.track(.all)
        for number in 0..<(changes / perTransaction) {
            let first = Int64(number * perTransaction % Self.rows)
            try writer.run(
                "UPDATE item SET size = size + 1, name = 'name ' || ?3 WHERE id BETWEEN ?1 AND ?2",
                [.integer(first + 1), .integer(first + Int64(perTransaction)), .integer(Int64(number))])
            try await store.recordExternalChanges()
        }
        return store
    }
}

/// Signals a thread to end.
private final class Flag: Sendable {
    private let state = Atomic(false)
    var isRaised: Bool { state.load(ordering: .relaxed) }
    func raise() { state.store(true, ordering: .relaxed) }
}
