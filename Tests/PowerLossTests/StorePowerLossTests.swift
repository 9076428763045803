import Annals
import AnnalsTesting
import Foundation
import GRDB
import RelayLog
import SeededRandom
import Testing

/// A store after a loss of power. `ANNALS_SEED=n` replays one.
@Suite("A store after a loss of power", .serialized, .timeLimit(.minutes(20)))
struct StorePowerLossTests {
    private static let losses = 40

    @Test("is whole, has what its journal promises, and syncs on", arguments: ["DELETE", "WAL"], Seeds.givenOrNew(1))
    func acknowledged(journal: String, seed: UInt64) async throws {
        let run = try await StoreRun(journal: journal, seed: seed)
        defer { run.remove() }
        var random = SeededGenerator(seed: seed)
        for _ in 0..<Self.losses {
            let (calls, loss) = (Int.random(in: run.joined...run.disk.callCount, using: &random), random.next())
            let complaint = try await run.complaint(after: calls, seed: loss)
            #expect(complaint == nil, "seed \(seed), \(journal): power lost after call \(calls) of \(run.disk.callCount), by \(loss)")
        }
    }

    @Test("does not where syncs are left out, and the test sees it")
    func broken() async throws {
        let run = try await StoreRun(journal: "DELETE", seed: 1)
        defer { run.remove() }
        var complaints = 0
        for loss in 0..<UInt64(20) {
            if try await run.complaint(after: run.disk.callCount, seed: loss, .noFileSync) != nil { complaints += 1 }
        }
        #expect(complaints > 0)
    }
}

/// A store at work on a disk, and its relay on another one that loses nothing.
private final class StoreRun {
    let disk: PowerLossDisk
    /// Calls of the disk after which it was in its space.
    private(set) var joined = 0

    private let journal: String
    private let address: SpaceAddress
    private let relays: String
    private var random: SeededGenerator
    private var rows: [(calls: Int, row: Int)] = []
    /// The relay as it was after each exchange.
    private var backups: [(calls: Int, folder: String)] = []

    init(journal: String, seed: UInt64) async throws {
        self.journal = journal
        random = SeededGenerator(seed: seed)
        disk = try PowerLossDisk()
        address = try SpaceAddress("notes", at: "http://127.0.0.1:1", as: "one")
        relays = disk.path + "-relays"
        let path = disk.path + "/s.db"
        let queue = try DatabaseQueue(path: path)
        try await queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = \(journal)")
            try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)")
        }
        try queue.close()
        let store = try Store(path: path)
        let relay = Backing(relay: try LocalRelay(folder: relays + "/served", space: address.space), run: self)
        try await store.track(.all)
        try await SyncAgent(store: store, transport: relay, joining: address).sync()
        // Folds a write-ahead log back, so that this much is durable.
        let other = try DatabaseQueue(path: path)
        try await other.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)") }
        try other.close()
        try backUp()
        joined = disk.callCount
        for row in 1...24 {
            let text = String(repeating: "a", count: random.one(of: [1, 30, 2_000, 9_000]))
            try await store.write { db in try db.execute(sql: "INSERT INTO note VALUES (?, ?)", arguments: [row, text]) }
            rows.append((disk.callCount, row))
            if row % 5 == 0 { try await SyncAgent(store: store, transport: relay).sync() }
        }
        // Still in the write-ahead log, where there is one.
        try backUp()
    }

    func remove() {
        disk.remove()
        try? FileManager.default.removeItem(atPath: relays)
    }

    fileprivate func backUp() throws {
        let folder = "\(relays)/\(backups.count)"
        let database = try RelayDatabase(directory: relays + "/served")
        _ = try RelayCopy.makeFolder(folder, from: database)
        backups.append((disk.callCount, folder))
    }

    // MARK: After the loss

    /// What is wrong with the store after a loss of power; nil where nothing is.
    func complaint(after calls: Int, seed: UInt64, _ defect: PowerLossDisk.Defect = .none) async throws -> String? {
        let image = try disk.image(after: calls, seed: seed, defect)
        defer { try? FileManager.default.removeItem(atPath: image) }
        do {
            return try await complaint(image, calls)
        } catch {
            return "\(error)"
        }
    }

    private func complaint(_ image: String, _ calls: Int) async throws -> String? {
        let store = try Store(path: image + "/s.db")
        let found = try await store.read { db in try String.fetchAll(db, sql: "PRAGMA integrity_check") }
        guard found == ["ok"] else { return "the database is damaged: \(found)" }
        let kept = try await store.read { db in try Int.fetchAll(db, sql: "SELECT id FROM note ORDER BY id") }
        guard kept == Array(0..<kept.count).map({ $0 + 1 }) else { return "rows \(kept) are no beginning of what was written" }
        let acknowledged = rows.last { $0.calls <= calls }?.row ?? 0
        // With a write-ahead log a commit is durable with the next checkpoint; before that the last ones may be gone.
        if journal != "WAL", kept.count < acknowledged { return "row \(acknowledged) is gone, the last is \(kept.count)" }
        guard let backup = backups.last(where: { $0.calls <= calls })?.folder else { return "no relay" }
        try FileManager.default.copyItem(atPath: backup, toPath: image + "/relay")
        let relay = try LocalRelay(folder: image + "/relay", space: address.space)
        for _ in 0..<2 { try await SyncAgent(store: store, transport: relay).sync() }
        let other = try await address.clone(to: image + "/other.db", over: relay)
        let (one, two) = (try await store.digest(), try await other.digest())
        return one == two ? nil : "after a sync the store and a clone differ"
    }
}

/// Keeps what the relay has after each push.
private final class Backing: ForwardingTransport {
    let relay: LocalRelay
    var base: any RelayTransport { relay }
    private let backUp: @Sendable () throws -> Void

    init(relay: LocalRelay, run: StoreRun) {
        self.relay = relay
        nonisolated(unsafe) let run = run
        backUp = { try run.backUp() }
    }

    func push(_ batch: [UInt8], seen: LogMark) async throws(TransportError) -> PushAnswer {
        let answer = try await relay.push(batch, seen: seen)
        do {
            try backUp()
        } catch {
            throw .unreachable("\(error)", wasSent: true)
        }
        return answer
    }
}
