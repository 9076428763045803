import AnnalsCore
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsSQLite
@testable import AnnalsStore

/// Law 1: history has every committed write to a tracked table. Tests write as other programs do.
@Suite("Capture: what other programs write is in the changes")
struct CaptureTests {
    @Test func theShellsInsertsUpdatesAndDeletesAreOneExternalTransaction() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); INSERT INTO t VALUES(1, 'x', 1), (2, 'y', 2)")
        let changes = try fixture.account {
            try fixture.file.shell("INSERT INTO t VALUES(3, 'z', 3); UPDATE t SET a = 'X' WHERE id = 1; DELETE FROM t WHERE id = 2")
        }
        #expect(
            changes["t"] == [
                NetChange(old: nil, new: [.integer(3), .text("z"), .integer(3)]),
                NetChange(old: [.integer(1), .text("x"), .integer(1)], new: [.integer(1), .text("X"), .integer(1)]),
                NetChange(old: [.integer(2), .text("y"), .integer(2)], new: nil),
            ])
        let row = try fixture.queue.read { db in try #require(try Row.fetchOne(db, sql: "SELECT * FROM annals_transactions")) }
        #expect(row["number"] == 1)
        #expect(row["origin"] == 1)
        #expect(row["author"] == nil)
        #expect(row["tables"] == "1")
    }

    @Test func everyStorageClassSurvivesExactly() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        let values = [
            "NULL", "0", "9007199254740993", "9223372036854775807", "-9223372036854775808", "0.1", "9e999", "-9e999", "1.0", "1e300",
            "''", "'text'", "x''", "x'00ff00'", "CAST(x'ff00fe' AS TEXT)", "'a' || char(0) || 'b'", "5e-324", "'1'", "zeroblob(3)",
        ]
        let inserted = try fixture.account {
            try fixture.file.shell(values.enumerated().map { "INSERT INTO t VALUES(\($0), \($1));" }.joined())
        }
        let rows = try #require(inserted["t"]).compactMap { $0.new?[1] }
        #expect(rows[2] == .integer(9_007_199_254_740_993))
        #expect(rows[6] == .real(.infinity))
        #expect(rows[8] == .real(1))
        #expect(rows[10] == .text(""))
        #expect(rows[12] == .blob([]))
        #expect(rows[13] == .blob([0, 255, 0]))
        #expect(rows[14] == .text(ByteString([255, 0, 254])))
        #expect(rows[15] == .text(ByteString([97, 0, 98])))
        for rotation in 1..<values.count {
            let set = values.indices.map { "UPDATE t SET v = \(values[($0 + rotation) % values.count]) WHERE id = \($0);" }
            try fixture.account("rotated by \(rotation)") {
                try BareConnection(fixture.file.path).run(set.joined())
            }
        }
        try fixture.account { try fixture.file.shell("DELETE FROM t") }
    }

    /// Changes that `IS NOT` alone would not find, for each affinity that allows them.
    @Test(arguments: [
        ("v", "1", "1.0"), ("v", "1.0", "1"), ("v BLOB", "0", "0.0"), ("v TEXT COLLATE NOCASE", "'abc'", "'ABC'"),
        ("v TEXT COLLATE RTRIM", "'a'", "'a  '"), ("v", "'1'", "1"), ("v", "'a'", "x'61'"), ("v NUMERIC", "x'31'", "1"),
        ("v TEXT", "'1'", "x'31'"), ("v", "NULL", "0"), ("v REAL", "1", "2"), ("v", "-9223372036854775808", "-9223372036854775808.0"),
        ("v INTEGER", "-9223372036854775808", "-9223372036854775808.0"), ("v COLLATE NOCASE", "'a'", "'A'"),
    ])
    func aChangeOfClassOrBytesIsAChange(column: String, old: String, new: String) throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, \(column)); INSERT INTO t VALUES(1, \(old))")
        let changes = try fixture.account { try fixture.file.shell("UPDATE t SET v = \(new)") }
        #expect(changes["t"]?.count == 1)
    }

    @Test func anUpdateThatChangesNothingWritesNothing() throws {
        let fixture = try Fixture(
            tracking: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, a, b TEXT COLLATE NOCASE, c REAL);
                INSERT INTO t VALUES(1, 1.5, 'x', 1), (2, NULL, NULL, NULL), (3, x'00', '', 1e300)
                """)
        try fixture.file.shell("UPDATE t SET a = a, b = b, c = c, id = id; UPDATE t SET c = 1.0 WHERE id = 1")
        let raw = try fixture.queue.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM annals_changes_1") }
        #expect(raw == 0)
        #expect(try fixture.recordExternal() == nil)
    }

    @Test func tablesOfEveryKindAreCaptured() throws {
        let kinds = [
            "t(k TEXT PRIMARY KEY, v) WITHOUT ROWID", "t(k TEXT PRIMARY KEY NOT NULL, v TEXT) STRICT",
            "t(k ANY PRIMARY KEY NOT NULL, v ANY) STRICT",
            "t(k, v, PRIMARY KEY(v, k)) WITHOUT ROWID", "t(k INTEGER PRIMARY KEY AUTOINCREMENT, v)", "t(k INT PRIMARY KEY DESC, v)",
            "t(v, k INTEGER PRIMARY KEY, w AS (v || 'w') STORED, x AS (k + 1))", "t(k TEXT COLLATE NOCASE PRIMARY KEY, v UNIQUE)",
            "t(rowid TEXT, oid, _rowid_, k TEXT NOT NULL, v, PRIMARY KEY(k))",
        ]
        for kind in kinds {
            let fixture = try Fixture(tracking: "CREATE TABLE \(kind); INSERT INTO t(k, v) VALUES('1', 'one'), ('2', 'two')")
            let changes = try fixture.account("\(kind)") {
                try fixture.file.shell(
                    """
                    INSERT INTO t(k, v) VALUES('3', 'three'); UPDATE t SET v = 'TWO' WHERE k = '2'; DELETE FROM t WHERE k = '1';
                    UPDATE t SET k = '4' WHERE k = '3'; INSERT OR REPLACE INTO t(k, v) VALUES('2', 'zwei');
                    """)
            }
            #expect((changes["t"]?.count ?? 0) >= 3, "\(kind)")
        }
    }

    @Test func oddNamesAreCaptured() throws {
        let names = ["select", "a b", "quo\"te", "it's", "[br]", "ü 🙂", "back`tick", "new", "old", "t.u", "annalsx", "mark", "id"]
        for name in names {
            let column = SQL.quote(name)
            let other = SQL.quote(name + " 2")
            let fixture = try Fixture(
                tracking: """
                    CREATE TABLE \(column)(\(column) TEXT PRIMARY KEY NOT NULL, \(other) UNIQUE, o0 DEFAULT 7, n0, op, at);
                    CREATE UNIQUE INDEX \(SQL.quote("i" + name)) ON \(column)(lower(\(column)), \(other)) WHERE \(other) > 0
                    """)
            try fixture.account("\(name)") {
                try fixture.file.shell(
                    """
                    INSERT INTO \(column) VALUES('a', 1, 2, 3, 4, 5), ('b', 2, 2, 3, 4, 5);
                    UPDATE \(column) SET \(other) = 9 WHERE \(column) = 'a';
                    INSERT OR REPLACE INTO \(column)(\(column), \(other)) VALUES('c', 2);
                    """)
            }
        }
    }

    @Test(arguments: [100, 400, HistoryLimits.trackedColumns])
    func wideTablesAreCaptured(count: Int) throws {
        let columns = (1..<count).map { "c\($0)" }
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, \(columns.joined(separator: ", ")))")
        let changes = try fixture.account {
            try fixture.file.shell(
                """
                INSERT INTO t(id, c1, c\(count - 1)) VALUES(1, 'first', 'last'), (2, 'a', 'b');
                UPDATE t SET c\(count - 1) = 1 WHERE id = 1; UPDATE t SET c1 = c1; DELETE FROM t WHERE id = 2;
                """)
        }
        #expect(changes["t"]?.count == 1)
    }

    @Test func cascadesAreCapturedBothWays() throws {
        let schema = """
            CREATE TABLE parent(id TEXT PRIMARY KEY NOT NULL, a UNIQUE);
            CREATE TABLE child(id INTEGER PRIMARY KEY, p REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
            CREATE TABLE other(id INTEGER PRIMARY KEY, p REFERENCES parent ON DELETE SET NULL ON UPDATE SET DEFAULT);
            CREATE TABLE tree(id INTEGER PRIMARY KEY, up REFERENCES tree ON DELETE CASCADE);
            INSERT INTO parent VALUES('a', 1), ('b', 2), ('c', 3);
            INSERT INTO child VALUES(1, 'a'), (2, 'a'), (3, 'b'), (4, 'c');
            INSERT INTO other VALUES(1, 'a'), (2, 'b'), (3, 'c');
            INSERT INTO tree VALUES(1, NULL), (2, 1), (3, 2), (4, 3), (5, NULL);
            """
        for setting in ["", "PRAGMA recursive_triggers = ON;"] {
            let fixture = try Fixture(tracking: schema)
            let changes = try fixture.account("\(setting)") {
                try fixture.file.shell(
                    """
                    PRAGMA foreign_keys = ON; \(setting)
                    DELETE FROM parent WHERE id = 'a'; UPDATE parent SET id = 'B' WHERE id = 'b';
                    DELETE FROM tree WHERE id = 1; REPLACE INTO parent VALUES('d', 3);
                    """)
            }
            #expect(changes["child"]?.count == 4)
            #expect(changes["other"]?.count == 3)
            #expect(changes["tree"]?.count == 4)
            #expect(changes["parent"]?.contains { $0.old?[0] == .text("b") && $0.new?[0] == .text("B") } == true)
        }
    }

    @Test func keyChangesKeepTheRowsIdentity() throws {
        let fixture = try Fixture(
            tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1, 'a'), (2, 'b'), (3, 'c')")
        let changes = try fixture.account {
            try fixture.file.shell(
                """
                UPDATE t SET id = -1 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2; UPDATE t SET id = 2 WHERE id = -1;
                UPDATE t SET id = 10 WHERE id = 3; UPDATE t SET v = 'C' WHERE id = 10; INSERT INTO t VALUES(3, 'new');
                """)
        }
        let expected: Set = [
            NetChange(old: [.integer(1), .text("a")], new: [.integer(2), .text("a")]),
            NetChange(old: [.integer(2), .text("b")], new: [.integer(1), .text("b")]),
            NetChange(old: [.integer(3), .text("c")], new: [.integer(10), .text("C")]),
            NetChange(old: nil, new: [.integer(3), .text("new")]),
        ]
        #expect(Set(changes["t"] ?? []) == expected)
    }

    @Test func rowsWithNullInTheirKeyAreCapturedByRowid() throws {
        let fixture = try Fixture(
            tracking: """
                CREATE TABLE t(k TEXT PRIMARY KEY, u UNIQUE, v); CREATE TABLE pair(a, b, v, PRIMARY KEY(a, b));
                INSERT INTO t VALUES(NULL, 1, 'x'), (NULL, 2, 'x'), ('k', 3, 'x'); INSERT INTO pair VALUES(1, NULL, 'p'), (1, NULL, 'p')
                """)
        let changes = try fixture.account {
            try fixture.file.shell(
                """
                INSERT INTO t VALUES(NULL, 4, 'x'); UPDATE t SET v = 'y' WHERE u = 1; DELETE FROM t WHERE u = 2;
                UPDATE t SET k = 'now' WHERE u = 1; UPDATE t SET k = NULL WHERE u = 3; INSERT OR REPLACE INTO t VALUES(NULL, 4, 'z');
                UPDATE pair SET v = 'q' WHERE rowid = 1; INSERT INTO pair VALUES(2, NULL, 1), (NULL, NULL, 2); DELETE FROM pair WHERE rowid = 2;
                UPDATE pair SET rowid = 77 WHERE rowid = 1;
                """)
        }
        #expect(changes["t"]?.count == 4)
        #expect(changes["pair"]?.count == 4)
        #expect(changes["pair"]?.contains { $0.oldRowid == 1 && $0.newRowid == 77 } == true)
    }

    @Test func theJournalModeStaysAsFound() throws {
        for mode in ["delete", "wal", "truncate"] {
            let fixture = try Fixture("PRAGMA journal_mode = \(mode); CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
            try fixture.track()
            try fixture.account { try fixture.file.shell("PRAGMA journal_mode = \(mode); INSERT INTO t VALUES(1, 2)") }
            if mode != "truncate" { #expect(try fixture.file.shell("PRAGMA journal_mode") == "\(mode)\n") }
        }
    }

    @Test func writesWithinOneTransactionThatCancelOutMakeNone() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1, 'a')")
        try fixture.file.shell("INSERT INTO t VALUES(2, 'b'); DELETE FROM t WHERE id = 2; UPDATE t SET v = 'b'; UPDATE t SET v = 'a'")
        #expect(try fixture.recordExternal() == nil)
        #expect(try fixture.changes().isEmpty)
        try fixture.account { try fixture.file.shell("INSERT INTO t VALUES(2, 'b')") }
    }
}
