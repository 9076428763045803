import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsSQLite
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import RelayLog
import Testing

/// A snapshot that no other owner compared states wrong newest entries of authors. A clone from it accuses no relay.
@Suite struct UnconfirmedAuthorsTests {
    static let changes = [
        "UPDATE annals_snapshot_authors SET counter = counter + 1",
        "UPDATE annals_snapshot_authors SET digest = randomblob(32)",
        "DELETE FROM annals_snapshot_authors",
    ]

    private func note(_ world: SyncedStores, _ index: Int, _ id: String) throws {
        try world.outside(index, "INSERT INTO note VALUES('\(id)', 'from \(index)')")
    }

    /// Sends a snapshot of the first replica, changed by `sql`. No other owner can compare it.
    private func bring(_ world: SyncedStores, changing sql: String?) async throws -> Position {
        let (plain, packed) = (world.folder.file("made.db"), world.folder.file("made.zst"))
        let state = try #require(await world.stores[0].replicaState())
        _ = try #require(await world.stores[0].makeSnapshot(at: plain, relayTime: world.clock.milliseconds))
        if let sql {
            let queue = try DatabaseQueue(path: plain)
            try await queue.writeWithoutTransaction { db in try db.execute(sql: "\(sql); VACUUM") }
            try queue.close()
        }
        let file = try Compression.compressFile(at: plain, to: packed)
        try await world.relay.uploadSnapshot(at: packed, seen: state.seen, digest: file.digest) { _ in }
        return state.position
    }

    /// Two replicas that have written. The third is a clone from a snapshot of the first, changed by `sql`.
    private func world(changing sql: String?, writtenAfterwards: Bool = true) async throws -> (world: SyncedStores, snapshot: Position) {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT); INSERT INTO note VALUES('a', 'first')")
        for number in 0..<3 {
            for index in [0, 1] { try note(world, index, "\(number) of \(index)") }
            try await world.settle()
        }
        let position = try await bring(world, changing: sql)
        try await world.addClone("r2")
        if writtenAfterwards {
            try note(world, 1, "afterwards")
            try await world.sync(1)
        }
        return (world, position)
    }

    @Test(arguments: changes)
    func `an older snapshot and the log show that the snapshot was wrong, and the sync goes on`(sql: String) async throws {
        let (world, _) = try await world(changing: sql)
        try note(world, 2, "waits in the outbox")
        try await world.sync(2)
        #expect(try await world.stores[2].logEvidence() == nil)
        try note(world, 0, "later")
        try await world.settle()
        #expect(try await world.stores[2].digest() == world.stores[0].digest())
        #expect(try await world.stores[2].verify().isEmpty)
    }

    @Test(arguments: changes)
    func `where there is no older snapshot the error names the snapshot, and nothing is kept against the relay`(sql: String) async throws {
        let (world, position) = try await world(changing: sql)
        let digest = try await world.stores[2].digest()
        let relay = AlteredRelay.newestSnapshotOnly(world.relay)
        for _ in 0..<2 {
            let error = await #expect(throws: AnnalsError.self) { try await world.sync(2, over: relay) }
            #expect(error?.code == .corruptBatch && error?.entry == nil, "\(String(describing: error))")
            #expect(error?.message.contains("in the snapshot at position \(position), with which this replica began") == true)
        }
        #expect(try await world.stores[2].logEvidence() == nil)
        #expect(try await world.stores[2].digest() == digest)
        #expect(try await world.stores[2].verify().isEmpty)
        // The refusal is not permanent: entries of a correct relay are applied.
        try await world.settle()
        #expect(try await world.stores[2].digest() == world.stores[0].digest())
    }

    @Test func `a relay that leaves out an entry after a true snapshot is found out as ever`() async throws {
        let (world, position) = try await world(changing: nil)
        try note(world, 1, "one more")
        try await world.sync(1)
        let relay = AlteredRelay.omitting(position.next, world.relay)
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(2, over: relay) }
        #expect(error?.code == .relayInconsistent, "\(String(describing: error))")
        let evidence = try #require(await world.stores[2].logEvidence())
        #expect(evidence.kind == .missingEntry && evidence.author.isSigned && evidence.here.isSigned)
    }

    @Test func `once a batch of the author was seen its next one is held against that, without another snapshot`() async throws {
        let (world, position) = try await world(changing: nil)
        try await world.sync(2)
        for id in ["one", "two"] {
            try note(world, 1, id)
            try await world.sync(1)
        }
        let relay = AlteredRelay.omitting(position.advanced(by: 2), AlteredRelay.newestSnapshotOnly(world.relay))
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(2, over: relay) }
        #expect(error?.code == .relayInconsistent, "\(String(describing: error))")
        #expect(try await world.stores[2].logEvidence() != nil)
    }

    @Test func `a store that joined the space does the same`() async throws {
        let (world, _) = try await world(changing: "UPDATE annals_snapshot_authors SET counter = counter + 1", writtenAfterwards: false)
        let path = world.folder.file("joined.db")
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in try db.execute(sql: "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT)") }
        try queue.close()
        let store = try Store(path: path, configuration: world.configuration("joined"))
        _ = try await store.track(.all)
        _ = try await world.joining("joined").join(store)
        world.add(store)
        try note(world, 1, "afterwards")
        try await world.settle()
        #expect(try await store.logEvidence() == nil)
        #expect(try await store.digest() == world.stores[0].digest())
    }

    @Test func `a replica that came back by a snapshot keeps nothing against the relay either`() async throws {
        let world = try await SyncedStores(
            replicas: 3, schema: "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT); INSERT INTO note VALUES('a', 'first')")
        for index in [0, 1, 2] { try note(world, index, "of \(index)") }
        try await world.settle()
        for index in [1, 0] {
            try note(world, index, "while 2 is away, of \(index)")
            try await world.sync(index)
        }
        let position = try await bring(world, changing: "UPDATE annals_snapshot_authors SET counter = counter + 1")
        var rules = PurgeRules()
        (rules.keep, rules.isForced) = (-60_000, true)
        #expect(try await world.relay.purge(rules) == position)
        #expect(try await world.sync(2).cameBack == position)
        try note(world, 1, "afterwards")
        try await world.sync(1)
        let error = await #expect(throws: AnnalsError.self) { try await world.sync(2) }
        #expect(error?.code == .corruptBatch, "\(String(describing: error))")
        #expect(error?.message.contains("in the snapshot at position \(position)") == true)
        #expect(try await world.stores[2].logEvidence() == nil)
    }
}
