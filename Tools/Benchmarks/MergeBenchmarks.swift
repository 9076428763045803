import Annals
import AnnalsStore
import AnnalsWire

/// The cost of applying entries of other replicas, and of rebasing an outbox.
enum MergeBenchmarks {
    enum Work: String, CaseIterable {
        case inserts, updates, deletes
    }

    /// Applying pulled changes, compared with plain upserts or deletes of the same rows in one transaction.
    static func apply(_ work: Work, _ scale: Scale) async throws -> Benchmark {
        let rows = Rows(.text, count: scale.rows)
        let fleet = try await Fleet(rows, present: work == .inserts ? 0 : scale.rows)
        try await fleet.clone("reader")
        let version = work == .updates ? 1 : 0
        let order = work == .inserts ? Array(rows.keys.indices) : rows.shuffled()
        try await fleet.write("author", order, perTransaction: 100) { connection, index in
            switch work {
            case .inserts: try connection.run(Rows.insert, rows.row(index))
            case .updates: try connection.run(Rows.update, Array(rows.row(index, version: version).prefix(3)))
            case .deletes: try connection.run(Rows.delete, [rows.keys[index]])
            }
        }
        try await fleet.sync("author", .pushOnly)
        let pages = try await fleet.pages(after: "reader")
        try await plainCopy(of: "reader", in: fleet)

        var results: [Comparison.Round] = []
        for _ in 0..<scale.rounds {
            let store = try Store(path: try fleet.folder.copy("reader.db", to: "round.db"))
            let plain = try BareConnection(try fleet.folder.copy("plain.db", to: "plain-round.db"))
            // The cache has the same size as in a merge, so that the comparison does not measure the size of the cache.
            try plain.execute("PRAGMA cache_size = -4096")
            var turns = Alternation()
            try await turns.take(
                subject: { for page in pages { _ = try await store.apply(page) } },
                baseline: {
                    try plain.execute("BEGIN IMMEDIATE")
                    for index in order {
                        if work == .deletes {
                            try plain.run(Rows.delete, [rows.keys[index]])
                        } else {
                            try plain.run(Rows.upsert, rows.row(index, version: version))
                        }
                    }
                    try plain.execute("COMMIT")
                })
            results.append(turns.round)
            try store.close()
        }
        return Benchmark(
            name: "apply pulled \(work.rawValue), 100 a transaction", against: "plain \(work == .deletes ? "deletes" : "upserts")",
            budget: .atMost(2.5), work: scale.rows, comparison: Comparison(rounds: results))
    }

    /// The same rows in a file that is not tracked.
    private static func plainCopy(of name: String, in fleet: Fleet) async throws {
        let path = try fleet.folder.copy("\(name).db", to: "plain.db")
        let store = try Store(path: path)
        _ = try await store.leave(force: true)
        _ = try await store.untrack()
        try store.close()
    }

    /// How much of an outbox conflicts with the pulled entries.
    enum Meeting: String, CaseIterable {
        case first = "one of 100 transactions conflicts"
        case each = "each transaction conflicts"

        /// The rows that the outbox writes. Each of its transactions writes a hundredth of them. The author writes the first half of all
        /// rows, so the indices below `count` conflict.
        func indices(_ count: Int) -> [Int] {
            switch self {
            case .first: [0] + Array(count + 1..<2 * count)
            case .each: (0..<count).map { $0.isMultiple(of: 100) ? $0 : count + $0 }
            }
        }
    }

    /// Rebasing an outbox of 10,000 changes on 1,000 transactions, compared with applying both without a rebase.
    static func rebase(_ meeting: Meeting, _ scale: Scale) async throws -> Benchmark {
        let rows = Rows(.text, count: 20_000)
        let fleet = try await Fleet(rows, present: 20_000)
        for name in ["laggard", "fresh"] { try await fleet.clone(name) }
        try await fleet.write("author", Array(0..<10_000), perTransaction: 10) { connection, index in
            try connection.run(Rows.update, Array(rows.row(index, version: 1).prefix(3)))
        }
        try await fleet.sync("author", .pushOnly)
        try await fleet.write("laggard", meeting.indices(10_000), perTransaction: 100) { connection, index in
            try connection.run(Rows.update, Array(rows.row(index, version: 2).prefix(3)))
        }
        let incoming = try await fleet.pages(after: "laggard")
        _ = try fleet.folder.copy("laggard.db", to: "pushed.db")
        try await fleet.sync("pushed")
        let all = try await fleet.pages(after: "fresh")
        return try await compare(
            fleet, ("laggard", incoming), ("fresh", all), name: "rebase of 10,000 changes, \(meeting.rawValue)",
            against: "both applied without a rebase",
            budget: .atMost(2.5), work: 20_000, scale)
    }

    /// A pull without conflicts and with a full outbox, compared with a pull with an empty outbox.
    static func disjointPull(_ scale: Scale) async throws -> Benchmark {
        let rows = Rows(.text, count: 20_000)
        let fleet = try await Fleet(rows, present: 20_000)
        for name in ["laggard", "fresh"] { try await fleet.clone(name) }
        try await fleet.write("author", Array(0..<10_000), perTransaction: 10) { connection, index in
            try connection.run(Rows.update, Array(rows.row(index, version: 1).prefix(3)))
        }
        try await fleet.sync("author", .pushOnly)
        try await fleet.write("laggard", Array(10_000..<20_000), perTransaction: 100) { connection, index in
            try connection.run(Rows.update, Array(rows.row(index, version: 2).prefix(3)))
        }
        let pages = try await fleet.pages(after: "laggard")
        return try await compare(
            fleet, ("laggard", pages), ("fresh", pages), name: "pull with 10,000 disjoint changes in the outbox",
            against: "with an empty outbox",
            budget: .atMost(1.2), work: 10_000, scale)
    }

    private static func compare(
        _ fleet: Fleet, _ subject: (name: String, pages: [Page]), _ baseline: (name: String, pages: [Page]), name: String, against: String,
        budget: Budget, work: Int, _ scale: Scale
    ) async throws -> Benchmark {
        var results: [Comparison.Round] = []
        for _ in 0..<scale.rounds {
            let one = try Store(path: try fleet.folder.copy("\(subject.name).db", to: "one.db"))
            let other = try Store(path: try fleet.folder.copy("\(baseline.name).db", to: "other.db"))
            var turns = Alternation()
            try await turns.take(
                subject: { for page in subject.pages { _ = try await one.apply(page) } },
                baseline: { for page in baseline.pages { _ = try await other.apply(page) } })
            results.append(turns.round)
            try one.close()
            try other.close()
        }
        return Benchmark(name: name, against: against, budget: budget, work: work, comparison: Comparison(rounds: results))
    }
}
