import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import Foundation
import GRDB
import Testing

/// Ten replicas at the same time: disjoint work does not wait, and all replicas get through on one contended row.
@Suite struct ContentionTests {
    static let schema = """
        CREATE TABLE counter (id INTEGER PRIMARY KEY, value INTEGER NOT NULL);
        CREATE TABLE item (id TEXT PRIMARY KEY NOT NULL, owner INTEGER NOT NULL, text TEXT);
        INSERT INTO counter VALUES (1, 0);
        """

    @Test("Ten replicas that write disjoint rows at once are hardly ever refused")
    func disjoint() async throws {
        let world = try await SyncedStores(replicas: 10, schema: Self.schema)
        let rounds = 20
        let refusals = try await everyone(world) { index in
            var refusals = 0
            for round in 0..<rounds {
                try await world.stores[index].write { db in
                    try db.execute(sql: "INSERT INTO item VALUES (?, ?, 'x')", arguments: ["\(index)-\(round)", index])
                }
                refusals += try await world.sync(index).refusals
            }
            return refusals
        }
        #expect(refusals.reduce(0, +) * 100 < 10 * rounds, "refused: \(refusals)")
        try await world.settle()
        let counts = try await world.stores.asyncMap { store in
            try await store.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM item") }
        }
        #expect(counts == Array(repeating: 10 * rounds, count: 10))
    }

    @Test("Ten replicas that write the same row all get through")
    func sameRow() async throws {
        let world = try await SyncedStores(replicas: 10, schema: Self.schema)
        let refusals = try await everyone(world) { index in
            try await world.stores[index].write { db in
                try db.execute(sql: "UPDATE counter SET value = ? WHERE id = 1", arguments: [index + 1])
            }
            let summary = try await world.sync(index)
            #expect(summary.outbox == 0)
            return summary.refusals
        }
        print("same row, tries again per replica:", refusals.sorted())
        try await world.settle()
        let digests = try await world.stores.asyncMap { try await $0.digest() }
        #expect(Set(digests).count == 1)
    }

    @Test("The same next integer key on both sides comes out as two rows, and children follow")
    func renumber() async throws {
        let world = try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE invoice (id INTEGER PRIMARY KEY, title TEXT);
                CREATE TABLE line (
                    invoice INTEGER NOT NULL REFERENCES invoice (id), number INTEGER NOT NULL, text TEXT, PRIMARY KEY (invoice, number));
                INSERT INTO invoice VALUES (1, 'old');
                """)
        try world.outside(0, "INSERT INTO invoice VALUES (2, 'from r0'); INSERT INTO line VALUES (2, 1, 'r0')")
        try world.outside(1, "INSERT INTO invoice VALUES (2, 'from r1'); INSERT INTO line VALUES (2, 1, 'r1')")
        try world.outside(1, "INSERT INTO invoice VALUES (3, 'next'); INSERT INTO line VALUES (2, 2, 'later')")
        try await world.settle()
        let expected = [
            ["1", "old", "", ""], ["2", "from r0", "1", "r0"], ["3", "next", "", ""], ["4", "from r1", "1", "r1"],
            ["4", "from r1", "2", "later"],
        ]
        for index in 0..<2 {
            let rows = try await world.rows(
                index,
                """
                SELECT id, title, ifnull(number, ''), ifnull(text, '') FROM invoice LEFT JOIN line ON invoice = id ORDER BY id, number
                """)
            #expect(rows.map { $0.map { String.fromDatabaseValue($0) ?? "\($0)" } } == expected)
        }
        let journal = try await world.stores[0].conflicts()
        #expect(journal.map(\.entry.kind) == [.renumber])
    }

    @Test("Columns of one row that two sides changed are merged, and the later writer wins a column both changed")
    func columns() async throws {
        let world = try await SyncedStores(
            replicas: 2,
            schema:
                "CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, phone TEXT, city TEXT); INSERT INTO person VALUES (1, 'Ann', '1', 'A')"
        )
        try await world.stores[0].write { db in try db.execute(sql: "UPDATE person SET name = 'Anna', city = 'B'") }
        world.clock.advance(.seconds(1))
        try await world.stores[1].write { db in try db.execute(sql: "UPDATE person SET phone = '2', city = 'C'") }
        try await world.sync(0)
        let summary = try await world.sync(1)
        #expect(summary.conflicts == 1)
        try await world.settle()
        for index in 0..<2 {
            let rows = try await world.rows(index, "SELECT name, phone, city FROM person")
            #expect(rows.map { $0.map { String.fromDatabaseValue($0) } } == [["Anna", "2", "C"]])
        }
        let entry = try #require(try await world.stores[0].conflicts().first?.entry)
        #expect(entry.columns == ["city"] && entry.winner == .incoming && entry.stored == [.text("B")] && entry.base == [.text("A")])
    }

    private func everyone(_ world: SyncedStores, _ body: @escaping @Sendable (Int) async throws -> Int) async throws -> [Int] {
        try await withThrowingTaskGroup(of: (Int, Int).self) { group in
            for index in world.stores.indices { group.addTask { (index, try await body(index)) } }
            var results = [Int](repeating: 0, count: world.stores.count)
            for try await (index, result) in group { results[index] = result }
            return results
        }
    }
}
