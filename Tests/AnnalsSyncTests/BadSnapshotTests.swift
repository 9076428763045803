import AnnalsCore
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import Testing

/// A member of the space brings a snapshot that cannot be used: a clone uses an older one and the log.
@Suite struct BadSnapshotTests {
    enum Kind: CaseIterable {
        case noDatabase, otherDatabase, missingTable, rowsThatTheLogDoesNotFit
    }

    private func bring(_ kind: Kind, _ world: World) async throws -> Position {
        let plain = world.folder.file("bad.db")
        let state = try #require(await world.stores[0].replicaState())
        switch kind {
        case .noDatabase:
            try Data("no database".utf8).write(to: URL(fileURLWithPath: plain))
        case .otherDatabase:
            let queue = try DatabaseQueue(path: plain)
            try await queue.write { db in try db.execute(sql: "CREATE TABLE other(id INTEGER PRIMARY KEY)") }
            try queue.close()
        case .missingTable, .rowsThatTheLogDoesNotFit:
            _ = try #require(await world.stores[0].makeSnapshot(at: plain, relayTime: world.clock.milliseconds))
            let queue = try DatabaseQueue(path: plain)
            try await queue.writeWithoutTransaction { db in
                let sql = kind == .missingTable ? "DROP TABLE annals_snapshot_authors" : "UPDATE note SET text = 'made up'"
                try db.execute(sql: "\(sql); VACUUM")
            }
            try queue.close()
        }
        let packed = world.folder.file("bad.zst")
        let file = try Compression.compressFile(at: plain, to: packed)
        try await world.relay.uploadSnapshot(at: packed, seen: state.seen, digest: file.digest) { _ in }
        return state.position
    }

    @Test(arguments: Kind.allCases)
    func `a clone takes an older snapshot where the newest cannot be used, and says so`(kind: Kind) async throws {
        let world = try await World(
            replicas: 2, schema: "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT); INSERT INTO note VALUES('a', 'first')")
        for number in 0..<3 {
            try world.outside(0, "INSERT INTO note VALUES('\(number)', 'x')")
            try await world.settle()
        }
        let position: Position
        do {
            position = try await bring(kind, world)
        } catch let error as TransportError {
            // The relay looks at the container itself.
            guard kind == .noDatabase, case .problem = error else { throw error }
            return
        }
        // The log goes on over the rows that the snapshot has otherwise.
        try world.outside(1, "UPDATE note SET text = 'later'")
        try await world.settle()
        let path = world.folder.file("clone.db")
        let clone = try await world.joining("clone").clone(to: path)
        #expect(clone.unusableSnapshots == [position])
        let store = try Store(path: path, configuration: world.configuration("clone"))
        #expect(try await store.digest() == world.stores[0].digest())
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test func `where no snapshot can be used the error names the newest one's fault`() async throws {
        let world = try await World(
            replicas: 1, schema: "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT); INSERT INTO note VALUES('a', 'first')")
        try world.outside(0, "INSERT INTO note VALUES('b', 'x')")
        try await world.settle()
        _ = try await bring(.missingTable, world)
        let relay = NewestSnapshotOnly(base: world.relay)
        let error = await #expect(throws: AnnalsError.self) {
            _ = try await world.joining("clone", over: relay).clone(to: world.folder.file("clone.db"))
        }
        #expect(error?.code == .corruptBatch, "\(String(describing: error))")
        #expect(!FileManager.default.fileExists(atPath: world.folder.file("clone.db")))
    }
}

/// Has no older snapshot.
private struct NewestSnapshotOnly: ForwardingTransport {
    let base: any RelayTransport

    func downloadSnapshot(
        atOrBefore position: Position, to path: String, progress: @escaping @Sendable (Int64) -> Void
    ) async throws(TransportError) -> Position {
        throw .problem(Problem(.noSnapshot), retryAfter: nil)
    }
}
