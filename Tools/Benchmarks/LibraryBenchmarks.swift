import Annals
import Foundation
import Synchronization

/// The cost of lists, edits and batches in an app, compared with plain GRDB on the same rows.
enum LibraryBenchmarks {
    static func run(_ scale: Scale) async throws -> [Benchmark] {
        [try await list(scale), try await save(scale), try await batch(scale)]
    }

    private struct Item: Codable, FetchableRecord, PersistableRecord, Identifiable, Hashable, Sendable {
        static let databaseTableName = "item"
        var id: Int64
        var name: String
        var size: Int
        var price: Double
        var note: String
        var at: Int

        init(_ id: Int64) {
            (self.id, name, size, price) = (id, "name \(id)", Int(id) * 7, Double(id) * 1.25)
            (note, at) = ("a note of the usual length, number \(id)", 1_700_000_000 + Int(id))
        }
    }

    private static func store(_ folder: BenchmarkFolder, _ name: String, isTracked: Bool = true, rows: Int) async throws -> Store {
        _ = try Rows(.integer, count: rows).file(folder.file(name))
        let store = try Store(path: folder.file(name))
        if isTracked { _ = try await store.track(.all) }
        return store
    }

    // MARK: Lists

    /// The time from a commit until the list shows it.
    private static func list(_ scale: Scale) async throws -> Benchmark {
        let folder = try BenchmarkFolder()
        let store = try await store(folder, "list.db", rows: 10_000)
        let other = try await self.store(folder, "read.db", rows: 10_000)
        var lists = FetchedResults(Item.order(Column("name")), in: store).makeAsyncIterator()
        _ = try await lists.next()
        var rounds: [Comparison.Round] = []
        var number = 0
        for _ in 0..<scale.rounds {
            var turns = Alternation()
            for _ in 0..<50 {
                number += 1
                let (id, size) = (Int64(number * 37 % 10_000 + 1), number)
                try await turns.take(
                    subject: {
                        try await write(size, to: id, of: store)
                        guard let shown = try await lists.next(), shown.itemIdentifiers.count == 10_000 else { throw Failure() }
                    },
                    baseline: {
                        try await write(size, to: id, of: other)
                        guard try await other.read({ db in try Item.order(Column("name")).fetchAll(db) }).count == 10_000 else {
                            throw Failure()
                        }
                    })
            }
            rounds.append(turns.round)
        }
        for store in [store, other] { try store.close() }
        return Benchmark(
            name: "a list of 10,000 rows shows a commit, \(scale.rounds * 50) times", against: "all rows are read again",
            budget: .atMost(1),
            work: scale.rounds * 50, comparison: Comparison(rounds: rounds))
    }

    private static func write(_ size: Int, to id: Int64, of store: Store) async throws {
        try await store.write { db in try db.execute(sql: "UPDATE item SET size = ? WHERE id = ?", arguments: [size, id]) }
    }

    // MARK: Edits

    private static func save(_ scale: Scale) async throws -> Benchmark {
        let folder = try BenchmarkFolder()
        let store = try await store(folder, "save.db", rows: 1_000)
        let context = try await store.editContext()
        var rounds: [Comparison.Round] = []
        for round in 0..<scale.rounds {
            var turns = Alternation()
            for number in 1...500 {
                let id = Int64(number)
                guard let item = try await context.fetchOne(Item.filter(key: id)) else { throw Failure() }
                try await turns.take(
                    subject: {
                        try context.edit(item) { $0.size = round * 1_000 + number }
                        try await context.save()
                    },
                    baseline: {
                        try await store.write { db in
                            guard var item = try Item.fetchOne(db, key: id + 500) else { throw Failure() }
                            item.size = round * 1_000 + number
                            try item.update(db)
                        }
                    })
            }
            rounds.append(turns.round)
        }
        try store.close()
        return Benchmark(
            name: "an edited row is saved, \(500 * scale.rounds) times", against: "GRDB reads and updates it in a tracked file",
            budget: .none,
            work: 500 * scale.rounds, comparison: Comparison(rounds: rounds))
    }

    // MARK: Batches

    private static func batch(_ scale: Scale) async throws -> Benchmark {
        let count = scale.rounds > 2 ? 1_000_000 : 100_000
        var rounds: [Comparison.Round] = []
        for _ in 0..<min(scale.rounds, 3) {
            let folder = try BenchmarkFolder()
            let stores = [
                try await store(folder, "batch.db", rows: 0), try await store(folder, "plain.db", isTracked: false, rows: 0),
            ]
            var turns = Alternation()
            try await turns.take(
                subject: {
                    let last = Mutex<Int64>(0)
                    let request = BatchInsertRequest(Item.self) {
                        let id = last.withLock { last in
                            last += 1
                            return last
                        }
                        return id > count ? nil : Item(id)
                    }
                    guard try await stores[0].execute(request).count == count else { throw Failure() }
                },
                baseline: {
                    try await stores[1].write { db in
                        for id in 1...Int64(count) { try Item(id).insert(db) }
                    }
                })
            for store in stores { try store.close() }
            rounds.append(turns.round)
        }
        return Benchmark(
            name: "a batch of \(count) rows, tracked", against: "GRDB inserts them, untracked", budget: .none, work: count,
            comparison: Comparison(rounds: rounds))
    }

    private struct Failure: Error {}
}
