import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import Testing

/// User decisions that break constraints that SQLite checks only at COMMIT, and the counts of lost values in a summary.
@Suite struct ResolvingTests {
    private func world() async throws -> SyncedStores {
        try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE team(id INTEGER PRIMARY KEY, name TEXT);
                CREATE TABLE person(
                    id INTEGER PRIMARY KEY, team INTEGER REFERENCES team(id) ON DELETE NO ACTION DEFERRABLE INITIALLY DEFERRED);
                INSERT INTO team VALUES(1, 'a'), (2, 'b'), (3, 'c');
                INSERT INTO person VALUES(10, 1);
                """)
    }

    /// The second replica writes earlier than the first, and its transaction reaches the relay second.
    private func conflict(_ world: SyncedStores, first: String, second: String) async throws -> Conflict {
        try world.outside(1, second)
        _ = try await world.stores[1].prepareOutbox()
        world.clock.advance(.seconds(1))
        try world.outside(0, first)
        try await world.sync(0)
        try await world.sync(1)
        try await world.settle()
        return try #require(try await world.stores[0].conflicts().first)
    }

    private func expectRefusal(_ world: SyncedStores, _ conflict: Conflict, _ words: String) async throws {
        let before = try await world.stores[0].digest()
        let error = await #expect(throws: AnnalsError.self) { try await world.stores[0].resolve(conflict.id, taking: .incoming) }
        #expect(error?.code == .constraint && error?.message == words)
        #expect(try await world.stores[0].digest() == before)
        #expect(try await world.stores[0].conflicts().map(\.isResolved) == [false])
    }

    @Test func `a decision to delete a parent is refused while a deferred key refers to it`() async throws {
        let world = try await world()
        let conflict = try await conflict(
            world, first: "UPDATE team SET name = 'x' WHERE id = 3", second: "DELETE FROM team WHERE id = 3")
        try world.outside(0, "INSERT INTO person VALUES(11, 3)")
        try await expectRefusal(
            world, conflict, "the row id = 3 of team cannot be deleted: rows of person refer to it by FOREIGN KEY (team)")
        try world.outside(0, "DELETE FROM person WHERE id = 11")
        let settlement = try await world.stores[0].resolve(conflict.id, taking: .incoming)
        #expect(settlement == .changed(transaction: try await world.stores[0].latestToken().number))
        try await world.settle()
        #expect(try await world.rows(1, "SELECT id FROM team") == [[1.databaseValue], [2.databaseValue]])
    }

    @Test func `a decision is refused if its value refers to a deleted parent by a deferred key`() async throws {
        let world = try await world()
        let conflict = try await conflict(
            world, first: "UPDATE person SET team = 2 WHERE id = 10", second: "UPDATE person SET team = 3 WHERE id = 10")
        try world.outside(0, "DELETE FROM team WHERE id = 3")
        try await expectRefusal(
            world, conflict, "the row id = 10 of person cannot have these values: team has no matching row for FOREIGN KEY (team)")
    }

    @Test func `all replicas count the same conflicts, and one counts a value as lost`() async throws {
        let world = try await world()
        try await world.addClone("r2")
        try world.outside(0, "UPDATE team SET name = 'x' WHERE id = 1")
        try await world.sync(0)
        world.clock.advance(.seconds(1))
        try world.outside(1, "UPDATE team SET name = 'y' WHERE id = 1")
        let winner = try await world.sync(1)
        #expect(winner.conflicts == 1 && winner.lost == 0)
        let (loser, other) = (try await world.sync(0), try await world.sync(2))
        #expect(loser.conflicts == 1 && loser.lost == 1)
        #expect(other.conflicts == 1 && other.lost == 0)
        for (summary, store) in zip([loser, winner, other], world.stores) {
            #expect(try await store.conflicts(limit: 9).map(\.conflict.id).first == summary.firstConflict)
        }
    }
}
