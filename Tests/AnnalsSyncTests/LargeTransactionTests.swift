import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import GRDB
import Testing

/// Transactions that are encoded, stored, compressed and sent in pieces.
@Suite struct LargeTransactionTests {
    private static let rows = 12_000

    private func world() async throws -> SyncedStores {
        let world = try await SyncedStores(
            replicas: 2,
            schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE, note TEXT); INSERT INTO item VALUES(1, 'x', NULL)")
        try world.outside(
            0,
            """
            WITH RECURSIVE c(x) AS (SELECT 2 UNION ALL SELECT x + 1 FROM c WHERE x < \(Self.rows))
            INSERT INTO item SELECT x, 'name of ' || x, hex(randomblob(30)) FROM c
            """)
        return world
    }

    private func expectEqual(_ world: SyncedStores) async throws {
        let digests = try await world.stores.asyncMap { try await $0.digest() }
        #expect(Set(digests).count == 1)
        let counts = try await world.rows(1, "SELECT count(*) FROM item")
        #expect(counts == [[Self.rows.databaseValue]])
    }

    @Test func `a transaction of many pieces arrives whole`() async throws {
        let world = try await world()
        let pushed = try await world.sync(0).pushed
        #expect(pushed.transactions == 1 && pushed.changes == Self.rows - 1)
        #expect(try await world.sync(1).pulled.changes == Self.rows - 1)
        try await expectEqual(world)
    }

    @Test func `a transaction of many pieces is rewritten whole`() async throws {
        let world = try await world()
        try await world.settle()
        try world.outside(0, "UPDATE item SET name = 'theirs', note = 'theirs' WHERE id = 7")
        try await world.sync(0)
        world.clock.advance(.seconds(1))
        try world.outside(1, "UPDATE item SET note = 'ours ' || note")
        let summary = try await world.sync(1)
        #expect(summary.refusals == 1 && summary.pushed.transactions == 1 && summary.conflicts == 1)
        try await world.settle()
        try await expectEqual(world)
        let journals = try await world.stores.asyncMap { try await $0.conflicts().count }
        #expect(journals == [1, 1])
    }

    @Test func `law 7: a large push goes out again with the same bytes`() async throws {
        let world = try await world()
        _ = try await world.stores[0].prepareOutbox()
        let first = try #require(try await world.stores[0].freezePush())
        #expect(try await world.stores[0].prepareOutbox().isPushUnderWay)
        let second = try #require(try await world.stores[0].freezePush())
        #expect(first.batch == second.batch)
        #expect(try Batch.open(first.batch).plain.count > 500_000)
    }

    @Test func `a head may be larger than a piece`() async throws {
        let world = try await world()
        let author = String(repeating: "a", count: 200_000)
        try await world.stores[0].write(author: author) { db in try db.execute(sql: "UPDATE item SET note = '' WHERE id = 1") }
        try await world.settle()
        try await expectEqual(world)
        let authors = try await world.rows(1, "SELECT length(author) FROM annals_transactions WHERE length(author) > 100")
        #expect(authors == [[200_000.databaseValue]])
    }
}
