import Foundation
import GRDB
import Testing

/// Laws 6 and 7 under `kill -9` between the parts of one transaction: of the agent that sends them, of the relay that
/// gathers them, and of the agent that takes them in.
@Suite(.serialized) struct PartsCrashTests {
    @Test("Killed between the parts of a transaction, everyone has all of it or nothing", .timeLimit(.minutes(20)))
    func kills() async throws {
        try await onThreadOfItsOwn {
            let scene = try PartsScene()
            try scene.killWhileSending(relayToo: false)
            try scene.killWhileSending(relayToo: true)
            try scene.killWhileTakingIn()
            scene.isOneValue = true
            try scene.killWhileSending(relayToo: false)
            try scene.killWhileTakingIn()
            #expect(scene.killed.allSatisfy { $0.value > 0 }, "no process was killed between parts: \(scene.killed)")
            #expect(try scene.rows(0) == scene.written && scene.rows(1) == scene.written)
            for index in 0..<2 { #expect(try Programs.run("verify", scene.store(index)) == 0) }
            #expect(try Programs.run("sync", scene.store(0), scene.store(1)) == 0)
        }
    }
}

/// Two stores and a relay; one of the stores writes transactions of several parts, or a value of several pieces.
private final class PartsScene {
    private static let rowsEach = 34
    /// An eighth of a part.
    private static let rowBytes = 1 << 19

    /// The writer writes one value, of as many bytes as the rows have otherwise and more: it has parts of its own.
    var isOneValue = false
    private(set) var written = 0
    /// How often who was killed between parts.
    private(set) var killed = ["author": 0, "relay": 0, "reader": 0]

    private let folder: URL
    private let relay: RelayProcess

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("annals-crash-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        relay = try RelayProcess(data: folder.appendingPathComponent("relay").path)
        try open(store(0)).write { try $0.execute(sql: "CREATE TABLE item (id INTEGER PRIMARY KEY, data BLOB)") }
        try #require(try Programs.run("track", store(0), "--all", "--wal") == 0)
        try #require(try Programs.run("join", store(0), "--relay", relay.url, "--space", "crash") == 0)
        try #require(try Programs.run("clone", relay.url, "crash", store(1)) == 0)
    }

    deinit {
        _ = relay.kill()
        try? FileManager.default.removeItem(at: folder)
    }

    func store(_ index: Int) -> String { folder.appendingPathComponent("s\(index).db").path }

    func rows(_ index: Int) throws -> Int {
        try open(store(index)).read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM item") ?? 0 }
    }

    private func write() throws {
        let (count, bytes) = isOneValue ? (1, 80 * Self.rowBytes) : (Self.rowsEach, Self.rowBytes)
        let rows = "SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < \(count)"
        let sql = "WITH RECURSIVE c(x) AS (\(rows)) INSERT INTO item (data) SELECT randomblob(\(bytes)) FROM c"
        try open(store(0)).write { try $0.execute(sql: sql) }
        written += count
    }

    /// Kills the author, and the relay as well, when the relay has one part, two, three; then lets them come to the end.
    func killWhileSending(relayToo: Bool) throws {
        let before = written
        try write()
        for parts in 1...3 {
            let agent = try Programs.start(["sync", store(0)])
            try wait(until: parts, in: folder.appendingPathComponent("relay/relay.db").path, while: agent)
            if relayToo, relay.kill() { killed["relay", default: 0] += 1 }
            if Programs.kill(agent), !relayToo { killed["author", default: 0] += 1 }
            if relayToo { try relay.start() }
            #expect(try Programs.run("sync", store(1)) == 0)
            #expect(try [before, written].contains(rows(1)), "the other store has half of a transaction")
        }
        #expect(try Programs.run("sync", store(0), store(1)) == 0)
        #expect(try rows(1) == written)
    }

    /// Kills the reader when it keeps one part, two, three; then lets it come to the end.
    func killWhileTakingIn() throws {
        let before = written
        try write()
        #expect(try Programs.run("sync", store(0)) == 0)
        for parts in 1...3 {
            let agent = try Programs.start(["sync", store(1)])
            try wait(until: parts, in: store(1), while: agent)
            if Programs.kill(agent) { killed["reader", default: 0] += 1 }
            #expect(try [before, written].contains(rows(1)), "the reader has half of a transaction")
        }
        #expect(try Programs.run("sync", store(1)) == 0)
    }

    /// Looks again and again until so many parts wait in a database, or the agent is through.
    private func wait(until count: Int, in database: String, while agent: Process) throws {
        let queue = try open(database)
        let gate = DispatchSemaphore(value: 0)
        while agent.isRunning {
            let found = try queue.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM annals_parts") ?? 0 }
            if found >= count { return }
            _ = gate.wait(timeout: .now() + .microseconds(500))
        }
    }

    private func open(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .timeout(20)
        return try DatabaseQueue(path: path, configuration: configuration)
    }
}
