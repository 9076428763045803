import AnnalsCore
import AnnalsReplica
import AnnalsSQLite
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import Testing

/// A member of the space sends a snapshot that cannot be used. A clone uses an older one and the log.
@Suite struct BadSnapshotTests {
    enum Kind: CaseIterable {
        case noDatabase, otherDatabase, missingTable, rowsThatTheLogDoesNotFit, otherLog, zerosBehindIt, manyZeros, cutOff, walMode

        /// Whether a relay detects it without reading a row.
        var isSeenByRelay: Bool {
            switch self {
            case .noDatabase, .zerosBehindIt, .manyZeros, .cutOff, .walMode: true
            case .otherDatabase, .missingTable, .rowsThatTheLogDoesNotFit, .otherLog: false
            }
        }

        /// The change of the file's tables.
        var change: String {
            switch self {
            case .missingTable: "DROP TABLE annals_snapshot_authors"
            case .otherLog: "UPDATE annals_snapshot SET value = randomblob(32) WHERE name = 'log'"
            default: "UPDATE note SET text = 'made up'"
            }
        }
    }

    /// Makes the bad snapshot the newest one. If an honest relay refuses it, another relay hands it out.
    private func bring(_ kind: Kind, _ world: SyncedStores) async throws -> (Position, any RelayTransport) {
        let plain = world.folder.file("bad-\(kind).db")
        let state = try #require(await world.stores[0].replicaState())
        switch kind {
        case .noDatabase:
            try Data("no database".utf8).write(to: URL(fileURLWithPath: plain))
        case .otherDatabase:
            let queue = try DatabaseQueue(path: plain)
            try await queue.write { db in try db.execute(sql: "CREATE TABLE other(id INTEGER PRIMARY KEY)") }
            try queue.close()
        case .missingTable, .rowsThatTheLogDoesNotFit, .otherLog:
            _ = try #require(await world.stores[0].makeSnapshot(at: plain, relayTime: world.clock.milliseconds))
            let queue = try DatabaseQueue(path: plain)
            try await queue.writeWithoutTransaction { db in
                try db.execute(sql: "\(kind.change); VACUUM")
            }
            try queue.close()
        case .zerosBehindIt, .manyZeros, .cutOff, .walMode:
            _ = try #require(await world.stores[0].makeSnapshot(at: plain, relayTime: world.clock.milliseconds))
            try change(plain, kind)
        }
        let packed = world.folder.file("bad-\(kind).zst")
        let file = try Compression.compressFile(at: plain, to: packed)
        do {
            try await world.relay.uploadSnapshot(at: packed, seen: state.seen, digest: file.digest) { _ in }
            #expect(!kind.isSeenByRelay)
            return (state.position, world.relay)
        } catch {
            guard kind.isSeenByRelay, case .problem(let problem, _) = error else { throw error }
            #expect(problem.code == "bad-snapshot")
            return (state.position, AlteredRelay.handingOut(packed, at: state.position, world.relay))
        }
    }

    /// Makes a file with another size than its header says, or with a header that no snapshot has. A file of zeros compresses to almost
    /// nothing.
    private func change(_ path: String, _ kind: Kind) throws {
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: path))
        defer { try? file.close() }
        let size = try file.seekToEnd()
        let zeros: UInt64 = 100 << 20
        switch kind {
        case .zerosBehindIt: try file.truncate(atOffset: size + 4_096)
        case .cutOff: try file.truncate(atOffset: size - 4_096)
        case .walMode:
            try file.seek(toOffset: 18)
            try file.write(contentsOf: [2, 2])
        default:
            try file.truncate(atOffset: zeros)
            try file.seek(toOffset: 28)
            let pages = UInt32(zeros / 4_096)
            try file.write(contentsOf: [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: pages >> $0) })
        }
    }

    /// The limit of the size that a clone unpacks.
    @Test(arguments: [Kind.zerosBehindIt, .manyZeros])
    func `no more is unpacked than a snapshot says, or than so few bytes give`(kind: Kind) async throws {
        let world = try await SyncedStores(replicas: 1, schema: "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT)")
        let (plain, packed, back) = (world.folder.file("plain.db"), world.folder.file("packed"), world.folder.file("back.db"))
        _ = try #require(await world.stores[0].makeSnapshot(at: plain, relayTime: world.clock.milliseconds))
        let size = try #require(FileManager.default.attributesOfItem(atPath: plain)[.size] as? Int)
        try change(plain, kind)
        let file = try Compression.compressFile(at: plain, to: packed)
        #expect(file.packedBytes < 16_384)
        let unpacker = try FileUnpacker(packed, to: back, maximumBytes: SyncLimits.snapshotBytes)
        #expect(throws: WireError.tooLarge(kind == .manyZeros ? "compression" : "file")) { try unpacker.take(upTo: .max) }
        let written = try #require(FileManager.default.attributesOfItem(atPath: back)[.size] as? Int)
        #expect(written <= (kind == .manyZeros ? 64 << 20 : size))
    }

    @Test(arguments: Kind.allCases)
    func `a clone takes an older snapshot where the newest cannot be used, and says so`(kind: Kind) async throws {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT); INSERT INTO note VALUES('a', 'first')")
        for number in 0..<3 {
            try world.outside(0, "INSERT INTO note VALUES('\(number)', 'x')")
            try await world.settle()
        }
        let (position, relay) = try await bring(kind, world)
        // The log continues with rows that differ in the snapshot.
        try world.outside(1, "UPDATE note SET text = 'later'")
        try await world.settle()
        let path = world.folder.file("clone.db")
        let clone = try await world.joining("clone", over: relay).clone(to: path)
        #expect(clone.unusableSnapshots == [position])
        let store = try Store(path: path, configuration: world.configuration("clone"))
        #expect(try await store.digest() == world.stores[0].digest())
        #expect(try await store.verify().isEmpty)
        try store.close()
    }

    @Test func `an older one that says that it is of another log is passed over, too`() async throws {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT); INSERT INTO note VALUES('a', 'first')")
        var positions: [Position] = []
        for kind in [Kind.otherLog, .missingTable] {
            for index in [0, 1] { try world.outside(index, "INSERT INTO note VALUES('\(kind) \(index)', 'x')") }
            try await world.settle()
            positions.append(try await bring(kind, world).0)
        }
        // The relay states the log of the newest snapshot only.
        let clone = try await world.joining("clone").clone(to: world.folder.file("clone.db"))
        #expect(clone.unusableSnapshots == positions.reversed())
        let store = try Store(path: world.folder.file("clone.db"), configuration: world.configuration("clone"))
        #expect(try await store.digest() == world.stores[0].digest())
        try store.close()
    }

    @Test func `where no snapshot can be used the error names the newest one's fault`() async throws {
        let world = try await SyncedStores(
            replicas: 1, schema: "CREATE TABLE note(id TEXT PRIMARY KEY, text TEXT); INSERT INTO note VALUES('a', 'first')")
        try world.outside(0, "INSERT INTO note VALUES('b', 'x')")
        try await world.settle()
        _ = try await bring(.missingTable, world)
        let relay = AlteredRelay.newestSnapshotOnly(world.relay)
        let error = await #expect(throws: AnnalsError.self) {
            _ = try await world.joining("clone", over: relay).clone(to: world.folder.file("clone.db"))
        }
        #expect(error?.code == .corruptBatch, "\(String(describing: error))")
        #expect(!FileManager.default.fileExists(atPath: world.folder.file("clone.db")))
    }
}
