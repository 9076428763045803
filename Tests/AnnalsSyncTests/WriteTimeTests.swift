import AnnalsCore
import AnnalsMerge
import AnnalsReplica
import AnnalsRows
import AnnalsStore
import AnnalsTesting
import Foundation
import GRDB
import Testing

/// A group of commits has one time, but its writes have different ones. The later write wins, not the later group.
@Suite struct WriteTimeTests {
    private func world(_ policies: MergePolicies = MergePolicies()) async throws -> SyncedStores {
        try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE p(id INTEGER PRIMARY KEY, price INTEGER); INSERT INTO p VALUES(1, 10), (2, 20), (3, 30)",
            policies: policies)
    }

    /// Writes as another program at a second of a minute.
    private func write(_ world: SyncedStores, _ index: Int, _ sql: String, at second: Int) throws {
        try world.outside(index, sql)
        try world.outside(
            index,
            """
            UPDATE annals_changes_1 SET at = julianday('2026-01-01 12:00:\(second)') WHERE id = (SELECT max(id) FROM annals_changes_1)
            """)
    }

    /// The first replica writes at 10 s and, another row, at 14 s. The second writes at 12 s.
    private func conflict(_ world: SyncedStores, first: String, second: String, order: [Int]) async throws -> Conflict {
        try write(world, 0, first, at: 10)
        try write(world, 0, "UPDATE p SET price = 21 WHERE id = 2", at: 14)
        try write(world, 1, second, at: 12)
        for index in order { try await world.sync(index) }
        try await world.settle()
        #expect(try await world.rows(0, "SELECT price FROM p WHERE id = 2") == [[21.databaseValue]])
        #expect(try await world.rows(0, "SELECT * FROM p") == world.rows(1, "SELECT * FROM p"))
        return try #require(try await world.stores[0].conflicts().first)
    }

    private func second(_ time: HybridTime?) -> Int64? { time.map { ($0.milliseconds / 1_000) % 60 } }

    @Test(arguments: [[0, 1], [1, 0]])
    func `the later of two writes wins, whichever transaction is recorded or sent later`(_ order: [Int]) async throws {
        let world = try await world()
        let conflict = try await conflict(
            world, first: "UPDATE p SET price = 11 WHERE id = 1", second: "UPDATE p SET price = 12 WHERE id = 1", order: order)
        #expect(try await world.rows(0, "SELECT price FROM p WHERE id = 1") == [[12.databaseValue]])
        #expect(conflict.entry.winner == (order == [0, 1] ? .incoming : .stored))
        let times = [second(conflict.entry.storedTime), second(conflict.time)]
        #expect(times == (order == [0, 1] ? [10, 12] : [12, 10]))
    }

    @Test(arguments: [[0, 1], [1, 0]])
    func `an update is kept if the delete was made earlier in a later group`(_ order: [Int]) async throws {
        let world = try await world()
        let conflict = try await conflict(
            world, first: "DELETE FROM p WHERE id = 1", second: "UPDATE p SET price = 12 WHERE id = 1", order: order)
        #expect(try await world.rows(1, "SELECT price FROM p WHERE id = 1") == [[12.databaseValue]])
        #expect(conflict.entry.kind == (order == [0, 1] ? .updateOfDeleted : .deleteOfUpdated))
    }

    @Test func `a row that a group writes twice has the time of the second write`() async throws {
        let world = try await world()
        try write(world, 0, "UPDATE p SET price = 11 WHERE id = 1", at: 10)
        try write(world, 0, "UPDATE p SET price = 13 WHERE id = 1", at: 13)
        _ = try await conflict(
            world, first: "UPDATE p SET price = 31 WHERE id = 3", second: "UPDATE p SET price = 12 WHERE id = 1", order: [0, 1])
        #expect(
            try await world.rows(1, "SELECT id, price FROM p WHERE id <> 2") == [
                [1.databaseValue, 13.databaseValue], [3.databaseValue, 31.databaseValue],
            ])
    }

    @Test func `the times remain after work was rebased, also if its parts are many`() async throws {
        let world = try await world()
        try write(world, 0, "UPDATE p SET price = 11 WHERE id = 1", at: 10)
        try write(world, 0, "UPDATE p SET price = 21 WHERE id = 2", at: 14)
        _ = try await world.stores[0].prepareOutbox()
        // The first replica rebases its work over a write of another column of time, and sends it afterwards.
        try write(world, 1, "UPDATE p SET price = 32 WHERE id = 3", at: 11)
        try await world.sync(1)
        try write(world, 0, "UPDATE p SET price = 31 WHERE id = 3", at: 15)
        try await world.sync(0)
        try write(world, 1, "UPDATE p SET price = 12 WHERE id = 1", at: 12)
        try await world.sync(1)
        try await world.settle()
        #expect(try await world.rows(0, "SELECT price FROM p ORDER BY id") == [[12.databaseValue], [21.databaseValue], [31.databaseValue]])
    }

    @Test func `another replica knows when each row was written, also within a group`() async throws {
        let world = try await world()
        try write(world, 0, "UPDATE p SET price = 11 WHERE id = 1", at: 10)
        try write(world, 0, "UPDATE p SET price = 21 WHERE id = 2", at: 14)
        try await world.sync(0)
        try await world.sync(1)
        for store in world.stores {
            for (id, second) in [(1, 10), (2, 14)] {
                let blame = try await store.blame(table: "p", key: [.integer(Int64(id))])
                #expect(blame.columns[1].time.map { Int($0.timeIntervalSince1970.rounded()) % 60 } == second)
            }
        }
    }

    @Test func `a write is not older than what its store had recorded before it`() async throws {
        let world = try await world()
        try write(world, 0, "UPDATE p SET price = 11 WHERE id = 1", at: 20)
        _ = try await world.stores[0].prepareOutbox()
        // The wall clock was set back.
        try write(world, 0, "UPDATE p SET price = 12 WHERE id = 1", at: 10)
        try write(world, 0, "UPDATE p SET price = 21 WHERE id = 2", at: 25)
        try write(world, 1, "UPDATE p SET price = 13 WHERE id = 1", at: 15)
        try await world.sync(0)
        try await world.sync(1)
        try await world.settle()
        #expect(try await world.rows(0, "SELECT price FROM p WHERE id = 1") == [[12.databaseValue]])
    }

    @Test func `all replicas name the author of a stored value, also of one within a transaction`() async throws {
        let world = try await world()
        try world.outside(
            0,
            """
            INSERT INTO annals_context(author) VALUES('bob');
            UPDATE p SET price = 11 WHERE id = 1; UPDATE p SET price = 21 WHERE id = 2; UPDATE p SET price = 31 WHERE id = 3;
            UPDATE annals_changes_1 SET at = julianday('2026-01-01 12:00:1' || id);
            DELETE FROM annals_context
            """)
        for id in 1...3 { try write(world, 1, "UPDATE p SET price = \(id) WHERE id = \(id)", at: 20 + id) }
        for index in [0, 1, 0] { try await world.sync(index) }
        for store in world.stores {
            #expect(try await store.conflicts(limit: 9).map(\.storedAuthor) == ["bob", "bob", "bob"])
        }
    }
}
