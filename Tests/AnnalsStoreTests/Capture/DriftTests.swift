import AnnalsCore
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsSchema
@testable import AnnalsStore

/// Other programs change the schema of tracked tables, and continue to write.
@Suite("Drift of the schema")
struct DriftTests {
    private func check(_ fixture: Fixture) throws -> Drift.Report {
        try fixture.queue.write { db in try Drift.check(db) }
    }

    private func gap(_ fixture: Fixture, _ name: String) throws -> Int64? {
        try fixture.tracked().first { $0.name == name }?.gap
    }

    /// The net changes of a transaction, in the columns of the layout in which they were captured.
    private func changes(_ fixture: Fixture, _ number: Int64) throws -> [String: [NetChange]] {
        try fixture.queue.read { db in try Fixture.changes(db, of: number) }
    }

    @Test func nothingIsLookedAtWhileTheSchemaIsTheSame() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        #expect(try fixture.queue.read { db in try Drift.isSuspected(db) } == false)
        try fixture.file.shell("CREATE TABLE other(x)")
        #expect(try fixture.queue.read { db in try Drift.isSuspected(db) })
        #expect(try check(fixture) == Drift.Report())
        #expect(try fixture.queue.read { db in try Drift.isSuspected(db) } == false)
        #expect(try gap(fixture, "t") == nil)
    }

    @Test func aRenamedTableGoesOnUnderItsNewName() throws {
        let fixture = try Fixture(
            tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v UNIQUE); CREATE TABLE c(id INTEGER PRIMARY KEY, t REFERENCES t)")
        try fixture.file.shell(
            "INSERT INTO t VALUES(1, 'a'); ALTER TABLE t RENAME TO \"new name\"; REPLACE INTO \"new name\" VALUES(1, 'b'), (2, 'b')")
        let report = try check(fixture)
        #expect(report.findings == [.tableRenamed(id: 2, from: "t", to: "new name")])
        #expect(report.gaps.isEmpty)
        #expect(try changes(fixture, 1) == ["new name": [NetChange(old: nil, new: [.integer(2), .text("b")])]])
        try fixture.account { try fixture.file.shell("UPDATE \"new name\" SET v = 'c'; INSERT INTO c VALUES(1, 2)") }
        #expect(try fixture.tracked().map(\.name) == ["c", "new name"])
    }

    @Test func aRenamedColumnBeginsANewListWithoutAGap() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v UNIQUE, w); INSERT INTO t VALUES(1, 'a', 1)")
        try fixture.file.shell(
            "UPDATE t SET w = 2; ALTER TABLE t RENAME COLUMN v TO \"the v\"; REPLACE INTO t VALUES(2, 'a', 3); INSERT OR IGNORE INTO t VALUES(2, 'x', 1)"
        )
        let report = try check(fixture)
        #expect(report.findings == [.columnsChanged(table: "t", oldID: 1, newID: 2)])
        #expect(try gap(fixture, "t") == nil)
        #expect(try fixture.tracked().map(\.columns) == [["id", "the v", "w"]])
        let old: [NetChange] = [
            NetChange(old: [.integer(1), .text("a"), .integer(1)], new: nil),
            NetChange(old: nil, new: [.integer(2), .text("a"), .integer(3)]),
        ]
        #expect(Set(try changes(fixture, 1)["t"] ?? []) == Set(old))
        try fixture.account { try fixture.file.shell("UPDATE t SET \"the v\" = 'b'") }
        let lists = try fixture.queue.read { db in try TrackedTable.fetchAll(db) }
        #expect(lists.map(\.state) == [.retired, .tracked])
        #expect(lists.map(\.name) == ["t", "t"])
    }

    @Test func aNewColumnLeavesNoGapWhileItHoldsItsDefault() throws {
        for definition in ["n", "n INT DEFAULT 5 NOT NULL", "n TEXT COLLATE NOCASE DEFAULT 'x'", "g AS (v || 'g')"] {
            let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1, 'a')")
            try fixture.file.shell("UPDATE t SET v = 'b'; ALTER TABLE t ADD COLUMN \(definition); INSERT INTO t(v) VALUES('c')")
            let report = try check(fixture)
            #expect(report.gaps.isEmpty, "\(definition)")
            #expect(try changes(fixture, 1)["t"]?.count == 2)
            try fixture.account("\(definition)") { try fixture.file.shell("INSERT INTO t(v) VALUES('d'); UPDATE t SET v = 'e'") }
        }
    }

    /// A default that SQLite gives to existing rows is not a change, in any spelling and after any conversion.
    @Test func aDefaultIsWhatSQLiteMakesOfIt() throws {
        for column in [
            "TEXT DEFAULT \"open\"", "TEXT DEFAULT `it's`", "TEXT NOT NULL DEFAULT open", "DECIMAL(10,2) NOT NULL DEFAULT 0.0",
            "INT DEFAULT '7'",
            "NUMERIC DEFAULT 1e3", "INT DEFAULT 1.0", "NUMERIC DEFAULT ' 12 '", "DEFAULT -0.0", "TEXT DEFAULT 1e2", "TEXT DEFAULT 1e400",
            "REAL DEFAULT 5",
            "BLOB DEFAULT x'00'", "INT DEFAULT TRUE", "BOOLEAN DEFAULT false", "TEXT DEFAULT +5", "REAL DEFAULT '1.50'",
            "TEXT DEFAULT 0x10",
        ] {
            let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1, 'a'), (2, 'b')")
            try store.track()
            try store.external("UPDATE t SET v = 'n' WHERE id = 1")
            try store.outside("ALTER TABLE t ADD COLUMN c \(column)")
            #expect(try store.recordExternalChanges() == nil, "\(column)")
            try store.external("INSERT INTO t(id, v) VALUES(3, 'c'); UPDATE t SET v = 'm' WHERE id = 2")
            #expect(try store.findings() == [], "\(column)")
            try store.replay(to: store.token(0))
            #expect(try RowDump(path: store.path("replayed.db")).tables["t"]?.count == 2, "\(column)")
        }
    }

    /// When the column was added, all rows had its default. So all other values were written later.
    @Test func whatWasWrittenToANewColumnIsCaptured() throws {
        for write in ["UPDATE t SET n = 1", "UPDATE t SET n = 'X' WHERE id = 1", "INSERT INTO t VALUES(2, 'b', NULL)"] {
            let fixture = try Fixture(
                tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE o(id INTEGER PRIMARY KEY); INSERT INTO t VALUES(1, 'a')")
            try fixture.account { try fixture.file.shell("UPDATE t SET v = 'b'; INSERT INTO o VALUES(1)") }
            try fixture.file.shell("ALTER TABLE t ADD COLUMN n TEXT COLLATE NOCASE DEFAULT 'x'; \(write)")
            let before = try #require(fixture.changes().last).number
            let report = try check(fixture)
            #expect(report.gaps.isEmpty)
            let changes = try #require(try changes(fixture, before + 1)["t"])
            #expect(changes.contains { $0.new?.count == 3 })
            try fixture.account { try fixture.file.shell("UPDATE t SET n = 'z'; INSERT INTO o VALUES(2)") }
        }
    }

    /// A migration by another program: create, copy, drop, rename. The triggers are dropped with the old table.
    @Test func aRebuiltTableIsTrackedAgainAfterAGap() throws {
        let fixture = try Fixture(
            tracking:
                "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE o(id INTEGER PRIMARY KEY); INSERT INTO t VALUES(1, 'a'), (2, 'b')")
        try fixture.account { try fixture.file.shell("UPDATE t SET v = 'A' WHERE id = 1; INSERT INTO o VALUES(1)") }
        try fixture.file.shell(
            """
            INSERT INTO o VALUES(2);
            CREATE TABLE t2(id INTEGER PRIMARY KEY, v); INSERT INTO t2 SELECT * FROM t; DROP TABLE t; ALTER TABLE t2 RENAME TO t;
            INSERT INTO t VALUES(3, 'unseen'); INSERT INTO o VALUES(3);
            """)
        let report = try check(fixture)
        #expect(report.findings == [.triggersRestored(table: "t")])
        #expect(try gap(fixture, "t") == 2)
        #expect(try gap(fixture, "o") == nil)
        #expect(try changes(fixture, 2)["o"]?.count == 2)
        try fixture.account { try fixture.file.shell("INSERT INTO t VALUES(4, 'seen'); DELETE FROM t WHERE id = 3") }
    }

    @Test func aRebuiltTableWithOtherColumnsGetsANewList() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v, w); INSERT INTO t VALUES(1, 'a', 'x')")
        try fixture.file.shell(
            """
            UPDATE t SET v = 'b'; REPLACE INTO t VALUES(1, 'c', 'c');
            CREATE TABLE t2(k TEXT PRIMARY KEY, id INT, w); INSERT INTO t2 SELECT 'k' || id, id, w FROM t; DROP TABLE t; ALTER TABLE t2 RENAME TO t;
            """)
        let report = try check(fixture)
        #expect(report.findings == [.columnsChanged(table: "t", oldID: 1, newID: 2)])
        #expect(report.gaps == [2])
        #expect(try gap(fixture, "t") == 1)
        #expect(try fixture.tracked().first?.key.isByRowid == true)
        try fixture.account { try fixture.file.shell("INSERT INTO t VALUES('new', 1, 1), (NULL, 2, 2); DELETE FROM t WHERE id = 1") }
    }

    @Test func aDroppedTableEndsItsHistoryOnly() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v UNIQUE); CREATE TABLE o(id INTEGER PRIMARY KEY)")
        try fixture.file.shell("INSERT INTO t VALUES(1, 1); INSERT OR IGNORE INTO t VALUES(1, 2); INSERT INTO o VALUES(1); DROP TABLE t")
        let report = try check(fixture)
        #expect(report.findings == [.tableDropped(table: "t")])
        #expect(try fixture.tracked().map(\.name) == ["o"])
        #expect(try changes(fixture, 1)["o"]?.count == 1)
        try fixture.account { try fixture.file.shell("INSERT INTO o VALUES(2)") }
        // A new table can have its name and be tracked.
        try fixture.file.shell("CREATE TABLE t(id INTEGER PRIMARY KEY, other)")
        try fixture.track()
        try fixture.account { try fixture.file.shell("INSERT INTO t VALUES(1, 2)") }
    }

    @Test func aDroppedTriggerReturnsAndLeavesAGap() throws {
        for name in ["insert", "update", "delete"] {
            let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
            try fixture.file.shell("DROP TRIGGER annals_1_\(name); INSERT INTO t VALUES(1, 1)")
            let report = try check(fixture)
            #expect(report.gaps == [1])
            #expect(report.findings == [.triggersRestored(table: "t")])
            #expect(try gap(fixture, "t") == 1)
            try fixture.account { try fixture.file.shell("INSERT INTO t VALUES(2, 1); UPDATE t SET v = 3; DELETE FROM t WHERE id = 1") }
        }
    }

    @Test func aTriggerThatWasTamperedWithIsMended() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try fixture.file.shell(
            "DROP TRIGGER annals_1_insert; CREATE TRIGGER annals_1_insert AFTER INSERT ON t BEGIN SELECT 1; END; INSERT INTO t VALUES(1, 1)"
        )
        #expect(try check(fixture).gaps == [1])
        try fixture.account { try fixture.file.shell("INSERT INTO t VALUES(2, 1)") }
    }

    @Test func aNewUniqueIndexIsLearnt() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v, w); INSERT INTO t VALUES(1, 'a', 1), (2, 'b', 2)")
        try fixture.file.shell("CREATE UNIQUE INDEX i ON t(v)")
        var report = try check(fixture)
        #expect(report.findings == [.triggersRestored(table: "t")])
        #expect(report.gaps.isEmpty)
        try fixture.account { try fixture.file.shell("REPLACE INTO t VALUES(3, 'a', 3)") }
        // Annals did not see the index before the write, so the write may have evicted a row unseen.
        try fixture.file.shell("CREATE UNIQUE INDEX j ON t(w); REPLACE INTO t VALUES(4, 'x', 2)")
        report = try check(fixture)
        #expect(report.gaps == [1])
        #expect(try gap(fixture, "t") == 2)
    }

    /// The triggers differ from the expected ones in both cases, and nothing shows which index the unrecorded changes met.
    @Test func anIndexThatWentLeavesAGapIfAnythingWasWritten() throws {
        let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE UNIQUE INDEX i ON t(v); INSERT INTO t VALUES(1, 'a')"
        let quiet = try Fixture(tracking: schema)
        try quiet.file.shell("DROP INDEX i")
        #expect(try check(quiet) == Drift.Report(findings: [.triggersRestored(table: "t")]))
        let written = try Fixture(tracking: schema)
        try written.account { try written.file.shell("DROP INDEX i; INSERT INTO t VALUES(2, 'a'); DELETE FROM t WHERE id = 1") }
        #expect(try gap(written, "t") == 1)
    }

    @Test func theConditionOfAPartialIndexIsKeptThroughARename() throws {
        let fixture = try Fixture(
            tracking: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, v, w);
                CREATE UNIQUE INDEX i ON t(v) WHERE t.w BETWEEN .5 AND 1.5 OR "t".w = X'6162' OR t.w = 't.w';
                INSERT INTO t VALUES(1, 'a', 1), (2, 'a', 2), (3, 'b', X'6162'), (4, 'c', 't.w');
                """)
        let replacing = "VALUES(5, 'a', 1.25), (6, 'a', 2), (7, 'b', 1), (8, 'c', 0.5)"
        try fixture.file.shell("ALTER TABLE t RENAME TO u")
        #expect(try check(fixture).findings == [.tableRenamed(id: 1, from: "t", to: "u")])
        let changes = try fixture.account { try fixture.file.shell("REPLACE INTO u \(replacing)") }
        #expect(changes["u"]?.count { $0.new == nil } == 3)
    }

    @Test func aTableThatLosesItsKeyIsLetGo() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try fixture.file.shell("CREATE TABLE t2(v); DROP TABLE t; ALTER TABLE t2 RENAME TO t; INSERT INTO t VALUES(1)")
        #expect(try check(fixture).findings == [.trackingEnded(table: "t", reason: .noPrimaryKey)])
        #expect(try fixture.tracked().isEmpty)
        try fixture.file.shell("INSERT INTO t VALUES(1)")
        #expect(try fixture.file.shell("SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 't'") == "0\n")
    }

    @Test func aMigrationOfOursThatRepairsAsItGoesLeavesNoGap() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1, 'a')")
        let (_, number) = try fixture.queue.write { db in
            try TransactionRecorder.managedWrite(db, origin: .migration) { db in
                try db.execute(sql: "UPDATE t SET v = 'b'; ALTER TABLE t ADD COLUMN n DEFAULT 1")
                #expect(try Drift.repairIfNeeded(db).gaps.isEmpty)
                try db.execute(sql: "UPDATE t SET n = 2")
            }
        }
        #expect(number == 1)
        #expect(try gap(fixture, "t") == nil)
        let spans = try fixture.file.shell("SELECT table_id, first, last FROM annals_spans; SELECT origin, tables FROM annals_transactions")
        #expect(spans == "1|1|1\n2|1|1\n2|1 2\n")
    }

    @Test func ourTriggersBecomeTheNewestAgain() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        func newest() throws -> String {
            try fixture.file.shell("SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid DESC LIMIT 1")
        }
        try fixture.file.shell("CREATE TRIGGER b BEFORE UPDATE ON t BEGIN SELECT 1; END")
        #expect(try check(fixture) == Drift.Report())
        #expect(try newest() == "b\n")
        try fixture.file.shell(
            "CREATE TRIGGER a AFTER INSERT ON t BEGIN UPDATE t SET v = 'stamp' WHERE id = NEW.id; END; INSERT INTO t VALUES(1, 'x')")
        let report = try check(fixture)
        #expect(report.disordered == [1])
        #expect(report.gaps.isEmpty)
        #expect(try newest().hasPrefix("annals_1_"))
        #expect(try changes(fixture, 1)["t"] == [NetChange(old: nil, new: [.integer(1), .text("stamp")])])
        // The stored changes are in the order in which they happened.
        #expect(try fixture.file.shell("SELECT op, n0, n1 FROM annals_changes_1") == "1|1|stamp\n")
    }

    @Test func vacuumAndDumpAndRestoreKeepEverything() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id TEXT PRIMARY KEY, v); INSERT INTO t VALUES('a', 1), ('b', 2)")
        try fixture.file.shell("UPDATE t SET v = 3; VACUUM; UPDATE t SET v = 4")
        #expect(try check(fixture).gaps.isEmpty)
        try fixture.account { try fixture.file.shell("VACUUM; REPLACE INTO t VALUES('a', 9)") }
        let dump = try fixture.file.shell(".dump")
        let other = try Fixture(dump)
        #expect(try other.queue.write { db in try Drift.check(db) }.gaps.isEmpty)
        try other.account { try other.file.shell("UPDATE t SET v = 5") }
    }
}
