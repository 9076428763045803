import Foundation
import GRDB
import SeededRandom
import Testing

/// Laws 5 and 7 under `kill -9` of agents and relay. `ANNALS_SEED=n` replays the choices of one run; the moments stay
/// the machine's.
@Suite(.serialized) struct CrashTests {
    private static let kills = 100
    private static let killsInWork = 60
    private static let rounds = 600

    @Test("Killed at random moments, agents and relay lose nothing and do nothing twice", .timeLimit(.minutes(20)))
    func kills() async throws {
        try await onThreadOfItsOwn { try Self.run() }
    }

    private static func run() throws {
        let seed = Seeds.givenOrNew(1)[0]
        print("CrashTests: ANNALS_SEED=\(seed) replays these choices")
        let scene = try CrashScene(seed: seed)
        for _ in 0..<rounds where scene.killed < kills || scene.killedInWork < killsInWork {
            try scene.write()
            try scene.crash()
        }
        print(
            "CrashTests: \(scene.killed) kills, \(scene.killedInWork) of them during a push or an apply, \(scene.killedRelays) of a relay")
        #expect(scene.killed >= kills && scene.killedInWork >= killsInWork)
        try scene.settle()
        for index in 0..<2 {
            #expect(try scene.names(index) == scene.written.sorted(), "seed \(seed): store \(index) lost a row or has one twice")
            #expect(try scene.check(index).isEmpty, "seed \(seed): store \(index) is not whole")
            #expect(try Programs.run("verify", scene.store(index)) == 0, "seed \(seed): verify of store \(index) fails")
        }
        #expect(try scene.rows(0) == scene.rows(1), "seed \(seed): the stores differ")
    }
}

/// Two stores and a relay, all of them processes that can die.
private final class CrashScene {
    private(set) var written: [String] = []
    private(set) var killed = 0
    private(set) var killedInWork = 0
    private(set) var killedRelays = 0

    private let folder: URL
    private let relay: RelayProcess
    private var random: SeededGenerator
    private var number = 0
    /// How long a sync that is left alone takes on this machine now; kills fall into this time.
    private var typicalMicroseconds = 60_000

    init(seed: UInt64) throws {
        random = SeededGenerator(seed: seed)
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("annals-crash-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        relay = try RelayProcess(data: folder.appendingPathComponent("relay").path)
        try sql(
            0,
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, size INTEGER);
            CREATE TABLE part (item INTEGER NOT NULL REFERENCES item (id), place INTEGER NOT NULL, name TEXT, PRIMARY KEY (item, place));
            CREATE TABLE shared (id INTEGER PRIMARY KEY, value INTEGER);
            INSERT INTO shared VALUES (1, 0);
            """)
        try #require(try Programs.run("track", store(0), "--all", "--wal") == 0)
        try #require(try Programs.run("join", store(0), "--relay", relay.url, "--space", "crash") == 0)
        try #require(try Programs.run("clone", relay.url, "crash", store(1)) == 0)
    }

    deinit {
        _ = relay.kill()
        try? FileManager.default.removeItem(at: folder)
    }

    func store(_ index: Int) -> String { folder.appendingPathComponent("s\(index).db").path }

    /// What another program writes on both sides: new rows with the same next number and children, and one hot row.
    func write() throws {
        for index in 0..<2 {
            let count = Int.random(in: 1...40, using: &random)
            var statements: [String] = []
            for _ in 0..<count {
                number += 1
                written.append("n\(number)")
                statements.append("INSERT INTO item (name, size) VALUES ('n\(number)', \(number))")
                statements.append("INSERT INTO part VALUES (last_insert_rowid(), 1, 'n\(number)')")
            }
            statements.append("UPDATE shared SET value = \(number) WHERE id = 1")
            try sql(index, statements.joined(separator: ";"))
        }
    }

    /// Lets both sides sync and kills one of the three in the middle.
    func crash() throws {
        let start = DispatchTime.now()
        let agents = try (0..<2).map { try Programs.start(["sync", store($0)]) }
        let victim = Int.random(in: 0..<5, using: &random)
        wait(microseconds: typicalMicroseconds * Int.random(in: 30...105, using: &random) / 100)
        if victim == 4 {
            let wasWorking = agents.contains(where: \.isRunning)
            if relay.kill() { count(inWork: wasWorking, isRelay: true) }
            for agent in agents { _ = Programs.kill(agent) }
            try relay.start()
        } else {
            let index = victim % 2
            if Programs.kill(agents[index]) { count(inWork: try isInWork(index), isRelay: false) }
            agents[1 - index].waitUntilExit()
            let taken = Int((DispatchTime.now().uptimeNanoseconds - start.uptimeNanoseconds) / 1000)
            typicalMicroseconds = min(max((3 * typicalMicroseconds + taken) / 4, 10_000), 2_000_000)
        }
    }

    private func count(inWork: Bool, isRelay: Bool) {
        killed += 1
        if inWork { killedInWork += 1 }
        if isRelay { killedRelays += 1 }
    }

    /// A push was under way, or work in the outbox or entries of the log were not taken in yet when the agent died.
    private func isInWork(_ index: Int) throws -> Bool {
        try read(index) { db in
            let pushes = try Int.fetchOne(db, sql: "SELECT count(*) FROM annals_push") ?? 0
            let outbox = try Int.fetchOne(db, sql: "SELECT count(*) FROM annals_outbox") ?? 0
            let ahead = try Int.fetchOne(db, sql: "SELECT count(*) FROM annals_ahead") ?? 0
            return pushes + outbox + ahead > 0
        }
    }

    /// Syncs in turn until both are through.
    func settle() throws {
        for _ in 0..<6 {
            for index in 0..<2 { _ = try Programs.run("sync", store(index)) }
        }
    }

    func names(_ index: Int) throws -> [String] {
        let items = try read(index) { try String.fetchAll($0, sql: "SELECT name FROM item") }.sorted()
        let parts = try read(index) {
            try String.fetchAll($0, sql: "SELECT part.name FROM part JOIN item ON item.id = part.item AND item.name = part.name")
        }
        return items == parts.sorted() ? items : []
    }

    func check(_ index: Int) throws -> [Row] {
        try read(index) { try Row.fetchAll($0, sql: "PRAGMA foreign_key_check") }
    }

    func rows(_ index: Int) throws -> [[DatabaseValue]] {
        try read(index) { db in
            try ["SELECT * FROM item ORDER BY id", "SELECT * FROM part ORDER BY item, place", "SELECT * FROM shared"].flatMap { query in
                try Row.fetchAll(db, sql: query).map { Array($0.databaseValues) }
            }
        }
    }

    private func read<T>(_ index: Int, _ body: (Database) throws -> T) throws -> T {
        try open(index).write(body)
    }

    private func sql(_ index: Int, _ sql: String) throws {
        try open(index).write { try $0.execute(sql: sql) }
    }

    private func open(_ index: Int) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .timeout(20)
        return try DatabaseQueue(path: store(index), configuration: configuration)
    }

    /// Blocks this thread for a moment whose length is the test's choice: the moment of the kill.
    private func wait(microseconds: Int) {
        let gate = DispatchSemaphore(value: 0)
        _ = gate.wait(timeout: .now() + .microseconds(microseconds))
    }
}
