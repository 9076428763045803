import AnnalsCore
import GRDB
import GRDBSQLite
import Testing

@testable import AnnalsHistory
@testable import AnnalsStore

/// A REPLACE removes rows without running DELETE triggers unless recursive_triggers is on. Each case runs both ways.
@Suite("Rows that REPLACE removes are in the changes")
struct ReplaceTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var schema: String
        var statements: String
        /// The number of rows that differ in the table t.
        var changed: Int
        var testDescription: String { name }
    }

    static let cases: [Case] = [
        Case(
            name: "by primary key", schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1, 'a'), (2, 'b')",
            statements: "INSERT OR REPLACE INTO t VALUES(1, 'A'); REPLACE INTO t VALUES(3, 'c')", changed: 2),
        Case(
            name: "by primary key with the same bytes", schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1, 'a')",
            statements: "REPLACE INTO t VALUES(1, 'a')", changed: 0),
        Case(
            name: "several rows by several indexes",
            schema: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE, b, c, UNIQUE(b, c));
                INSERT INTO t VALUES(1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3), (4, 4, 4, 4)
                """,
            statements: "REPLACE INTO t VALUES(1, 2, 3, 3)", changed: 3),
        Case(
            name: "again and again",
            schema: "CREATE TABLE t(id TEXT PRIMARY KEY NOT NULL, u UNIQUE); INSERT INTO t VALUES('a', 1), ('b', 2)",
            statements: """
                REPLACE INTO t VALUES('a', 2); REPLACE INTO t VALUES('b', 2); REPLACE INTO t VALUES('a', 2); REPLACE INTO t VALUES('c', 2);
                REPLACE INTO t VALUES('a', 1); REPLACE INTO t VALUES('a', 3);
                """, changed: 3),
        Case(
            name: "by the rowid of a table with another key",
            schema: """
                CREATE TABLE t(k TEXT PRIMARY KEY NOT NULL, u UNIQUE, v);
                INSERT INTO t VALUES('a', 1, 1), ('b', 2, 2), ('c', 3, 3), ('d', 4, 4), ('e', 5, 5)
                """,
            statements: """
                REPLACE INTO t(rowid, k, u) VALUES(2, 'new', 9); UPDATE OR REPLACE t SET _rowid_ = 3 WHERE k = 'a';
                UPDATE OR REPLACE t SET v = 7, oid = 5 WHERE k = 'd'; INSERT OR IGNORE INTO t(rowid, k, u) VALUES(5, 'f', 10)
                """, changed: 5),
        Case(
            name: "by the rowid of a table with keys that may be NULL",
            schema: "CREATE TABLE t(a, b, v, PRIMARY KEY(a, b)); INSERT INTO t VALUES(1, 1, 1), (2, NULL, 2), (3, 3, 3), (NULL, 4, 4)",
            statements: """
                REPLACE INTO t(rowid, a, b) VALUES(1, 5, 5), (2, NULL, 6); UPDATE OR REPLACE t SET rowid = 4 WHERE a = 3
                """, changed: 4),
        Case(
            name: "UPDATE OR REPLACE of the rowid, which is the key",
            schema: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, v, "oid" UNIQUE); INSERT INTO t VALUES(1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4)
                """,
            statements: "UPDATE OR REPLACE t SET rowid = 2 WHERE id = 1; UPDATE OR REPLACE t SET _rowid_ = 4, oid = 9 WHERE id = 3",
            changed: 4),
        Case(
            name: "UPDATE OR REPLACE of a key",
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1, 'a'), (2, 'b'), (3, 'c')",
            statements: "UPDATE OR REPLACE t SET id = 2 WHERE id = 1; UPDATE OR REPLACE t SET id = id WHERE id = 3", changed: 2),
        Case(
            name: "UPDATE OR REPLACE of a unique value over many rows",
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE); INSERT INTO t VALUES(1, 1), (2, 2), (3, 3), (4, 4)",
            statements: "UPDATE OR REPLACE t SET u = 9", changed: 4),
        Case(
            name: "ON CONFLICT REPLACE in the schema",
            schema: """
                CREATE TABLE t(id TEXT PRIMARY KEY ON CONFLICT REPLACE NOT NULL, u UNIQUE ON CONFLICT REPLACE, v DEFAULT 'd' NOT NULL ON CONFLICT REPLACE);
                INSERT INTO t VALUES('a', 1, 1), ('b', 2, 2), ('c', 3, 3)
                """,
            statements: "INSERT INTO t VALUES('a', 2, NULL); UPDATE t SET u = 3", changed: 3),
        Case(
            name: "by a default in the place of NULL",
            schema: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, u INTEGER NOT NULL DEFAULT 2, w TEXT NOT NULL DEFAULT 'x' UNIQUE, v NOT NULL DEFAULT "q");
                CREATE UNIQUE INDEX e ON t(u % 4); CREATE UNIQUE INDEX q ON t(v) WHERE id < 0;
                INSERT INTO t VALUES(1, 2, 'x', 1), (2, 3, 'y', 2), (3, 4, 'z', 3)
                """,
            statements: "REPLACE INTO t(u, w) VALUES(6, 'a'), (NULL, 'b'), (8, NULL); UPDATE OR REPLACE t SET w = NULL WHERE w = 'y'",
            changed: 4),
        Case(
            name: "a NULL that becomes the default",
            schema: """
                CREATE TABLE t(k TEXT NOT NULL DEFAULT 'b' PRIMARY KEY, u INTEGER NOT NULL DEFAULT '6' UNIQUE, v INTEGER NOT NULL DEFAULT (1 + 1));
                CREATE UNIQUE INDEX i ON t(v % 4);
                INSERT INTO t VALUES('a', 6, 1), ('b', 2, 2), ('c', 3, 3)
                """,
            statements: """
                REPLACE INTO t VALUES('d', NULL, 5); UPDATE OR REPLACE t SET v = NULL WHERE k = 'c';
                REPLACE INTO t VALUES(NULL, 8, 8), (NULL, 9, 7)
                """, changed: 4),
        Case(
            name: "a NULL that becomes a default in words",
            schema: """
                CREATE TABLE t(k INTEGER PRIMARY KEY, u NOT NULL DEFAULT word UNIQUE, v NOT NULL DEFAULT "it's" UNIQUE, w NOT NULL DEFAULT true UNIQUE);
                INSERT INTO t VALUES(1, 'word', 1, 2), (2, 2, 'it''s', 3), (3, 3, 3, 1)
                """,
            statements: "REPLACE INTO t VALUES(4, NULL, NULL, NULL)", changed: 4),
        Case(
            name: "a NULL that becomes a blob or a decimal",
            schema: """
                CREATE TABLE t(k INTEGER PRIMARY KEY, u NOT NULL DEFAULT x'0a' UNIQUE, v NOT NULL DEFAULT 1.5e1 UNIQUE);
                INSERT INTO t VALUES(1, x'0a', 1), (2, 2, 15.0)
                """,
            statements: "REPLACE INTO t VALUES(3, NULL, NULL)", changed: 3),
        Case(
            name: "WITHOUT ROWID",
            schema: "CREATE TABLE t(a, b, v UNIQUE, PRIMARY KEY(a, b)) WITHOUT ROWID; INSERT INTO t VALUES(1, 1, 1), (1, 2, 2), (2, 2, 3)",
            statements: "REPLACE INTO t VALUES(1, 1, 2); UPDATE OR REPLACE t SET a = 1 WHERE a = 2", changed: 3),
        Case(
            name: "an index's own collation",
            schema: """
                CREATE TABLE t(id TEXT COLLATE NOCASE PRIMARY KEY NOT NULL, u TEXT, w TEXT COLLATE NOCASE);
                CREATE UNIQUE INDEX ui ON t(u COLLATE RTRIM); CREATE UNIQUE INDEX wi ON t(w COLLATE BINARY);
                INSERT INTO t VALUES('a', 'x', 'x'), ('b', 'y', 'y'), ('c', 'z', 'z')
                """,
            statements:
                "REPLACE INTO t VALUES('A', 'q', 'Y'); REPLACE INTO t VALUES('d', 'y   ', 'Z'); REPLACE INTO t VALUES('e', 'Y', 'y')",
            changed: 4),
        Case(
            name: "NULL conflicts with nothing",
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b, UNIQUE(a, b)); INSERT INTO t VALUES(1, 1, NULL), (2, NULL, NULL)",
            statements: "REPLACE INTO t VALUES(3, 1, NULL), (4, NULL, NULL); REPLACE INTO t VALUES(NULL, NULL, 1)", changed: 3),
        Case(
            name: "1 and 1.0 are one key",
            schema: "CREATE TABLE t(id PRIMARY KEY NOT NULL, u UNIQUE) WITHOUT ROWID; INSERT INTO t VALUES(1, 'a'), ('x', 2)",
            statements: "REPLACE INTO t VALUES(1.0, 'b'); REPLACE INTO t VALUES(1, 2.0)", changed: 2),
        Case(
            name: "a partial index",
            schema: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, mail TEXT, gone INT); CREATE UNIQUE INDEX i ON t(mail) WHERE t.gone = '0';
                INSERT INTO t VALUES(1, 'a', 1), (2, 'a', 1), (3, 'a', 0), (4, 'b', 0)
                """,
            statements:
                "REPLACE INTO t VALUES(5, 'a', 1); REPLACE INTO t VALUES(6, 'a', '0'); UPDATE OR REPLACE t SET gone = 0 WHERE id = 1",
            changed: 3),
        Case(
            name: "an index on expressions",
            schema: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INT); CREATE UNIQUE INDEX i ON t(lower(a) DESC, b + 1, (b = '1'));
                INSERT INTO t VALUES(1, 'x', 1), (2, 'y', 2), (3, 'z', 3)
                """,
            statements: "REPLACE INTO t VALUES(4, 'X', '1'); UPDATE OR REPLACE t SET a = 'Y', b = 2 WHERE id = 3", changed: 4),
        Case(
            name: "generated columns",
            schema: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, v AS (lower(a)) UNIQUE, s TEXT AS (substr(v, 1, 1) || n) STORED UNIQUE, n INT,
                               twice AS (s || s) STORED UNIQUE);
                INSERT INTO t(id, a, n) VALUES(1, 'ab', 1), (2, 'cd', 2), (3, 'ef', 3), (4, 'gh', 4)
                """,
            statements: """
                REPLACE INTO t(id, a, n) VALUES(5, 'AB', 9); REPLACE INTO t(id, a, n) VALUES(6, 'cx', 2);
                UPDATE OR REPLACE t SET a = 'ex', n = 3 WHERE id = 4;
                """, changed: 6),
        Case(
            name: "UPSERT and IGNORE remove nothing",
            schema:
                "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, n DEFAULT 0); INSERT INTO t(id, u) VALUES(1, 'a'), (2, 'b'), (3, 'c')",
            statements: """
                INSERT INTO t(id, u) VALUES(1, 'z') ON CONFLICT DO UPDATE SET n = n + 1; INSERT INTO t(u) VALUES('b') ON CONFLICT(u) DO UPDATE SET n = 7;
                INSERT INTO t(id) VALUES(3) ON CONFLICT DO NOTHING; INSERT OR IGNORE INTO t(id, u) VALUES(9, 'c'), (3, 'q'), (4, 'd');
                INSERT INTO t(id) VALUES(2) ON CONFLICT DO UPDATE SET n = n; UPDATE OR IGNORE t SET u = 'a' WHERE id = 2;
                """, changed: 3),
        Case(
            name: "an ignored insert before a delete or an insert of the same key",
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE); INSERT INTO t VALUES(1, 'a'), (2, 'b')",
            statements: """
                INSERT OR IGNORE INTO t VALUES(1, 'x'), (2, 'y'); DELETE FROM t WHERE id = 1; INSERT INTO t VALUES(1, 'again');
                REPLACE INTO t VALUES(3, 'b'); INSERT OR IGNORE INTO t VALUES(3, 'c'); UPDATE t SET u = 'B' WHERE id = 3;
                INSERT OR IGNORE INTO t VALUES(4, 'new'), (4, 'newer'); REPLACE INTO t VALUES(4, 'newest');
                """, changed: 4),
        Case(
            name: "failed statements leave nothing",
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE CHECK(u <> 'bad')); INSERT INTO t VALUES(1, 'a'), (2, 'b')",
            statements: """
                INSERT INTO t VALUES(1, 'c'); REPLACE INTO t VALUES(1, 'bad'); INSERT OR FAIL INTO t VALUES(3, 'c'), (1, 'x'), (4, 'd');
                BEGIN; REPLACE INTO t VALUES(2, 'a'); ROLLBACK; BEGIN; SAVEPOINT s; REPLACE INTO t VALUES(2, 'a'); ROLLBACK TO s; COMMIT;
                """, changed: 1),
        Case(
            name: "rows whose key holds NULL",
            schema: "CREATE TABLE t(k TEXT PRIMARY KEY, u UNIQUE, v); INSERT INTO t VALUES(NULL, 1, 'a'), (NULL, 2, 'a'), ('k', 3, 'a')",
            statements: "REPLACE INTO t VALUES(NULL, 1, 'b'), (NULL, 3, 'b'), ('n', 2, 'b'); REPLACE INTO t VALUES('k', 3, 'c')", changed: 5
        ),
    ]

    @Test(arguments: cases, [false, true])
    func changesAccountForTheRows(test: Case, recursive: Bool) throws {
        let fixture = try Fixture(tracking: test.schema)
        let changes = try fixture.account {
            try fixture.file.shell(
                "PRAGMA recursive_triggers = \(recursive);\(test.statements.replacing("; ", with: ";\n"))",
                stopsAtError: test.name != "failed statements leave nothing")
        }
        #expect((changes["t"] ?? []).count == test.changed)
        // Also with a recording in between.
        let other = try Fixture(tracking: test.schema)
        for statement in test.statements.split(separator: ";")
        where !test.statements.contains("BEGIN") && !statement.allSatisfy(\.isWhitespace) {
            try other.account("\(statement)") {
                try other.file.shell(
                    "PRAGMA recursive_triggers = \(recursive);\(statement)", stopsAtError: test.name != "failed statements leave nothing")
            }
        }
    }

    /// Each key form, and a table with other columns beside.
    @Test(
        arguments: [
            "id INTEGER PRIMARY KEY, v", "id TEXT PRIMARY KEY NOT NULL, v", "id TEXT PRIMARY KEY, v", "id REAL PRIMARY KEY NOT NULL, v",
            "id INT, k TEXT DEFAULT 'x' NOT NULL, v, PRIMARY KEY(k, id)", "v, id BLOB PRIMARY KEY NOT NULL",
        ])
    func anUpsertCostsTheSameHoweverManyRowsWereMet(columns: String) throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(\(columns)); CREATE UNIQUE INDEX u ON t(id)")
        let queue = try DatabaseQueue(path: fixture.file.path)
        defer { try? queue.close() }
        try queue.write { db in
            let upsert = try db.makeStatement(sql: "INSERT INTO t(id, v) VALUES(?, ?) ON CONFLICT(id) DO UPDATE SET v = excluded.v")
            func steps(_ ids: ClosedRange<Int>, _ value: String) throws -> Int {
                for id in ids { try upsert.execute(arguments: [id, value]) }
                return Int(sqlite3_stmt_status(upsert.sqliteStatement, SQLITE_STMTSTATUS_VM_STEP, 1)) / ids.count
            }
            _ = try steps(1...600, "a")
            let few = try steps(1...20, "b")
            _ = try steps(21...580, "b")
            // Met for the first time, and again.
            #expect(try steps(581...600, "b") <= few + 20)
            let again = try steps(1...20, "c")
            #expect(try steps(581...600, "c") <= again + 20)
        }
        #expect(try fixture.file.shell("SELECT count(*) FROM annals_notes_w8") == "600\n")
    }

    @Test func anEvictedParentsCascadesAreThereToo() throws {
        let fixture = try Fixture(
            tracking: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE); CREATE TABLE c(id INTEGER PRIMARY KEY, t REFERENCES t ON DELETE CASCADE);
                INSERT INTO t VALUES(1, 'a'), (2, 'b'); INSERT INTO c VALUES(1, 1), (2, 1), (3, 2)
                """)
        let changes = try fixture.account {
            try fixture.file.shell("PRAGMA foreign_keys = ON; REPLACE INTO t VALUES(3, 'a'); REPLACE INTO t VALUES(2, 'B')")
        }
        #expect(changes["t"]?.count == 3)
        #expect(changes["c"]?.count == 3)
    }

    /// A program's own triggers run before the capture triggers if they are newer, and after them if they are older.
    static let userTriggers = [
        "CREATE TRIGGER u AFTER INSERT ON t BEGIN UPDATE t SET n = n + 1 WHERE id = NEW.id; END",
        "CREATE TRIGGER u AFTER INSERT ON t BEGIN DELETE FROM t WHERE id = NEW.id; END",
        "CREATE TRIGGER u AFTER INSERT ON t WHEN NEW.n < 5 BEGIN INSERT OR REPLACE INTO t VALUES(NEW.id + 1, NEW.u || 'x', NEW.n + 1); END",
        "CREATE TRIGGER u AFTER INSERT ON t WHEN NEW.id < 100 BEGIN INSERT INTO t VALUES(100, 'sum', 1) ON CONFLICT(id) DO UPDATE SET n = n + 1; END",
        "CREATE TRIGGER u BEFORE INSERT ON t BEGIN UPDATE t SET n = 9 WHERE u = NEW.u; END",
        "CREATE TRIGGER u BEFORE INSERT ON t BEGIN UPDATE t SET u = u || '!' WHERE id = NEW.id; END",
        "CREATE TRIGGER u BEFORE INSERT ON t BEGIN DELETE FROM t WHERE id = NEW.id; END",
        "CREATE TRIGGER u AFTER UPDATE ON t WHEN NEW.n IS OLD.n BEGIN UPDATE t SET n = n + 10 WHERE id = NEW.id; END",
        "CREATE TRIGGER u AFTER UPDATE OF u ON t BEGIN UPDATE t SET id = id + 50 WHERE id = NEW.id; END",
        "CREATE TRIGGER u BEFORE UPDATE OF u ON t BEGIN UPDATE t SET n = 77 WHERE id = NEW.id; END",
        "CREATE TRIGGER u AFTER DELETE ON t WHEN OLD.n < 3 BEGIN INSERT INTO t VALUES(OLD.id, OLD.u, OLD.n + 1); END",
        "CREATE TRIGGER u BEFORE DELETE ON t BEGIN UPDATE t SET n = 5 WHERE id = OLD.id; END",
        "CREATE TRIGGER u AFTER DELETE ON t BEGIN UPDATE t SET n = n + 1 WHERE id = OLD.id + 1; END",
    ]

    @Test(arguments: userTriggers, [(false, false), (true, false), (false, true), (true, true)])
    func aProgramsOwnTriggersAreAccountedFor(trigger: String, setting: (isNewer: Bool, recursive: Bool)) throws {
        let schema =
            "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, n DEFAULT 0); INSERT INTO t VALUES(1, 'a', 0), (2, 'b', 0), (3, 'c', 0);"
        let fixture = try Fixture(schema + (setting.isNewer ? "" : trigger))
        let environment: CaptureEnvironment = setting.isNewer ? .system : .leavingOutAll
        try fixture.track(environment)
        if setting.isNewer { try fixture.file.shell(trigger) }
        let statements = [
            "INSERT INTO t VALUES(4, 'd', 0)", "REPLACE INTO t VALUES(1, 'A', 0)", "REPLACE INTO t VALUES(7, 'b', 0)",
            "REPLACE INTO t VALUES(3, 'c', 0)", "UPDATE t SET u = u || '+'", "UPDATE OR REPLACE t SET u = 'one' WHERE id < 4",
            "DELETE FROM t WHERE id = 3", "INSERT OR IGNORE INTO t VALUES(1, 'x', 0), (12, 'y', 0)", "DELETE FROM t",
            "INSERT INTO t VALUES(1, 'q', 0) ON CONFLICT DO UPDATE SET n = 3",
        ]
        for statement in statements {
            try fixture.account("\(statement)") {
                try fixture.file.shell("PRAGMA recursive_triggers = \(setting.recursive);\(statement)", stopsAtError: false)
            }
            // Recording checks the schema and creates the capture triggers again, as the newest. This makes them the older ones.
            if setting.isNewer { try fixture.file.shell("DROP TRIGGER u;\(trigger)") }
        }
        let whole = try Fixture(schema + (setting.isNewer ? "" : trigger))
        try whole.track(environment)
        if setting.isNewer { try whole.file.shell(trigger) }
        try whole.account("all at once") {
            try whole.file.shell(
                "PRAGMA recursive_triggers = \(setting.recursive);\(statements.joined(separator: ";\n"))", stopsAtError: false)
        }
    }
}
