import Annals
import AnnalsTesting
import Foundation
import Testing

@Suite("Opening a store")
struct OpeningTests {
    private func configuration(_ steps: Int = 1) -> Store.Configuration {
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        configuration.tables = .tables(["team", "player"])
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { db in try db.execute(sql: League.schema) }
        if steps > 1 {
            migrator.registerMigration("2") { db in try db.execute(sql: "UPDATE player SET score = score * 2") }
        }
        configuration.migrator = migrator
        return configuration
    }

    private func code(_ body: () throws -> Void) -> AnnalsError.Code? {
        #expect(throws: AnnalsError.self) { try body() }?.code
    }

    @Test("makes the file, migrates it and installs capture; opened again, it is as it was")
    func create() async throws {
        let file = try TemporaryFile("league.db")
        do {
            let store = try Store(path: file.path, configuration: configuration())
            #expect(try await store.status().tracked.count == 2)
            #expect(try await store.read { try String.fetchOne($0, sql: "PRAGMA journal_mode") } == "wal")
            try store.close()
        }
        let store = try Store(path: file.path, configuration: configuration())
        #expect(try await store.read { try Player.fetchCount($0) } == 3)
        // History has any program's writes from the first opening on.
        let other = try DatabaseQueue(path: file.path)
        try await other.write { db in try db.execute(sql: "UPDATE player SET score = 1") }
        #expect(try await store.historyCount() == 1)
    }

    @Test("what a later migration does to tracked rows is one transaction of origin migration")
    func migration() async throws {
        let file = try TemporaryFile("league.db")
        try Store(path: file.path, configuration: configuration()).close()
        let other = try DatabaseQueue(path: file.path)
        try await other.write { db in try db.execute(sql: "UPDATE player SET name = 'Anna' WHERE id = 1") }
        let store = try Store(path: file.path, configuration: configuration(2))
        var origins: [String] = []
        for try await transaction in store.history() { origins.append(transaction.origin.name) }
        #expect(origins == ["external", "migration"])
        #expect(try await store.read { try Player.fetchOne($0, key: 1)?.score } == 20)
    }

    @Test("in memory and around an app's own queue does the same")
    func others() async throws {
        let memory = try Store(inMemory: nil, configuration: configuration())
        #expect(try await memory.status().tracked.count == 2)
        let queue = try DatabaseQueue()
        let wrapping = try Store(wrapping: queue, configuration: configuration())
        #expect(try await wrapping.status().tracked.count == 2)
        #expect(try await queue.read { try Player.fetchCount($0) } == 3)
    }

    @Test("that fails throws what is wrong, and makes or changes nothing")
    func failures() async throws {
        let file = try TemporaryFile("league.db")
        #expect(code { _ = try Store(path: file.path) } == .fileNotFound)
        #expect(!FileManager.default.fileExists(atPath: file.path))
        #expect(code { _ = try Store(path: file.folder + "/none/league.db", configuration: configuration()) } == .cannotCreate)
        try Data("no database, and longer than nothing".utf8).write(to: URL(fileURLWithPath: file.path))
        #expect(code { _ = try Store(path: file.path, configuration: configuration()) } == .notADatabase)
        #expect(code { _ = try Store(path: file.folder, configuration: configuration()) } == .notADatabase)
    }

    @Test("refuses a schema of a newer app, and a table that cannot have a history")
    func schema() async throws {
        let file = try TemporaryFile("league.db")
        try Store(path: file.path, configuration: configuration(2)).close()
        #expect(code { _ = try Store(path: file.path, configuration: configuration()) } == .schemaRefused)
        var wrong = configuration(2)
        wrong.tables = .tables(["team", "referee"])
        #expect(code { _ = try Store(path: file.path, configuration: wrong) } == .schemaRefused)
        try Store(path: file.path, configuration: configuration(2)).close()
    }

    private func developing(_ schema: String, _ more: String...) -> Store.Configuration {
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        configuration.tables = .all
        var migrator = DatabaseMigrator()
        migrator.eraseDatabaseOnSchemaChange = true
        for (number, sql) in ([schema] + more).enumerated() {
            migrator.registerMigration("\(number)") { db in try db.execute(sql: sql) }
        }
        configuration.migrator = migrator
        return configuration
    }

    @Test("erases a file whose migrations have changed, where the migrator is told to, and tracks its tables anew")
    func erasing() async throws {
        let file = try TemporaryFile("league.db")
        let one = developing("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        do {
            let store = try Store(path: file.path, configuration: one)
            try await store.write { db in try db.execute(sql: "INSERT INTO note VALUES (1, 'old')") }
            try store.close()
        }
        let before = try Store(path: file.path, configuration: one)
        #expect(try await before.historyCount() == 1)
        try before.close()
        let note = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, colour TEXT)"
        do {
            let store = try Store(path: file.path, configuration: developing(note))
            #expect(try await store.status().tracked == ["note"])
            #expect(try await store.historyCount() == 0)
            try await store.write { db in try db.execute(sql: "INSERT INTO note VALUES (1, 'new', 'red')") }
            #expect(try await store.historyCount() == 1)
            #expect(try await store.verify().isEmpty)
            try store.close()
        }
        try Store(path: file.path, configuration: developing(note, "CREATE TABLE tag (name TEXT PRIMARY KEY)")).close()
        // A removed migration is a change too.
        let fewer = try Store(path: file.path, configuration: developing(note))
        #expect(try await fewer.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM note") } == 0)
        #expect(try await fewer.status().tracked == ["note"])
    }

    @Test("keeps rows and history when a migration is only added, also where the migrator may erase")
    func adding() async throws {
        let file = try TemporaryFile("league.db")
        let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)"
        do {
            let store = try Store(path: file.path, configuration: developing(schema))
            try await store.write { db in try db.execute(sql: "INSERT INTO note VALUES (1, 'old')") }
            try store.close()
        }
        let store = try Store(path: file.path, configuration: developing(schema, "UPDATE note SET title = title || '!'"))
        #expect(try await store.read { db in try String.fetchAll(db, sql: "SELECT title FROM note") } == ["old!"])
        var origins: [String] = []
        for try await transaction in store.history() { origins.append(transaction.origin.name) }
        #expect(origins == ["local", "migration"])
    }

    @Test("refuses to erase what is joined to a space")
    func erasingJoined() async throws {
        let file = try TemporaryFile("league.db")
        let address = try SpaceAddress("league", at: "http://127.0.0.1:1", as: "a")
        let relay = try MemoryRelay(space: address.space, clock: ManualClock(milliseconds: 1_700_000_000_000))
        let one = developing("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)")
        do {
            let store = try Store(path: file.path, configuration: one)
            try await SyncAgent(store: store, transport: relay, joining: address).sync()
            try await store.write { db in try db.execute(sql: "INSERT INTO note VALUES (1, 'not sent')") }
            try store.close()
        }
        let other = developing("CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, colour TEXT)")
        #expect(code { _ = try Store(path: file.path, configuration: other) } == .schemaRefused)
        let store = try Store(path: file.path, configuration: one)
        #expect(try await store.read { db in try String.fetchAll(db, sql: "SELECT title FROM note") } == ["not sent"])
    }

    @Test("gives back what a migration threw, and keeps those before it")
    func throwing() async throws {
        struct Stop: Error {}
        let file = try TemporaryFile("league.db")
        var broken = configuration()
        broken.migrator?.registerMigration("2") { db in
            try db.execute(sql: "DELETE FROM player")
            throw Stop()
        }
        let failing = broken
        #expect(throws: Stop.self) { _ = try Store(path: file.path, configuration: failing) }
        let store = try Store(path: file.path, configuration: configuration())
        #expect(try await store.read { try Player.fetchCount($0) } == 3)
    }

    @Test("runs an app's own set-up on every connection")
    func connections() async throws {
        let file = try TemporaryFile("league.db")
        var configuration = configuration()
        configuration.prepareDatabase = { db in
            db.add(
                function: DatabaseFunction("shout", argumentCount: 1, pure: true) { values in
                    (String.fromDatabaseValue(values[0]) ?? "").uppercased()
                })
        }
        let store = try Store(path: file.path, configuration: configuration)
        #expect(try await store.read { try String.fetchOne($0, sql: "SELECT shout(name) FROM player WHERE id = 1") } == "ADA")
        try await store.write { try $0.execute(sql: "UPDATE player SET name = shout(name)") }
    }
}
