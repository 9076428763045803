import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import Foundation
import GRDB
import Testing

/// A relay that was restored from an older backup, and parts of a transaction that were under way (merge rule 41, law 6). Each row
/// of a transaction is a part of its own.
@Suite struct LostPartsTests {
    private static let schema = "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT); INSERT INTO note VALUES('a', 'first')"

    private func world() async throws -> SyncedStores {
        var limits = OutboxLimits()
        limits.partBytes = 1
        return try await SyncedStores(replicas: 3, schema: Self.schema, outboxLimits: limits)
    }

    private func insert(_ world: SyncedStores, _ index: Int, _ ids: [String]) throws {
        try world.outside(index, ids.map { "INSERT INTO note VALUES('\($0)', 'from \(index)')" }.joined(separator: ";"))
    }

    /// The relay as it was before replica 1 pushed a transaction of three parts. Replica 0 has pulled some of them and buffers them.
    private func restored(_ world: SyncedStores, keeping count: Int, isDelete: Bool = false) async throws -> LocalRelay {
        try FileManager.default.copyItem(atPath: world.folder.file("relay"), toPath: world.folder.file("backup"))
        let first = isDelete ? "DELETE FROM note" : "INSERT INTO note VALUES('x', 'lost')"
        try world.outside(1, "\(first); INSERT INTO note VALUES('y', 'lost'), ('z', 'lost')")
        try await world.sync(1)
        let relay = AlteredRelay.failing(world.relay, .pull, from: count + 1, pageBytes: 1)
        await #expect(throws: AnnalsError.self) { try await world.sync(0, .pullOnly, over: relay) }
        #expect(try await kept(world) == count)
        return try LocalRelay(folder: world.folder.file("backup"), space: world.space)
    }

    private func kept(_ world: SyncedStores) async throws -> Int {
        try await world.stores[0].read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM annals_parts") ?? 0 }
    }

    private func expectEqual(_ world: SyncedStores, over relay: LocalRelay) async throws {
        for _ in 1...2 { for index in [0, 2] { try await world.sync(index, over: relay) } }
        #expect(try await world.stores[0].digest() == world.stores[2].digest())
        #expect(try await kept(world) == 0)
        #expect(try await world.stores[0].verify().isEmpty)
    }

    @Test(arguments: 0...4)
    func `parts of a log that is gone are dropped, however long the log is now`(others: Int) async throws {
        let world = try await world()
        let relay = try await restored(world, keeping: 2)
        for number in 0..<others {
            try insert(world, 2, ["other \(number)"])
            try await world.sync(2, over: relay)
        }
        let summary = try await world.sync(0, over: AlteredRelay.failing(relay, .pull, from: 5))
        #expect(summary.pulled.transactions == others && summary.position.rawValue == Int64(others) + 1)
        #expect(try await kept(world) == 0)
        try await expectEqual(world, over: relay)
    }

    @Test(arguments: [1, 2])
    func `parts of a log that is gone are dropped where one's own work stands now`(count: Int) async throws {
        let world = try await world()
        let relay = try await restored(world, keeping: count)
        try insert(world, 0, ["mine", "too"])
        try await world.sync(0, .pushOnly, over: relay)
        #expect(try await kept(world) == 0)
        try insert(world, 2, ["theirs", "as well", "and more"])
        try await world.sync(2, over: relay)
        let faulty = AlteredRelay.failing(relay, .pull, from: 3, pageBytes: 1)
        await #expect(throws: AnnalsError.self) { try await world.sync(0, over: faulty) }
        #expect(try await world.rows(0, "SELECT position FROM annals_parts ORDER BY 1") == [[4.databaseValue], [5.databaseValue]])
        try await expectEqual(world, over: relay)
    }

    @Test func `a part that does not follow on what is kept is told before anything is applied`() async throws {
        let world = try await world()
        let relay = try await restored(world, keeping: 1, isDelete: true)
        // This conflicts with the buffered part, and with nothing in the log.
        try world.outside(0, "DELETE FROM note")
        try insert(world, 2, ["theirs", "as well", "and more"])
        try await world.sync(2, over: relay)
        #expect(try await world.sync(0, .pullOnly, over: relay).pulled.transactions == 1)
        #expect(try await kept(world) == 0)
        try await expectEqual(world, over: relay)
    }

    @Test(arguments: [false, true])
    func `an own entry ahead amid the parts of another's transaction, or at the first of them, is noticed`(isFirst: Bool) async throws {
        let world = try await world()
        try FileManager.default.copyItem(atPath: world.folder.file("relay"), toPath: world.folder.file("backup"))
        try insert(world, 1, ["d"])
        try await world.sync(1)
        try insert(world, 0, ["c"])
        try await world.sync(0, .pushOnly)
        let relay = try LocalRelay(folder: world.folder.file("backup"), space: world.space)
        if isFirst {
            try insert(world, 2, ["d"])
            try await world.sync(2, over: relay)
        }
        try insert(world, 2, ["x", "y", "z"])
        try await world.sync(2, over: relay)
        for direction in [SyncDirection.both, .pullOnly] {
            let error = await #expect(throws: AnnalsError.self) {
                try await world.sync(0, direction, over: AlteredRelay(base: relay, pageBytes: isFirst ? .max : 1))
            }
            #expect(error?.code == .relayRolledBack)
            #expect(try await kept(world) == 0)
        }
        #expect(try await world.rows(0, "SELECT group_concat(id, ' ') FROM (SELECT id FROM note ORDER BY id)") == [["a c".databaseValue]])
    }
}
