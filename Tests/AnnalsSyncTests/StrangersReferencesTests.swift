import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import GRDB
import Testing

/// Law 4 for programs that write with foreign keys off, as the `sqlite3` shell does by default.
@Suite("References that strangers break (law 4)")
struct StrangersReferencesTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var declared: String
        var write: String
        /// The team ids, then each person as id:team.
        var expected: String
        var hasJournal = true

        var testDescription: String { "\(declared): \(write)" }
    }

    /// Teams 1 and 2; person 10 in team 1, person 20 in team 2.
    private static let cases = [
        Case(declared: "ON DELETE CASCADE", write: "DELETE FROM team WHERE id = 1", expected: "2 | 20:2"),
        Case(declared: "ON DELETE SET NULL", write: "DELETE FROM team WHERE id = 1", expected: "2 | 10:, 20:2"),
        Case(declared: "ON DELETE SET DEFAULT", write: "DELETE FROM team WHERE id = 1", expected: "2 | 10:2, 20:2"),
        Case(declared: "ON DELETE RESTRICT", write: "DELETE FROM team WHERE id = 1", expected: "1, 2 | 10:1, 20:2"),
        Case(declared: "", write: "DELETE FROM team WHERE id = 1", expected: "1, 2 | 10:1, 20:2"),
        Case(declared: "", write: "DELETE FROM team; DELETE FROM person WHERE id = 10", expected: "2 | 20:2"),
        Case(
            declared: "", write: "DELETE FROM team WHERE id = 1; DELETE FROM person WHERE id = 10", expected: "2 | 20:2", hasJournal: false),
        Case(declared: "ON DELETE SET NULL", write: "INSERT INTO person VALUES(30, 9)", expected: "1, 2 | 10:1, 20:2, 30:"),
        Case(declared: "", write: "INSERT INTO person VALUES(30, 9), (31, 2)", expected: "1, 2 | 10:1, 20:2, 31:2"),
        Case(declared: "", write: "UPDATE person SET team = 9 WHERE id = 10", expected: "1, 2 | 10:1, 20:2"),
        Case(declared: "ON UPDATE CASCADE", write: "UPDATE team SET id = 5 WHERE id = 1", expected: "2, 5 | 10:5, 20:2", hasJournal: false),
        Case(
            declared: "", write: "INSERT INTO person VALUES(30, 9); INSERT INTO team VALUES(9)", expected: "1, 2, 9 | 10:1, 20:2, 30:9",
            hasJournal: false),
    ]

    private func world(_ declared: String) async throws -> SyncedStores {
        try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE team(id INTEGER PRIMARY KEY);
                CREATE TABLE person(id INTEGER PRIMARY KEY, team INTEGER DEFAULT 2 REFERENCES team(id) \(declared));
                INSERT INTO team VALUES(1), (2);
                INSERT INTO person VALUES(10, 1), (20, 2);
                """)
    }

    private func rows(_ world: SyncedStores, _ index: Int) async throws -> String {
        try await world.stores[index].read { db in
            let teams = try String.fetchAll(db, sql: "SELECT id FROM team ORDER BY id")
            let people = try String.fetchAll(db, sql: "SELECT id || ':' || coalesce(team, '') FROM person ORDER BY id")
            return teams.joined(separator: ", ") + " | " + people.joined(separator: ", ")
        }
    }

    private func expectWhole(_ world: SyncedStores, _ expected: String) async throws {
        for (index, store) in world.stores.enumerated() {
            #expect(try await rows(world, index) == expected)
            #expect(try await store.read { db in try GRDB.Row.fetchAll(db, sql: "PRAGMA foreign_key_check").isEmpty })
            #expect(try await store.foreignKeyViolations().isEmpty)
        }
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
    }

    @Test("do what the key declares, and every replica holds the same", arguments: cases)
    func settled(_ example: Case) async throws {
        let world = try await world(example.declared)
        try world.outside(0, example.write, foreignKeys: false)
        let summary = try await world.sync(0)
        #expect((summary.conflicts > 0) == example.hasJournal)
        try await world.settle()
        try await expectWhole(world, example.expected)
        let journals = try await [world.stores[0].conflicts(), world.stores[1].conflicts()]
        #expect(journals[0].map(\.entry) == journals[1].map(\.entry))
        #expect(journals[0].isEmpty != example.hasJournal)
    }

    @Test("are settled below what was written after them, and beside what others wrote")
    func withMoreAround() async throws {
        let world = try await world("ON DELETE SET NULL")
        try world.outside(0, "DELETE FROM team WHERE id = 1", foreignKeys: false)
        try await world.stores[0].write { db in try db.execute(sql: "INSERT INTO person VALUES(40, 2)") }
        try world.outside(1, "INSERT INTO person VALUES(50, 1); INSERT INTO team VALUES(3)")
        try await world.sync(1)
        try await world.settle()
        try await expectWhole(world, "2, 3 | 10:, 20:2, 40:2, 50:")
    }

    @Test("stay as they are while somebody only looks")
    func onlyLooking() async throws {
        let world = try await world("")
        try world.outside(0, "DELETE FROM team WHERE id = 1", foreignKeys: false)
        _ = try await world.stores[0].latestToken()
        #expect(try await rows(world, 0) == "2 | 10:1, 20:2")
        #expect(try await world.stores[0].foreignKeyViolations().count == 1)
        try await world.settle()
        try await expectWhole(world, "1, 2 | 10:1, 20:2")
    }

    @Test("are not looked for where SQLite itself looked")
    func enforced() async throws {
        let world = try await world("")
        try await world.stores[0].write { db in try db.execute(sql: "INSERT INTO person VALUES(30, 1)") }
        let summary = try await world.sync(0)
        #expect(summary.conflicts == 0)
        #expect(summary.pushed.transactions == 1)
    }

    @Test("broken before a push under way was answered, are settled after it")
    func besideAPush() async throws {
        let world = try await world("ON DELETE SET NULL")
        let store = world.stores[0]
        try world.outside(0, "INSERT INTO team VALUES(7)")
        _ = try await store.prepareOutbox()
        _ = try await store.freezePush()
        try world.outside(0, "DELETE FROM team WHERE id = 1", foreignKeys: false)
        try await world.settle()
        try await expectWhole(world, "2, 7 | 10:, 20:2")
    }

    @Test("law 4: a reference that SQLite lets a REPLACE break with foreign keys on is settled before it is sent")
    func replaceInACircle() async throws {
        let world = try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE one(
                    k INTEGER PRIMARY KEY, z INTEGER DEFAULT 8 REFERENCES two(k) ON DELETE SET DEFAULT ON UPDATE SET NULL);
                CREATE TABLE two(
                    k INTEGER PRIMARY KEY REFERENCES one(k) ON DELETE SET NULL ON UPDATE CASCADE,
                    q INTEGER REFERENCES one(k) ON DELETE CASCADE ON UPDATE CASCADE);
                INSERT INTO one VALUES(1, NULL), (5, NULL);
                INSERT INTO two VALUES(1, 5);
                """)
        try await world.stores[0].write { db in try db.execute(sql: "INSERT OR REPLACE INTO one VALUES(5, 1)") }
        #expect(try await !world.rows(0, "PRAGMA foreign_key_check").isEmpty, "SQLite checks this now, and no care is needed any more")
        try await world.settle()
        for (index, store) in world.stores.enumerated() {
            #expect(try await world.rows(index, "PRAGMA foreign_key_check").isEmpty)
            #expect(try await store.verify().isEmpty)
        }
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
    }
}
