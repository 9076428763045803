import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import GRDB
import Testing

/// Law 7 for files that were copied with a copy command, or restored from a backup: two files have one replica id.
@Suite("Copies and restored backups (law 7)")
struct IdentityTests {
    private func world() async throws -> SyncedStores {
        try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE item(id TEXT PRIMARY KEY NOT NULL, n INTEGER); INSERT INTO item VALUES('a', 1), ('b', 1)")
    }

    private func everyoneHolds(_ world: SyncedStores, _ expected: [String]) async throws {
        try await world.settle()
        for index in world.stores.indices {
            let rows = try await world.stores[index].read { db in
                try String.fetchAll(db, sql: "SELECT id || '=' || n FROM item ORDER BY id")
            }
            #expect(rows == expected, "replica \(index)")
            #expect(try await world.stores[index].replicaState()?.position == world.stores[0].replicaState()?.position)
        }
        let identities = try await Set(world.identities())
        #expect(identities.count == world.stores.count)
    }

    @Test("unpushed work that two copies hold arrives once")
    func copiedOutbox() async throws {
        let world = try await world()
        try world.outside(0, "UPDATE item SET n = n + 10 WHERE id = 'a'; INSERT INTO item VALUES('c', 3)")
        _ = try await world.stores[0].prepareOutbox()
        try await world.addCopy(of: 0)
        try world.outside(0, "UPDATE item SET n = 20 WHERE id = 'b'")
        try world.outside(2, "INSERT INTO item VALUES('d', 4)")
        try await world.sync(0)
        let summary = try await world.sync(2)
        #expect(summary.tookNewIdentity)
        try await everyoneHolds(world, ["a=11", "b=20", "c=3", "d=4"])
    }

    @Test("work that another copy had to rewrite is recognised all the same")
    func copiedAndRewritten() async throws {
        let world = try await world()
        try world.outside(0, "UPDATE item SET n = 5 WHERE id = 'a'; INSERT INTO item VALUES('c', 3)")
        _ = try await world.stores[0].prepareOutbox()
        try await world.addCopy(of: 0)
        // A later write of another replica is ordered first. The original's transaction loses a column.
        world.clock.advance(.seconds(60))
        try world.outside(1, "UPDATE item SET n = 7 WHERE id = 'a'")
        try await world.sync(1)
        try await world.sync(0)
        try await world.sync(2)
        try await everyoneHolds(world, ["a=7", "b=1", "c=3"])
        for store in world.stores { #expect(try await store.conflicts().count == 1) }
        // The schema, the later write, and the rest of the copied transaction: nothing arrived twice.
        #expect(try await world.relay.describe().head == Position(3))
    }

    @Test("what a copy does with rows of work that both hold is done to those rows, though the other pushed them first")
    func copiedOutboxGoesOn() async throws {
        let world = try await world()
        try world.outside(0, "UPDATE item SET n = 5 WHERE id = 'a'; INSERT INTO item VALUES('c', 3), ('d', 4)")
        _ = try await world.stores[0].prepareOutbox()
        try await world.addCopy(of: 0)
        // The original has to rewrite the work that both files hold.
        try world.outside(1, "UPDATE item SET n = 7 WHERE id = 'a'")
        try await world.sync(1)
        try await world.sync(0)
        world.clock.advance(.seconds(1))
        try world.outside(2, "UPDATE item SET n = 9 WHERE id = 'c'; DELETE FROM item WHERE id = 'd'")
        try await world.sync(2)
        #expect(try await world.stores[2].conflicts().count == 1)
        try await everyoneHolds(world, ["a=7", "b=1", "c=9"])
    }

    @Test("what a copy does with rows that the other had to renumber follows them")
    func copiedAndRenumbered() async throws {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO item VALUES(1, 1)")
        try world.outside(0, "INSERT INTO item VALUES(2, 20), (3, 30)")
        _ = try await world.stores[0].prepareOutbox()
        try await world.addCopy(of: 0)
        try world.outside(1, "INSERT INTO item VALUES(2, 22), (3, 33)")
        try await world.sync(1)
        try await world.sync(0)
        try world.outside(2, "UPDATE item SET n = 21 WHERE id = 2; DELETE FROM item WHERE id = 3")
        try await world.sync(2)
        try await everyoneHolds(world, ["1=1", "2=22", "3=33", "4=21"])
    }

    @Test("a copy that only pulls notices the other's work under its own name")
    func copyThatPulls() async throws {
        let world = try await world()
        try await world.addCopy(of: 0)
        try world.outside(0, "UPDATE item SET n = 2 WHERE id = 'a'")
        try await world.sync(0)
        let summary = try await world.sync(2, .pullOnly)
        #expect(summary.tookNewIdentity)
        try await everyoneHolds(world, ["a=2", "b=1"])
    }

    @Test("a copy with a push under way sends the same bytes, and both know it as theirs")
    func copiedPush() async throws {
        let world = try await world()
        try world.outside(0, "UPDATE item SET n = 2 WHERE id = 'a'")
        _ = try await world.stores[0].prepareOutbox()
        _ = try await world.stores[0].freezePush()
        try await world.addCopy(of: 0)
        try await world.sync(0)
        let summary = try await world.sync(2)
        #expect(!summary.tookNewIdentity)
        try world.outside(0, "UPDATE item SET n = 3 WHERE id = 'a'")
        try world.outside(2, "UPDATE item SET n = 4 WHERE id = 'b'")
        try await world.sync(0)
        #expect(try await world.sync(2).tookNewIdentity)
        try await everyoneHolds(world, ["a=3", "b=4"])
    }

    @Test("a backup put back goes on from there, and loses nothing that was pushed since")
    func restoredBackup() async throws {
        let world = try await world()
        try world.outside(0, "UPDATE item SET n = 2 WHERE id = 'a'")
        try await world.sync(0)
        try world.outside(0, "INSERT INTO item VALUES('unpushed', 1)")
        _ = try await world.stores[0].prepareOutbox()
        let backup = try await world.copyFile(of: 0)
        try world.outside(0, "UPDATE item SET n = 3 WHERE id = 'b'; DELETE FROM item WHERE id = 'a'")
        try await world.sync(0)
        try await world.restore(backup, as: 0)
        try world.outside(0, "INSERT INTO item VALUES('new', 1)")
        #expect(try await world.sync(0).tookNewIdentity)
        try await everyoneHolds(world, ["b=3", "new=1", "unpushed=1"])
    }

    @Test("an answer that comes late, to a push that another agent has settled, changes nothing")
    func lateAnswer() async throws {
        let world = try await world()
        let store = world.stores[0]
        try world.outside(0, "UPDATE item SET n = 2 WHERE id = 'a'")
        _ = try await store.prepareOutbox()
        let first = try #require(try await store.freezePush())
        let answer = try await world.relay.push(first.batch, seen: first.seen)
        _ = try await store.settle(answer, to: first)
        try world.outside(0, "UPDATE item SET n = 3 WHERE id = 'a'")
        _ = try await store.prepareOutbox()
        let second = try #require(try await store.freezePush())
        let settled = try await store.settle(answer, to: first)
        #expect(settled.transactions == 0)
        #expect(settled.status.outbox == 1)
        #expect(try await store.freezePush()?.batch == second.batch)
        try await everyoneHolds(world, ["a=3", "b=1"])
    }
}
