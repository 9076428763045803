import AnnalsCore
import AnnalsRows
import AnnalsSQLite
import AnnalsStore
import Foundation
import GRDB
import Testing

@Suite("The connection while entries are applied")
struct MergeConnectionTests {
    private struct Stop: Error {}

    private let schema = """
        CREATE TABLE parent (id INTEGER PRIMARY KEY);
        CREATE TABLE child (id INTEGER PRIMARY KEY, parent REFERENCES parent ON DELETE CASCADE);
        CREATE TABLE log (line);
        CREATE TRIGGER a AFTER INSERT ON parent BEGIN INSERT INTO log VALUES (new.id); INSERT INTO child VALUES (NULL, new.id); END;
        INSERT INTO parent VALUES (1);
        """

    private func store() throws -> TriggerStore {
        try TriggerStore(tracked: ["parent", "child"], schema)
    }

    /// The settings that must be the same before and after.
    private func state(_ store: TriggerStore) throws -> [String] {
        try store.queue.writeWithoutTransaction { db in
            let version = try Int.fetchOne(db, sql: "PRAGMA main.schema_version") ?? -1
            let foreignKeys = try Int.fetchOne(db, sql: "PRAGMA foreign_keys") ?? -1
            let cache = try Int.fetchOne(db, sql: "PRAGMA main.cache_size") ?? -1
            let file = try String.fetchAll(db, sql: "SELECT coalesce(sql, name) FROM main.sqlite_master ORDER BY rowid")
            let temporary = try String.fetchAll(db, sql: "SELECT name FROM temp.sqlite_master")
            // A local write shows whether triggers run, and is rolled back.
            let fired = try { () -> Int in
                try db.execute(sql: "SAVEPOINT probe; DELETE FROM log; INSERT INTO parent VALUES (99)")
                let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM log") ?? -1
                try db.execute(sql: "ROLLBACK TO probe; RELEASE probe")
                return count
            }()
            return ["\(version) \(cache) \(foreignKeys) \(fired)"] + file + temporary
        }
    }

    @Test("Foreign keys and triggers are off inside, and the schema and settings the same afterwards")
    func setUpAndBack() throws {
        let store = try store()
        let before = try state(store)
        #expect(before[0].hasSuffix(" 1 1"))
        try store.apply("INSERT INTO parent VALUES (2); DELETE FROM parent WHERE id = 1; INSERT INTO child VALUES (9, 77)")
        #expect(try store.rows("SELECT parent FROM child ORDER BY id") == ["1", "77"])
        #expect(try store.rows("SELECT line FROM log") == ["1", "2"])
        try store.writeLocally("DELETE FROM child WHERE parent IN (1, 77)")
        #expect(try state(store) == before)
    }

    @Test("Foreign keys that were off stay off")
    func foreignKeysOff() throws {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        let store = try TriggerStore(tracked: ["parent", "child"], schema, configuration: configuration)
        let before = try state(store)
        #expect(before[0].hasSuffix(" 0 1"))
        try store.apply("INSERT INTO parent VALUES (2)")
        #expect(try state(store) == before)
    }

    @Test("A failure sets everything back, and rolls back what it left open")
    func failure() throws {
        let store = try store()
        let before = try state(store)
        try store.queue.writeWithoutTransaction { db in
            let triggers = try UserTriggers.plan(db, tracked: store.tracked)
            #expect(throws: Stop.self) {
                try MergeConnection.withTriggersAndForeignKeysOff(db, userTriggers: triggers) {
                    try db.execute(sql: "BEGIN; INSERT INTO parent VALUES (2)")
                    throw Stop()
                }
            }
        }
        #expect(throws: DatabaseError.self) { try store.apply("INSERT INTO parent VALUES (3); INSERT INTO nosuch VALUES (1)") }
        #expect(try store.rows("SELECT id FROM parent") == ["1"])
        #expect(try state(store) == before)
    }

    @Test("A refusal sets everything back")
    func refusal() throws {
        let store = try store()
        try store.writeLocally("CREATE TRIGGER b AFTER DELETE ON child BEGIN INSERT INTO log VALUES (unknown()); END")
        let before = try state(store)
        #expect(try store.refusal() != nil)
        #expect(try state(store) == before)
    }

    @Test(
        "The cache is large inside, and a program's own larger one is kept",
        arguments: [-2_000, -1_000_000, 50_000])
    func cache(found: Int) throws {
        let store = try store()
        try store.queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA main.cache_size = \(found)")
            let triggers = try UserTriggers.plan(db, tracked: store.tracked)
            try MergeConnection.withTriggersAndForeignKeysOff(db, userTriggers: triggers) {
                let size = try #require(try Int.fetchOne(db, sql: "PRAGMA main.cache_size"))
                // How large it is depends on the free memory.
                #expect(found == -2_000 ? size <= -WorkCache.least : size == found)
            }
            let size = try Int.fetchOne(db, sql: "PRAGMA main.cache_size")
            #expect(size == found)
        }
    }

    @Test("A cancelled access sets everything back")
    func cancellation() async throws {
        let store = try store()
        let before = try state(store)
        let (started, isStarted) = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            try await store.queue.writeWithoutTransaction { db in
                let triggers = try UserTriggers.plan(db, tracked: store.tracked)
                try MergeConnection.withTriggersAndForeignKeysOff(db, userTriggers: triggers) {
                    try db.execute(sql: "BEGIN; INSERT INTO parent VALUES (2)")
                    isStarted.finish()
                    while true { try db.execute(sql: "UPDATE log SET line = line") }
                }
            }
        }
        for await _ in started {}
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(try store.rows("SELECT id FROM parent") == ["1"])
        #expect(try state(store) == before)
    }

    @Test("Setting up and back writes nothing to the file and needs no lock that a writer holds")
    func noLock() throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("annals-\(UUID().uuidString).db").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        let applying = try DatabaseQueue(path: path)
        try applying.write { try $0.execute(sql: schema) }
        let before = try Data(contentsOf: URL(fileURLWithPath: path))
        let other = try DatabaseQueue(path: path)
        try other.inDatabase { other in
            try other.execute(sql: "BEGIN IMMEDIATE")
            try applying.writeWithoutTransaction { db in
                let triggers = try UserTriggers.plan(db, tracked: ["parent"])
                #expect(!triggers.isEmpty)
                try MergeConnection.withTriggersAndForeignKeysOff(db, userTriggers: triggers) {
                    let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM temp.sqlite_master")
                    #expect(count == 1)
                }
            }
            try other.execute(sql: "ROLLBACK")
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == before)
    }
}
