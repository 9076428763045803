import AnnalsCore
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsSchema
@testable import AnnalsStore

@Suite("Verify finds what is off")
struct VerificationTests {
    private func store() throws -> HistoryFile {
        let store = try HistoryFile(
            """
            CREATE TABLE parent(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
            CREATE TABLE child(id INTEGER PRIMARY KEY, parent INT REFERENCES parent, size INT CHECK(size > 0));
            INSERT INTO parent VALUES(1, 'one'), (2, 'two');
            """)
        try store.track()
        try store.managed("a", nil, "INSERT INTO child VALUES(1, 1, 1), (2, 2, 2)")
        try store.managed("b", nil, "UPDATE parent SET name = 'uno' WHERE id = 1; UPDATE child SET size = 7 WHERE id = 2")
        try store.external("DELETE FROM child WHERE id = 1")
        return store
    }

    private func codes(_ store: HistoryFile) throws -> [Finding.Code] { try store.findings().map(\.code) }

    /// Removes the capture triggers, writes, and restores them, as a program may do.
    private func unseen(_ store: HistoryFile, _ sql: String) throws {
        try store.queue.writeWithoutTransaction { db in
            let triggers = try String.fetchAll(db, sql: "SELECT sql FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid")
            for name in try String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE type = 'trigger'") {
                try db.execute(sql: "DROP TRIGGER \(name)")
            }
            try db.execute(sql: "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON;" + sql)
            try db.execute(sql: "PRAGMA foreign_keys = ON; PRAGMA ignore_check_constraints = OFF")
            for trigger in triggers { try db.execute(sql: trigger) }
        }
    }

    @Test("a table that was rebuilt and does not take its rows of before is named with the reason")
    func rebuilt() throws {
        let store = try HistoryFile("CREATE TABLE b(id INTEGER PRIMARY KEY, p TEXT); INSERT INTO b VALUES(1, NULL), (2, NULL)")
        try store.track()
        try store.outside(
            """
            UPDATE b SET p = 'x' WHERE id = 1; DELETE FROM b WHERE id = 2;
            CREATE TABLE new(id INTEGER PRIMARY KEY, p TEXT NOT NULL); INSERT INTO new SELECT * FROM b; DROP TABLE b; ALTER TABLE new RENAME TO b;
            """)
        let findings = try store.findings()
        #expect(findings.map(\.code) == [.trigger, .rows])
        #expect(findings.last?.message.contains("NOT NULL constraint failed: b.p") == true, "\(findings)")
    }

    @Test(
        "numbers of the right kind that say nothing are found",
        arguments: [
            "UPDATE annals_transactions SET time_counter = 1 << 40", "UPDATE annals_transactions SET origin = 77",
            "UPDATE annals_transactions SET time = 9223372036854775807, time_counter = 4294967295",
            "INSERT INTO annals_meta VALUES ('clock', 'x')",
            "INSERT INTO annals_meta VALUES ('clock', '9223372036854775807.4294967295')", "UPDATE annals_tables SET state = 'x'",
        ])
    func meaningless(damage: String) throws {
        let store = try store()
        try store.queue.write { db in try db.execute(sql: damage) }
        #expect(try codes(store) == [.history])
    }

    @Test(
        "a lost column of Annals' own tables is told, and untrack takes out the rest",
        arguments: [
            "ALTER TABLE annals_tables RENAME COLUMN state TO st", "DROP TABLE annals_meta", "DROP TABLE annals_tables",
        ])
    func lost(damage: String) throws {
        let store = try store()
        try store.queue.write { db in try db.execute(sql: damage) }
        #expect(try codes(store).contains(.history))
        try store.queue.writeWithoutTransaction { db in
            _ = try Tracking.untrack(db)
            #expect(try String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE name LIKE 'annals%'").isEmpty)
        }
    }

    @Test("SQLite's own count of schema changes may be negative")
    func negativeSchemaVersion() throws {
        let store = try store()
        try store.queue.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA schema_version = -5") }
        try store.managed("c", nil, "INSERT INTO child VALUES(3, 1, 1)")
        #expect(try codes(store).isEmpty)
        #expect(try store.queue.read { db in try Int64.fetchOne(db, sql: "PRAGMA schema_version") } ?? 0 < 0)
    }

    @Test("Nothing is off in a store that was left alone")
    func clean() throws {
        let store = try store()
        #expect(try store.findings() == [])
        #expect(try store.bounds().latest.number == 3)
    }

    @Test("A database without history is checked as a file")
    func untracked() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, p REFERENCES t(id)); INSERT INTO t VALUES(1, 9)")
        #expect(try codes(store) == [.foreignKey])
    }

    @Test("A row that was changed, removed or added unseen")
    func rows() throws {
        for edit in [
            "UPDATE child SET size = 8 WHERE id = 2", "DELETE FROM child WHERE id = 2", "INSERT INTO child VALUES(1, 1, 1)",
            "UPDATE parent SET name = 'UNO' WHERE id = 1",
        ] {
            let store = try store()
            try unseen(store, edit)
            let findings = try store.findings()
            #expect(findings.map(\.code) == [.rows], "\(edit)")
            #expect(findings.first?.table == (edit.contains("parent") ? "parent" : "child"))
            #expect(findings.first?.message.contains("7") == false, "no user data in a message")
        }
    }

    @Test(
        "A trigger that is missing or altered, without mending it", arguments: ["insert", "update", "delete", "meet_insert", "meet_update"])
    func triggers(suffix: String) throws {
        let store = try store()
        let name = try store.triggerName(suffix, of: "child")
        try store.outside("DROP TRIGGER \(name)")
        let findings = try store.findings()
        #expect(findings.map(\.code) == [.trigger])
        #expect(findings.first?.table == "child")
        #expect(try codes(store) == [.trigger], "verify mends nothing")
        try store.outside("CREATE TRIGGER \(name) AFTER INSERT ON child BEGIN SELECT 1; END")
        #expect(try codes(store) == [.trigger])
    }

    @Test(
        "A table that was replaced by something without a key",
        arguments: [
            "CREATE TABLE child(id INTEGER, size)", "CREATE VIEW child AS SELECT 1 AS id", "CREATE VIRTUAL TABLE child USING fts5(id)",
        ])
    func replaced(statement: String) throws {
        let store = try store()
        try store.outside("INSERT INTO child VALUES(7, 1, 1); DROP TABLE child; \(statement)")
        let findings = try store.findings()
        #expect(findings.map(\.code) == [.trigger])
        #expect(findings.first?.table == "child")
    }

    @Test("A table of history that lost rows")
    func history() throws {
        for damage in [
            "DELETE FROM annals_changes_1 WHERE id = 2", "DELETE FROM annals_transactions WHERE number = 2",
            "DELETE FROM annals_spans WHERE number = 2", "DELETE FROM annals_spans WHERE number = 3", "DROP TABLE annals_changes_1",
            "DROP TABLE annals_spans", "DELETE FROM annals_meta",
        ] {
            let store = try store()
            try store.outside(damage)
            #expect(try codes(store).contains(.history), "\(damage)")
        }
    }

    @Test("An old value that was changed in history")
    func forgedHistory() throws {
        let store = try store()
        try store.outside("UPDATE annals_changes_1 SET o1 = 'two'")
        #expect(try codes(store) == [.rows], "undone, it meets another row's unique value")
    }

    @Test("A child without its parent, and a value that a CHECK forbids")
    func constraints() throws {
        let store = try store()
        try store.external("DELETE FROM parent WHERE id = 2; PRAGMA ignore_check_constraints = ON; UPDATE child SET size = -1")
        let findings = try store.findings()
        #expect(Set(findings.map(\.code)) == [.integrity, .foreignKey])
        #expect(findings.first { $0.code == .foreignKey }?.table == "child")
    }

    @Test("A damaged index")
    func index() throws {
        let store = try store()
        try store.outside("CREATE INDEX child_size ON child(size)")
        try store.recordExternalChanges()
        try store.outside(
            """
            PRAGMA writable_schema = ON;
            UPDATE sqlite_master SET sql = 'CREATE INDEX child_size ON child(parent)' WHERE name = 'child_size';
            """)
        try store.queue.close()
        let again = try DatabaseQueue(path: store.file.path)
        #expect(try again.writeWithoutTransaction { try Verification.run($0) }.contains { $0.code == .integrity })
    }

    @Test("Other programs' writes that nobody recorded yet are in order")
    func unrecorded() throws {
        let store = try store()
        try store.outside("INSERT OR REPLACE INTO parent VALUES(5, 'uno')")
        #expect(try codes(store) == [])
    }

    @Test(
        "Another program's renames that nobody looked at yet are in order",
        arguments: ["parent RENAME TO elder", "child RENAME TO \"young \"\"one\"\"\"", "child RENAME COLUMN size TO height"])
    func renamed(change: String) throws {
        let store = try store()
        try store.outside("ALTER TABLE \(change)")
        #expect(try store.findings() == [])
    }

    @Test("It reports progress to the handler that may stop it")
    func stopped() throws {
        struct Stop: Error {}
        let store = try store()
        #expect(throws: AnnalsError.self) {
            try store.queue.writeWithoutTransaction { try Verification.run($0, environment: store.environment) { _, _ in throw Stop() } }
        }
        #expect(try codes(store) == [])
    }

    @Test("The progress ends at its total, and a large transaction reports on its way")
    func progress() throws {
        let store = try store()
        let rows = "WITH n(i) AS (VALUES(10) UNION ALL SELECT i + 1 FROM n WHERE i < 5009)"
        try store.managed("c", nil, "INSERT INTO parent \(rows) SELECT i, 'n' || i FROM n")
        try store.managed("d", nil, "UPDATE parent SET name = 'm' || id")
        var reports: [(done: Int64, total: Int64)] = []
        let findings = try store.queue.writeWithoutTransaction { db in
            try Verification.run(db, environment: store.environment) { reports.append(($0, $1)) }
        }
        #expect(findings == [])
        let changes = try #require(try store.queue.read { try Int64.fetchOne($0, sql: "SELECT sum(last - first + 1) FROM annals_spans") })
        #expect(Set(reports.map(\.total)) == [2 * changes])
        #expect(reports.last?.done == 2 * changes)
        #expect(zip(reports, reports.dropFirst()).allSatisfy { $0.done <= $1.done && $1.done - $0.done <= 1_000 })
    }

    // MARK: Law 3

    private func joined() async throws -> (HistoryFile, Store) {
        let store = try store()
        let replica = try Store(path: store.file.path)
        let space = try #require(SpaceName("shop"))
        let membership = Membership(name: "here", relay: "http://127.0.0.1:1", space: space, lineage: .random())
        _ = try await replica.startSpace(membership, from: replica.copyRows(to: store.path("snapshot.db")))
        try await replica.write { try $0.execute(sql: "INSERT INTO child VALUES(5, 1, 5)") }
        try await replica.write {
            try $0.execute(sql: "UPDATE child SET size = 6, id = 7 WHERE id = 5; UPDATE parent SET name = 'x' WHERE id = 2")
        }
        _ = try await replica.prepareOutbox()
        try await replica.write { try $0.execute(sql: "UPDATE child SET size = 9 WHERE id = 7") }
        return (store, replica)
    }

    @Test("Law 3: rows without the outbox are a state that the log can have")
    func log() async throws {
        let (store, replica) = try await joined()
        #expect(try await replica.verify() == [])
        _ = try await replica.prepareOutbox()
        #expect(try await replica.verify() == [])
        // The schema and three writes.
        #expect(try await replica.status().outbox == 4)
        try store.outside("DELETE FROM annals_outbox WHERE sequence = (SELECT max(sequence) - 1 FROM annals_outbox)")
        #expect(try await replica.verify().map(\.code) == [.log])
    }
}
