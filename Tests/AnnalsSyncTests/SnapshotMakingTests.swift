import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import RelayLog
import Testing

/// Snapshots that a replica makes for the space.
@Suite struct SnapshotMakingTests {
    private static let schema = """
        CREATE TABLE list(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        CREATE TABLE item(id INTEGER PRIMARY KEY, list INTEGER REFERENCES list(id) ON UPDATE CASCADE, title TEXT);
        CREATE INDEX item_of_list ON item(list);
        CREATE VIEW homely AS SELECT * FROM item WHERE list = 1;
        INSERT INTO list VALUES(1, 'home'), (2, 'work');
        INSERT INTO item VALUES(1, 1, 'milk'), (2, 2, 'mail');
        """

    private func snapshotPosition(_ world: SyncedStores) async throws -> Position? {
        try await world.relay.describe().snapshot?.position
    }

    private func makeSnapshot(_ world: SyncedStores, _ index: Int) async throws -> Position? {
        try await SyncAgent(store: world.stores[index], transport: world.relay, environment: world.environment).makeSnapshot()
    }

    @Test(arguments: ["delete", "wal"]) func `law 3: it holds the log's rows, without the outbox and what nobody sealed`(
        journal: String
    ) async throws {
        let world = try await SyncedStores(replicas: 2, schema: "PRAGMA journal_mode = DELETE;" + Self.schema)
        try await world.stores[0].setJournalMode(journal)
        try world.outside(0, "UPDATE item SET title = 'oat milk' WHERE id = 1; INSERT INTO item VALUES(3, 1, 'bread')")
        try await world.settle()
        let log = try await world.stores[1].digest()
        // Work in the outbox, work only in history, and unrecorded work. Unique values and keys are swapped.
        try world.outside(
            0, "UPDATE list SET name = 'x' WHERE id = 1; UPDATE list SET name = 'home' WHERE id = 2; DELETE FROM item WHERE id = 3")
        _ = try await world.stores[0].prepareOutbox()
        try await world.stores[0].write(author: "ada") { db in try db.execute(sql: "UPDATE list SET id = 9 WHERE name = 'x'") }
        try world.outside(0, "INSERT INTO item VALUES(3, 2, 'unsealed'), (4, 9, 'too')")
        let position = try #require(try await makeSnapshot(world, 0))
        #expect(try await snapshotPosition(world) == position)
        let clone = try await world.addClone("new")
        #expect(try await clone.digest() == log)
        #expect(try await clone.replicaState()?.position == position)
        #expect(try await clone.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM homely") } == 2)
        #expect(try await makeSnapshot(world, 0) == nil, "the relay has it")
        try await world.settle()
        #expect(Set(try await world.stores.asyncMap { try await $0.digest() }).count == 1)
        for store in world.stores { #expect(try await store.verify().isEmpty) }
    }

    @Test func `rows whose key holds NULL stay where they are`() async throws {
        func rows(_ store: Store) async throws -> [Int] {
            try await store.read { db in try Int.fetchAll(db, sql: "SELECT v FROM t ORDER BY v") }
        }
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE t(id TEXT PRIMARY KEY, v INTEGER); INSERT INTO t VALUES(NULL, 1), ('a', 2), (NULL, 3);")
        #expect(try await rows(world.stores[0]) == [1, 2, 3])
        #expect(try await rows(world.stores[1]) == [2])
        try world.outside(0, "UPDATE t SET id = 'b' WHERE v = 1; UPDATE t SET id = NULL WHERE v = 2; INSERT INTO t VALUES(NULL, 4)")
        try await world.settle()
        #expect(try await rows(world.stores[1]) == [1])
        try world.outside(0, "UPDATE t SET v = 5 WHERE id IS NULL AND v = 4; UPDATE t SET id = 'c' WHERE v = 3")
        #expect(try await makeSnapshot(world, 0) != nil)
        #expect(try await rows(try await world.addClone("new")) == [1])
        try await world.settle()
        #expect(try await rows(world.stores[0]) == [1, 2, 3, 5])
        for store in world.stores.dropFirst() { #expect(try await rows(store) == [1, 3]) }
        for store in world.stores { #expect(try await store.verify().isEmpty) }
    }

    @Test func `no writer waits for it in WAL mode`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.stores[0].setJournalMode("wal")
        try world.outside(0, "INSERT INTO item VALUES(3, 1, 'bread')")
        try await world.settle()
        // Another program is in the middle of a write all the time. Nothing here waits for its lock.
        var configuration = GRDB.Configuration()
        configuration.allowsUnsafeTransactions = true
        let writer = try DatabaseQueue(path: world.stores[0].path, configuration: configuration)
        try await writer.writeWithoutTransaction { db in
            try db.execute(sql: "BEGIN IMMEDIATE; UPDATE item SET title = 'not yet' WHERE id = 3")
        }
        #expect(try await makeSnapshot(world, 0) != nil)
        try await writer.writeWithoutTransaction { db in try db.execute(sql: "COMMIT") }
        try writer.close()
        let clone = try await world.addClone("new")
        #expect(try await clone.read { try String.fetchOne($0, sql: "SELECT title FROM item WHERE id = 3") } == "bread")
    }

    @Test func `the conflict journal and the policies travel in it`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await world.stores[0].setPolicies([
            PolicySetting(table: "list", column: "name", aspect: .update, policy: "mergeByPropertyStoreTrump")
        ])
        try await world.settle()
        try world.outside(0, "UPDATE item SET title = 'a' WHERE id = 1")
        world.clock.advance(.seconds(1))
        try world.outside(1, "UPDATE item SET title = 'b' WHERE id = 1")
        try await world.settle()
        let journal = try await world.stores[0].conflicts().map(\.name)
        #expect(journal.count == 1)
        #expect(try await makeSnapshot(world, 0) != nil)
        let clone = try await world.addClone("new")
        #expect(try await clone.conflicts().map(\.name) == journal)
        #expect(try await clone.policies() == world.stores[0].policies())
        #expect(!(try await clone.policies()).isEmpty)
    }

    @Test func `one sync makes it when the relay asks for it`() async throws {
        var limits = RelayLogLimits()
        limits.snapshotLogPositions = 4
        let world = try await SyncedStores(replicas: 2, schema: Self.schema, relayLimits: limits)
        for number in 10..<13 {
            try world.outside(0, "INSERT INTO item VALUES(\(number), 1, 'n')")
            #expect(try await world.sync(0).snapshot == nil)
        }
        try world.outside(0, "INSERT INTO item VALUES(13, 1, 'n')")
        // A sync that only pushes does not make a snapshot.
        #expect(try await world.sync(0, .pushOnly).snapshot == nil)
        let summary = try await world.sync(0)
        #expect(summary.snapshot == Position(5))
        #expect(try await snapshotPosition(world) == Position(5))
        #expect(try await world.sync(1).snapshot == nil)
    }

    @Test func `one that cannot be brought leaves the relay as it is`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        try world.outside(0, "INSERT INTO item VALUES(13, 1, 'n')")
        try await world.sync(0)
        let requests = AlteredRelay.failing(world.relay, from: 2)
        await #expect(throws: AnnalsError.self) {
            _ = try await SyncAgent(store: world.stores[0], transport: requests, environment: world.environment).makeSnapshot()
        }
        #expect(try await snapshotPosition(world) == Position(1))
        #expect(try await makeSnapshot(world, 0) == Position(2))
    }

    @Test func `one whose upload broke off is sent by the next sync as it was`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        // A small snapshot would be made again. This row makes it large enough to be kept for the next sync.
        try world.outside(0, "INSERT INTO item VALUES(13, 1, hex(randomblob(4000000)))")
        try await world.sync(0)
        let away = AlteredRelay.failing(world.relay, from: 2, error: .unreachable("away", wasSent: true))
        await #expect(throws: AnnalsError.self) {
            _ = try await SyncAgent(store: world.stores[0], transport: away, environment: world.environment).makeSnapshot()
        }
        try world.outside(0, "INSERT INTO item VALUES(14, 1, 'later')")
        try await world.sync(0)
        #expect(try await world.stores[0].replicaState()?.position == Position(3))
        #expect(try await makeSnapshot(world, 0) == Position(2), "the one that was packed")
        #expect(try await makeSnapshot(world, 0) == Position(3))
        let clone = try await world.addClone("new")
        #expect(try await clone.digest() == world.stores[0].digest())
        let left = try FileManager.default.contentsOfDirectory(atPath: world.folder.path).filter { $0.hasPrefix(".annals-") }
        #expect(left.isEmpty)
    }
}

extension Store {
    func setJournalMode(_ mode: String) async throws {
        let queue = try DatabaseQueue(path: path)
        try await queue.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA journal_mode = \(mode)") }
        try queue.close()
    }
}
