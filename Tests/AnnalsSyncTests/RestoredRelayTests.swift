import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import Testing

/// Merge rule 41: a relay that was restored from an older backup. Other replicas continued with it before this was noticed.
@Suite struct RestoredRelayTests {
    private static let schema = "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT); INSERT INTO note VALUES('a', 'first')"

    private func backup(_ world: SyncedStores, _ name: String) throws {
        // Every commit is in the database file and its write-ahead log.
        try FileManager.default.copyItem(atPath: world.folder.file("relay"), toPath: world.folder.file(name))
    }

    private func note(_ world: SyncedStores, _ index: Int, _ id: String) async throws {
        try world.outside(index, "INSERT INTO note VALUES('\(id)', 'from \(index)')")
    }

    private func world(partBytes: Int? = nil) async throws -> SyncedStores {
        var limits = OutboxLimits()
        if let partBytes { limits.partBytes = partBytes }
        let world = try await SyncedStores(replicas: 2, schema: Self.schema, outboxLimits: limits)
        try await note(world, 1, "before")
        try await world.settle()
        return world
    }

    @Test func `a log that went on from an older backup is noticed by its running digest`() async throws {
        let world = try await world()
        try await world.addClone("r2")
        let file = try await world.copyFile(of: 2)
        let relay = try await restored(world, file)
        for index in [0, 1] {
            let before = try await world.stores[index].digest()
            try await note(world, index, "late \(index)")
            for direction in [SyncDirection.both, .pullOnly, .pushOnly] {
                let error = await #expect(throws: AnnalsError.self) { try await world.sync(index, direction, over: relay) }
                #expect(error?.code == .relayRolledBack)
            }
            #expect(try await world.stores[index].digest() != before)
            #expect(try await world.stores[index].verify().isEmpty)
        }
        // The log has nothing except their own entries.
        try await world.sync(2, over: relay)
        #expect(try await world.rows(2, "SELECT count(*) FROM note WHERE id LIKE 'late%' OR id IN ('c', 'd')") == [[0.databaseValue]])
    }

    /// The relay as of a backup, after which replicas 0 and 1 wrote. Replica 2 was offline and notices nothing. It extends the log to the
    /// same length.
    private func restored(_ world: SyncedStores, _ file: String, written: [String] = ["x", "y", "z"]) async throws -> LocalRelay {
        try backup(world, "backup")
        try await note(world, 0, "c")
        try await note(world, 1, "d")
        try await world.settle()
        try await world.restore(file, as: 2)
        let relay = try LocalRelay(folder: world.folder.file("backup"), space: world.space)
        for ids in written {
            let rows = ids.split(separator: " ").map { "('\($0)', 'from 2')" }
            try world.outside(2, "INSERT INTO note VALUES \(rows.joined(separator: ", "))")
            try await world.sync(2, over: relay)
        }
        return relay
    }

    @Test func `an own entry ahead that the log no longer has is noticed`() async throws {
        let world = try await world()
        try await world.addClone("r2")
        let file = try await world.copyFile(of: 2)
        try backup(world, "backup")
        // Its push is accepted after an entry of another replica, which it has not pulled.
        try await note(world, 1, "d")
        try await world.sync(1)
        try await note(world, 0, "c")
        try await world.sync(0, .pushOnly)
        try await world.restore(file, as: 2)
        let relay = try LocalRelay(folder: world.folder.file("backup"), space: world.space)
        for id in ["x", "y", "z"] {
            try await note(world, 2, id)
            try await world.sync(2, over: relay)
        }
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(0, over: relay) }
        #expect(error?.code == .relayRolledBack)
        #expect(try await world.rows(0, "SELECT count(*) FROM note WHERE id IN ('x', 'y', 'z')") == [[0.databaseValue]])
    }

    /// Replica 0 has an entry ahead at the fourth position, and lacks the third. The relay has these entries of replica 2 there.
    @Test(
        arguments: [
            ["('x', '')", "('y', ''), ('z', '')"],  // A transaction in parts begins there,
            ["('x', ''), ('y', '')", "('z', '')"],  // or one ends,
            ["('c', 'another')", "('z', '')"],  // or the entry before it does not fit these rows.
        ])
    func `an own entry ahead is noticed to be gone whatever the log has in its place`(written: [String]) async throws {
        let world = try await world(partBytes: 1)
        try await world.addClone("r2")
        let file = try await world.copyFile(of: 2)
        try backup(world, "backup")
        try await note(world, 1, "d")
        try await world.sync(1)
        try await note(world, 0, "c")
        try await world.sync(0, .pushOnly)
        #expect(try await world.rows(0, "SELECT position FROM annals_ahead") == [[4.databaseValue]])
        try await world.restore(file, as: 2)
        let relay = try LocalRelay(folder: world.folder.file("backup"), space: world.space)
        for rows in written {
            try world.outside(2, "INSERT INTO note VALUES\(rows)")
            try await world.sync(2, over: relay)
        }
        let before = try await world.stores[0].digest()
        for direction in [SyncDirection.both, .pullOnly] {
            let error = await #expect(throws: AnnalsError.self) { try await world.sync(0, direction, over: relay) }
            #expect(error?.code == .relayRolledBack)
        }
        #expect(try await world.stores[0].digest() == before)
        #expect(try await world.stores[0].verify().isEmpty)
    }

    @Test func `an own entry ahead that the log does not reach any more is noticed`() async throws {
        let world = try await world()
        try backup(world, "backup")
        try await note(world, 1, "d")
        try await world.sync(1)
        try await note(world, 0, "c")
        try await world.sync(0, .pushOnly)
        let relay = try LocalRelay(folder: world.folder.file("backup"), space: world.space)
        for direction in [SyncDirection.both, .pullOnly] {
            let error = await #expect(throws: AnnalsError.self) { try await world.sync(0, direction, over: relay) }
            #expect(error?.code == .relayRolledBack)
        }
        #expect(try await world.rows(0, "SELECT count(*) FROM note WHERE id = 'c'") == [[1.databaseValue]])
        #expect(try await world.stores[0].verify().isEmpty)
    }

    @Test func `an own entry ahead behind the end of a page is noticed at once`() async throws {
        let world = try await world()
        try await world.addClone("r2")
        let file = try await world.copyFile(of: 2)
        try await note(world, 1, "d")
        try await world.sync(1)
        try backup(world, "backup")
        try await note(world, 0, "c")
        try await world.sync(0, .pushOnly)
        try await world.restore(file, as: 2)
        let relay = try LocalRelay(folder: world.folder.file("backup"), space: world.space)
        try await note(world, 2, "x")
        try await world.sync(2, over: relay)
        // The page ends with entries that are unchanged.
        for _ in 1...2 {
            let error = await #expect(throws: AnnalsError.self) { try await world.sync(0, over: AlteredRelay(base: relay, pageBytes: 1)) }
            #expect(error?.code == .relayRolledBack)
        }
        #expect(try await world.rows(0, "SELECT count(*) FROM note WHERE id IN ('c', 'x')") == [[1.databaseValue]])
    }

    @Test(arguments: [false, true])
    func `a replica whose accepted work is gone keeps its identity and what waits`(othersWentOn: Bool) async throws {
        let world = try await world()
        try await world.addClone("r2")
        let file = try await world.copyFile(of: 2)
        try backup(world, "backup")
        try await note(world, 1, "d")
        try await world.sync(1)
        try await note(world, 0, "c")
        try await world.sync(0, .pushOnly)
        try await note(world, 0, "e")
        try await world.restore(file, as: 2)
        let relay = try LocalRelay(folder: world.folder.file("backup"), space: world.space)
        if othersWentOn {
            for id in ["x", "y", "z"] {
                try await note(world, 2, id)
                try await world.sync(2, over: relay)
            }
        }
        let identity = try await world.stores[0].replicaState()?.replica
        for direction in [SyncDirection.pushOnly, .both, .pushOnly] {
            let error = await #expect(throws: AnnalsError.self) { try await world.sync(0, direction, over: relay) }
            #expect(error?.code == .relayRolledBack)
        }
        #expect(try await world.stores[0].replicaState()?.replica == identity)
        #expect(try await world.stores[0].status().outbox == 1)
        #expect(try await world.stores[0].verify().isEmpty)
    }

    @Test func `a snapshot of a log that the relay no longer has is not taken`() async throws {
        let world = try await world()
        try await world.addClone("r2")
        let file = try await world.copyFile(of: 2)
        let relay = try await restored(world, file)
        // The relay asked for a snapshot before it was restored, and its log has the same length again.
        let agent = SyncAgent(store: world.stores[0], transport: relay, environment: world.environment)
        let error = await #expect(throws: AnnalsError.self) { try await agent.makeSnapshot() }
        #expect(error?.code == .relayRolledBack)
        let description = try await relay.describe()
        #expect(try #require(description.snapshot).position < description.head)
        let made = try await SyncAgent(store: world.stores[2], transport: relay, environment: world.environment).makeSnapshot()
        #expect(made == description.head)
    }

    @Test func `a replica that is to make a snapshot notices that the log is shorter`() async throws {
        let world = try await world()
        try backup(world, "backup")
        try await note(world, 0, "c")
        try await world.sync(0)
        // A policy in the outbox prevents a snapshot.
        try await world.stores[0].setPolicies([PolicySetting(table: "note", aspect: .delete, policy: "manual")], isOverride: false)
        _ = try await world.stores[0].prepareOutbox()
        let relay = try LocalRelay(folder: world.folder.file("backup"), space: world.space)
        let agent = SyncAgent(store: world.stores[0], transport: relay, environment: world.environment)
        let error = await #expect(throws: AnnalsError.self) { try await agent.makeSnapshot() }
        #expect(error?.code == .relayRolledBack)
    }

    /// At the replica's position an entry of the other log ends, or a transaction in parts is not complete.
    @Test(arguments: [["x", "y", "z"], ["x", "y z"], ["x y z"]])
    func `rows in doubt are not compared with another log than theirs`(written: [String]) async throws {
        let world = try await world(partBytes: 1)
        try await world.addClone("r2")
        let file = try await world.copyFile(of: 2)
        let relay = try await restored(world, file, written: written)
        let triggers = try await world.rows(0, "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'note'")
        let names = triggers.compactMap { String.fromDatabaseValue($0[0]) }
        try world.outside(0, names.map { "DROP TRIGGER \"\($0)\";" }.joined() + "UPDATE note SET text = 'unseen' WHERE id = 'a'")
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(0, over: relay) }
        #expect(error?.code == .relayRolledBack)
        #expect(try await world.stores[0].unverifiedRows() != nil)
        #expect(try await world.rows(0, "SELECT count(*) FROM annals_outbox") == [[0.databaseValue]])
    }

    /// Own entries that the log accepted, ahead of the position. The restored log has other entries there, or none.
    @Test(arguments: [true, false])
    func `rows in doubt are not compared without own entries that the log took`(othersWentOn: Bool) async throws {
        let world = try await world()
        try await world.addClone("r2")
        let file = try await world.copyFile(of: 2)
        try backup(world, "backup")
        try await note(world, 1, "d")
        try await world.sync(1)
        try await note(world, 0, "c")
        try await world.sync(0, .pushOnly)
        try await world.restore(file, as: 2)
        let relay = try LocalRelay(folder: world.folder.file("backup"), space: world.space)
        for id in othersWentOn ? ["x", "y", "z"] : ["x"] {
            try await note(world, 2, id)
            try await world.sync(2, over: relay)
        }
        let triggers = try await world.rows(0, "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'note'")
        let names = triggers.compactMap { String.fromDatabaseValue($0[0]) }
        try world.outside(0, names.map { "DROP TRIGGER \"\($0)\";" }.joined() + "UPDATE note SET text = 'unseen' WHERE id = 'a'")
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(0, over: relay) }
        #expect(error?.code == .relayRolledBack)
        #expect(try await world.stores[0].unverifiedRows() != nil)
        #expect(try await world.rows(0, "SELECT count(*) FROM annals_outbox") == [[0.databaseValue]])
    }

    @Test func `who follows the relay again leaves and joins with its rows`() async throws {
        let world = try await world()
        try await world.addClone("r2")
        let file = try await world.copyFile(of: 2)
        let relay = try await restored(world, file)
        let store = world.stores[0]
        try await store.leave(force: true)
        let joining = Joining(
            transport: relay, address: "http://127.0.0.1:1", space: world.space, name: "r0", configuration: world.configuration("r0"),
            environment: world.environment)
        _ = try await joining.join(store, existing: .sameKey)
        try await world.sync(0, over: relay)
        try await world.sync(2, over: relay)
        #expect(try await store.digest() == world.stores[2].digest())
        let ids = try await world.rows(2, "SELECT group_concat(id, ' ') FROM (SELECT id FROM note ORDER BY id)")
        #expect(ids == [["a before c d x y z".databaseValue]])
    }
}
