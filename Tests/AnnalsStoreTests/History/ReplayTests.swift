import AnnalsCore
import Foundation
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsRows
@testable import AnnalsStore

@Suite("Replay")
struct ReplayTests {
    private static let schema = """
        PRAGMA page_size = 1024; PRAGMA user_version = 42; PRAGMA application_id = 77;
        CREATE TABLE parent(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, amount INT CHECK(amount > 0));
        CREATE TABLE child(id INTEGER PRIMARY KEY, parent INT NOT NULL REFERENCES parent ON DELETE CASCADE, text);
        CREATE TABLE scratch(x);
        INSERT INTO scratch VALUES(1);
        CREATE INDEX child_text ON child(text);
        CREATE VIEW names AS SELECT name FROM parent;
        CREATE TRIGGER stamp AFTER INSERT ON parent BEGIN INSERT INTO scratch VALUES(NEW.id); END;
        INSERT INTO parent VALUES(1, 'one', 1), (2, 'two', 2);
        INSERT INTO child VALUES(1, 1, 'a'), (2, 2, 'b');
        """

    private func store() throws -> HistoryFile {
        let store = try HistoryFile(Self.schema)
        try store.track("parent", "child")
        return store
    }

    private func read<T>(_ path: String, _ body: (Database) throws -> T) throws -> T {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try queue.read(body)
    }

    @Test("The file has the whole schema, the header, and nothing of Annals")
    func schema() throws {
        let store = try store()
        try store.external("UPDATE parent SET name = 'uno' WHERE id = 1")
        let outcome = try store.replay(to: store.token(0))
        #expect(outcome.transactions == 1)
        #expect(outcome.rows == 1)
        let all = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'annals%' AND sql IS NOT NULL ORDER BY type, name"
        let expected = try store.queue.read { try Row.fetchAll($0, sql: all) }
        try read(store.path("replayed.db")) { db in
            let found = try Row.fetchAll(db, sql: all)
            #expect(found == expected)
            #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_master WHERE name LIKE 'annals%'") == 0)
            #expect(try Int.fetchOne(db, sql: "PRAGMA user_version") == 42)
            #expect(try Int.fetchOne(db, sql: "PRAGMA application_id") == 77)
            #expect(try Int.fetchOne(db, sql: "PRAGMA page_size") == 1024)
            #expect(try String.fetchAll(db, sql: "PRAGMA integrity_check") == ["ok"])
            #expect(try Int.fetchOne(db, sql: "SELECT seq FROM sqlite_sequence WHERE name = 'parent'") == 2)
        }
    }

    @Test("What was written later is nowhere in the file")
    func later() throws {
        let store = try store()
        let rows = "WITH RECURSIVE c(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM c WHERE x < 3000)"
        try store.external("\(rows) INSERT INTO parent SELECT x, 'a later name ' || x, 1 FROM c")
        try store.external("\(rows) INSERT INTO child SELECT x, x, 'a later name ' || x FROM c")
        try store.replay(to: store.token(0))
        let bytes = try Data(contentsOf: URL(fileURLWithPath: store.path("replayed.db")))
        #expect(bytes.range(of: Data("a later name".utf8)) == nil)
    }

    @Test("What is no regular file is not replaced, even when told to")
    func device() throws {
        let store = try store()
        let path = store.path("replayed.db")
        #expect(mkfifo(path, 0o600) == 0)
        #expect { try store.replay(to: store.token(0), force: true) } throws: { ($0 as? AnnalsError)?.code == .cannotCreate }
        var status = stat()
        #expect(stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO)
    }

    @Test("Untracked tables come empty, and a note says so")
    func untracked() throws {
        let store = try store()
        let outcome = try store.replay(to: store.token(0))
        #expect(outcome.notes == ["untracked tables are empty: scratch"])
        #expect(try read(store.path("replayed.db")) { try Int.fetchOne($0, sql: "SELECT count(*) FROM scratch") } == 0)
    }

    @Test("Keys and unique values that one transaction swapped are swapped back")
    func swaps() throws {
        let store = try store()
        let before = try store.rows()
        try store.external(
            """
            BEGIN; UPDATE parent SET name = 'x' WHERE id = 1; UPDATE parent SET name = 'one' WHERE id = 2; UPDATE parent SET name = 'two' WHERE id = 1;
            UPDATE child SET id = -id; UPDATE child SET id = 3 + id; COMMIT
            """)
        try store.replay(to: store.token(0))
        let after = try RowDump(path: store.path("replayed.db"), only: ["parent", "child"])
        #expect(after.tables["parent"] == before.tables["parent"])
        #expect(after.tables["child"] == before.tables["child"])
    }

    @Test("Rows from before a CHECK, NOT NULL or foreign key was broken with checks off come back as they were")
    func brokenConstraints() throws {
        let store = try store()
        try store.external("PRAGMA ignore_check_constraints = ON; UPDATE parent SET amount = -1; DELETE FROM parent WHERE id = 2")
        let broken = try store.rows()
        try store.external("UPDATE parent SET amount = 5; DELETE FROM child WHERE id = 2")
        try store.replay(to: store.token(1))
        let after = try RowDump(path: store.path("replayed.db"), only: ["parent", "child"])
        #expect(after.tables["parent"] == broken.tables["parent"])
        #expect(after.tables["child"] == broken.tables["child"])
        #expect(try store.queue.read { try Bool.fetchOne($0, sql: "PRAGMA foreign_keys") } == true, "the connection is as it was")
    }

    @Test("A unique index made later, which the rows of then do not allow, is left out with a note")
    func laterIndex() throws {
        let store = try store()
        try store.external("UPDATE child SET text = 'same'")
        try store.external("UPDATE child SET text = id")
        try store.outside("CREATE UNIQUE INDEX one_text ON child(text)")
        try store.recordExternalChanges()
        let outcome = try store.replay(to: store.token(1))
        #expect(outcome.notes.contains { $0.contains("one_text") })
        #expect(try read(store.path("replayed.db")) { try String.fetchAll($0, sql: "PRAGMA integrity_check") } == ["ok"])
    }

    @Test("Rows from before a column was added have its default")
    func addedColumn() throws {
        let store = try store()
        try store.external("DELETE FROM child WHERE id = 1; UPDATE child SET text = 'c' WHERE id = 2")
        try store.outside("ALTER TABLE child ADD COLUMN size TEXT DEFAULT 5")
        try store.recordExternalChanges()
        try store.external("UPDATE child SET size = 'large'; INSERT INTO child VALUES(9, 1, 'n', 'small')")
        try store.replay(to: store.token(0))
        let rows = try read(store.path("replayed.db")) { db in
            try Row.fetchAll(db, sql: "SELECT id, text, size FROM child ORDER BY id").map {
                "\($0["id"] as Int) \($0["text"] as String) \($0["size"] as String)"
            }
        }
        #expect(rows == ["1 a 5", "2 b 5"])
    }

    @Test("A transaction that changed a table's columns midway is one, and is undone as one")
    func columnsMidway() throws {
        let store = try store()
        try store.queue.write { db in
            _ = try TransactionRecorder.managedWrite(db, origin: .migration, store.environment) { db in
                try db.execute(sql: "UPDATE child SET text = 'x', id = id + 10; ALTER TABLE child ADD COLUMN size INT DEFAULT 5")
                #expect(try Drift.repairIfNeeded(db).gaps == [])
                try db.execute(
                    sql:
                        "UPDATE child SET size = 6, id = id + 10; DELETE FROM child WHERE id = 21; INSERT INTO child VALUES(30, 1, 'new', 1)"
                )
            }
        }
        let changes = try store.changes(1).sorted { "\($0.kind)" < "\($1.kind)" }
        #expect(changes.map(\.kind) == [.delete, .insert, .update])
        #expect(changes[2].columns.map(\.name) == ["id", "text", "size"])
        #expect(changes[2].key == [.integer(2)])
        try store.replay(to: store.token(0))
        let rows = try read(store.path("replayed.db")) { try String.fetchAll($0, sql: "SELECT id || text || size FROM child ORDER BY id") }
        #expect(rows == ["1a5", "2b5"])
        #expect(try store.findings() == [])
    }

    @Test("What other programs wrote and nobody recorded yet is left out")
    func unrecorded() throws {
        let store = try store()
        try store.external("UPDATE parent SET amount = 10")
        let copy = try RowDump(path: store.file.path, only: ["parent", "child"])
        try store.outside("INSERT OR REPLACE INTO parent VALUES(3, 'one', 3); DELETE FROM child")
        try store.replay(to: store.token(1))
        let after = try RowDump(path: store.path("replayed.db"), only: ["parent", "child"])
        #expect(after == copy)
        #expect(try store.bounds().latest.number == 2, "they were recorded on the way")
    }

    @Test("A file that exists is not overwritten without force, and the store itself never")
    func existing() throws {
        let store = try store()
        let path = store.path("taken.db")
        try Data("mine".utf8).write(to: URL(fileURLWithPath: path))
        func code(_ body: () throws -> Replay.Outcome) -> AnnalsError.Code? {
            do {
                _ = try body()
                return nil
            } catch {
                return (error as? AnnalsError)?.code
            }
        }
        #expect(code { try store.replay(to: store.token(0), "taken.db", force: false) } == .cannotCreate)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == Data("mine".utf8))
        #expect(code { try store.replay(to: store.token(0), "store.db", force: true) } == .cannotCreate)
        #expect(code { try store.replay(to: store.token(0), "no/such/folder.db") } == .cannotCreate)
        #expect(code { try store.replay(to: store.token(0), "taken.db", force: true) } == nil)
        #expect(try read(path) { try Int.fetchOne($0, sql: "SELECT count(*) FROM parent") } == 2)
    }

    @Test("A replay that fails or is stopped leaves nothing behind")
    func failure() throws {
        struct Stop: Error {}
        let store = try store()
        try store.external("UPDATE parent SET amount = 10")
        let before = try FileManager.default.contentsOfDirectory(atPath: store.file.folder.path).sorted()
        let token = try store.token(0)
        #expect(throws: AnnalsError.self) {
            try store.queue.writeWithoutTransaction { db in
                try Replay.write(db, to: HistoryPoint(token), output: store.path("stopped.db"), environment: store.environment) { _, _ in
                    throw Stop()
                }
            }
        }
        // A row that was changed without capture.
        try store.queue.write { db in
            try db.execute(sql: "UPDATE annals_changes_1 SET n2 = 11")
        }
        #expect(throws: AnnalsError.self) { try store.replay(to: store.token(0)) }
        #expect(try FileManager.default.contentsOfDirectory(atPath: store.file.folder.path).sorted() == before)
        #expect(try store.queue.read { try String.fetchAll($0, sql: "SELECT name FROM pragma_database_list") } == ["main"])
    }

    @Test("A UTF-16 database replays as one")
    func encoding() throws {
        let store = try HistoryFile(
            "PRAGMA encoding = 'UTF-16le'; CREATE TABLE t(k TEXT PRIMARY KEY NOT NULL, a); INSERT INTO t VALUES('ä€𝄞', 'ß')")
        try store.track()
        let before = try store.rows()
        try store.external("UPDATE t SET k = 'ö', a = 'x'; INSERT INTO t VALUES('𝄞', '')")
        try store.replay(to: store.token(0))
        #expect(try RowDump(path: store.path("replayed.db")) == before)
        #expect(try read(store.path("replayed.db")) { try String.fetchOne($0, sql: "PRAGMA encoding") } == "UTF-16le")
        #expect(try store.findings() == [])
    }

    @Test("Replay goes on while another program writes")
    func concurrent() throws {
        let store = try store()
        try store.outside("PRAGMA journal_mode = WAL")
        for number in 1...50 { try store.external("UPDATE parent SET amount = \(number + 10)") }
        let path = store.file.path
        let isDone = Flag()
        let writer = Thread {
            guard let other = try? DatabaseQueue(path: path) else { return }
            var number = 0
            while !isDone.isSet {
                number += 1
                try? other.writeWithoutTransaction {
                    try $0.execute(sql: "INSERT OR REPLACE INTO parent VALUES(1, 'n\(number)', \(number))")
                }
            }
            isDone.end()
        }
        writer.start()
        defer {
            isDone.set()
            isDone.wait()
        }
        for number in stride(from: Int64(50), to: 40, by: -1) {
            try store.replay(to: store.token(number))
            let amounts = try read(store.path("replayed.db")) { try Int.fetchAll($0, sql: "SELECT amount FROM parent") }
            #expect(amounts == [Int(number) + 10, Int(number) + 10])
        }
    }

    /// Stops a thread, and waits until it has ended.
    private final class Flag: @unchecked Sendable {
        // Because every access is under the lock.
        private let condition = NSCondition()
        private var isRaised = false
        private var isEnded = false

        var isSet: Bool { condition.withLock { isRaised } }
        func set() { condition.withLock { isRaised = true } }
        func end() {
            condition.withLock {
                isEnded = true
                condition.broadcast()
            }
        }
        func wait() {
            condition.withLock { while !isEnded { condition.wait() } }
        }
    }
}
