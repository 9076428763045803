import AnnalsCore
import AnnalsSchema
import Foundation
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsStore

@Suite("Tracking and untracking")
struct TrackingTests {
    private func track(
        _ fixture: Fixture, _ selection: Tracking.Selection = .all, isDryRun: Bool = false
    ) throws -> [String: TrackingReport.Table] {
        let report = try fixture.queue.writeWithoutTransaction { db in
            try Tracking.track(db, selection, options: .init(isDryRun: isDryRun))
        }
        return Dictionary(uniqueKeysWithValues: report.tables.map { ($0.name, $0) })
    }

    @Test func tablesThatCannotBeTrackedAreNamedWithTheReason() throws {
        let columns = (0...HistoryLimits.trackedColumns).map { "c\($0)" }.joined(separator: ", ")
        let fixture = try Fixture(
            """
            CREATE TABLE good(id INTEGER PRIMARY KEY); CREATE TABLE keyless(a); CREATE VIEW v AS SELECT 1;
            CREATE VIRTUAL TABLE f USING fts5(x); CREATE TABLE wide(id INTEGER PRIMARY KEY, \(columns));
            CREATE TABLE hidden(rowid TEXT, _rowid_, oid, k TEXT PRIMARY KEY);
            CREATE TABLE child(id INTEGER PRIMARY KEY, p REFERENCES keyless); CREATE TABLE grandchild(id INTEGER PRIMARY KEY, p REFERENCES child);
            CREATE TABLE lost(id INTEGER PRIMARY KEY, p REFERENCES nowhere); CREATE TABLE selfish(id INTEGER PRIMARY KEY, up REFERENCES selfish);
            CREATE TABLE grdb_migrations(identifier TEXT NOT NULL PRIMARY KEY); CREATE TABLE alembic_version(v TEXT PRIMARY KEY);
            """)
        let tables = try track(fixture)
        func reason(_ name: String) -> Refusal? {
            if case .skipped(let reason)? = tables[name]?.outcome { reason } else { nil }
        }
        #expect(tables["good"]?.outcome == .tracked(id: 1))
        #expect(tables["selfish"]?.outcome == .tracked(id: 2))
        #expect(reason("keyless") == .noPrimaryKey)
        #expect(reason("v") == .view)
        #expect(reason("f") == .virtual)
        #expect(reason("f_content") == .shadow)
        #expect(reason("wide") == .tooManyColumns(count: HistoryLimits.trackedColumns + 2, limit: HistoryLimits.trackedColumns))
        #expect(reason("hidden") == .rowidOutOfReach)
        #expect(reason("child") == .untrackedParent("keyless", exists: true))
        #expect(reason("grandchild") == .untrackedParent("child", exists: true))
        #expect(reason("lost") == .untrackedParent("nowhere", exists: false))
        #expect(reason("grdb_migrations") == .bookkeeping(of: "GRDB"))
        #expect(reason("alembic_version") == .bookkeeping(of: "Alembic"))
        for table in tables.values where !table.isTracked {
            if case .skipped(let reason) = table.outcome { #expect(reason.message.count > 20) }
        }
    }

    @Test(arguments: ["TABLE Annals_of_rome(id INTEGER PRIMARY KEY)", "VIEW annals_v AS SELECT 1", "INDEX annals_i ON t(a)"])
    func aNameThatUntrackingWouldDropIsRefused(_ declaration: String) throws {
        let fixture = try Fixture("CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE \(declaration)")
        let before = try fixture.queue.read { db in try String.fetchAll(db, sql: "SELECT name FROM sqlite_master") }
        let error = #expect(throws: AnnalsError.self) { try track(fixture) }
        #expect(error?.code == .schemaRefused)
        #expect(error?.message.lowercased().contains("annals_") == true)
        #expect(throws: AnnalsError.self) { try track(fixture, isDryRun: true) }
        _ = try fixture.queue.writeWithoutTransaction { db in try Tracking.untrack(db) }
        #expect(try fixture.queue.read { db in try String.fetchAll(db, sql: "SELECT name FROM sqlite_master") } == before)
    }

    /// As in Anki's files: SQLite cannot read the first two tables if it does not know the collation.
    @Test func aTableInTheOrderOfAnUnknownCollationIsRefusedAndNoOther() throws {
        let fixture = try Fixture("CREATE TABLE note(id INTEGER PRIMARY KEY, title TEXT)")
        let unicase = DatabaseCollation("unicase") { $0.caseInsensitiveCompare($1) }
        var configuration = Configuration()
        configuration.prepareDatabase { db in db.add(collation: unicase) }
        let program = try DatabaseQueue(path: fixture.file.path, configuration: configuration)
        try program.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE tag(tag TEXT NOT NULL PRIMARY KEY COLLATE unicase, usn INTEGER) WITHOUT ROWID;
                    CREATE TABLE field(note INTEGER, name TEXT COLLATE unicase, PRIMARY KEY(note, name)) WITHOUT ROWID;
                    CREATE TABLE deck(id INTEGER PRIMARY KEY, name TEXT COLLATE unicase UNIQUE);
                    CREATE TABLE child(id INTEGER PRIMARY KEY, tag TEXT REFERENCES tag(tag));
                    INSERT INTO tag VALUES('x', 1); INSERT INTO deck VALUES(1, 'd'); INSERT INTO note VALUES(1, 'n');
                    """)
        }
        let tables = try track(fixture)
        #expect(tables["note"]?.isTracked == true)
        #expect(tables["tag"]?.outcome == .skipped(.unknownCollation("unicase")))
        #expect(tables["field"]?.outcome == .skipped(.unknownCollation("unicase")))
        #expect(tables["child"]?.outcome == .skipped(.untrackedParent("tag", exists: true)))
        // Its rows are found by a number, and changes of them are captured without the collation.
        #expect(tables["deck"]?.isTracked == true)
        try program.write { db in try db.execute(sql: "INSERT INTO tag VALUES('y', 1); UPDATE note SET title = 'm'") }
        let report = try program.writeWithoutTransaction { db in try Tracking.track(db, .all) }
        #expect(report.tables.filter { !$0.isTracked }.map(\.name) == [])
    }

    @Test func namingATableOverridesTheBookkeepingRule() throws {
        let fixture = try Fixture(
            "CREATE TABLE grdb_migrations(identifier TEXT NOT NULL PRIMARY KEY); CREATE TABLE t(id INTEGER PRIMARY KEY)")
        let tables = try track(fixture, .tables(["GRDB_migrations", "nothing"]))
        #expect(tables["grdb_migrations"]?.isTracked == true)
        #expect(tables["nothing"]?.outcome == .skipped(.missing))
        #expect(tables["t"] == nil)
    }

    @Test func coreDatasOwnTablesAreLeftOut() throws {
        let fixture = try Fixture(
            """
            CREATE TABLE Z_PRIMARYKEY(Z_ENT INTEGER PRIMARY KEY); CREATE TABLE Z_METADATA(Z_VERSION INTEGER PRIMARY KEY);
            CREATE TABLE ACHANGE(Z_PK INTEGER PRIMARY KEY); CREATE TABLE ATRANSACTION(Z_PK INTEGER PRIMARY KEY); CREATE TABLE ZNOTE(Z_PK INTEGER PRIMARY KEY)
            """)
        let tables = try track(fixture)
        #expect(tables.filter { $0.value.isTracked }.keys.sorted() == ["ZNOTE"])
        let other = try track(Fixture("CREATE TABLE ACHANGE(id INTEGER PRIMARY KEY); CREATE TABLE Z_1(id INTEGER PRIMARY KEY)"))
        #expect(other.allSatisfy { $0.value.isTracked })
    }

    @Test func theReportListsWhatToKnow() throws {
        let fixture = try Fixture(
            """
            CREATE TABLE p(id INTEGER PRIMARY KEY, u UNIQUE); CREATE TABLE t(k TEXT PRIMARY KEY, p INT REFERENCES p, q REFERENCES p(u));
            INSERT INTO t VALUES('a', 7, NULL), (NULL, NULL, NULL), (NULL, NULL, 'x'), ('b', 8, NULL);
            CREATE TABLE odd(id INTEGER PRIMARY KEY, r REFERENCES t(q)); INSERT INTO odd VALUES(1, 1)
            """)
        let tables = try track(fixture)
        #expect(tables["p"]?.hasProvisionalKeys == true)
        #expect(tables["t"]?.hasProvisionalKeys == false)
        #expect(tables["t"]?.rowsWithNullKey == .init(count: 2, rowids: [2, 3]))
        #expect(
            tables["t"]?.foreignKeyViolations == [
                .init(parent: "p", columns: ["p"], rows: .init(count: 2, rowids: [1, 4])),
                .init(parent: "p", columns: ["q"], rows: .init(count: 1, rowids: [3])),
            ])
        #expect(tables["odd"]?.hasUnusableForeignKey == true)
    }

    @Test func aForeignKeyOfGeneratedColumnsIsRefused() throws {
        let fixture = try Fixture(
            """
            CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT, up TEXT AS (upper(name)) STORED UNIQUE);
            CREATE TABLE child(id INTEGER PRIMARY KEY, raw, p INT AS (CAST(raw AS INT)) STORED REFERENCES p(id));
            CREATE TABLE other(id INTEGER PRIMARY KEY, up TEXT REFERENCES p(up));
            CREATE TABLE plain(id INTEGER PRIMARY KEY, raw, p INT REFERENCES p(id), twice AS (p * 2));
            """)
        let tables = try track(fixture)
        #expect(tables["child"]?.outcome == .skipped(.generatedReference(parent: "p")))
        #expect(tables["other"]?.outcome == .skipped(.generatedReference(parent: "p")))
        #expect(tables["plain"]?.isTracked == true && tables["p"]?.isTracked == true)
    }

    @Test func trackingAgainAddsWhatIsNew() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY)")
        try fixture.file.shell(
            """
            INSERT INTO t VALUES(1); CREATE TABLE u(id INTEGER PRIMARY KEY, t REFERENCES t);
            CREATE TABLE v(id INTEGER PRIMARY KEY); INSERT INTO u VALUES(1, 1);
            """)
        let tables = try track(fixture)
        #expect(tables["t"]?.outcome == .alreadyTracked(id: 1))
        #expect(tables["u"]?.outcome == .tracked(id: 2) && tables["v"]?.outcome == .tracked(id: 3))
        #expect(tables["u"]?.recordedRows == 1 && tables["v"]?.recordedRows == 0)
        // Earlier writes are recorded first, and then the rows that the new table has already. No token expires.
        #expect(try fixture.tracked().map(\.gap) == [nil, nil, nil])
        let contexts = try fixture.queue.read { db in
            try String?.fetchAll(db, sql: "SELECT context FROM annals_transactions ORDER BY number")
        }
        #expect(contexts == [nil, UnknownRows.context])
    }

    @Test func aDryRunAndARefusalLeaveNoTrace() throws {
        let fixture = try Fixture("CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE bad(a)")
        let before = try fixture.file.shell(".dump")
        #expect(try track(fixture, isDryRun: true)["t"]?.isTracked == true)
        #expect(try fixture.file.shell(".dump") == before)
        #expect(try track(fixture, .tables(["bad", "missing"])).values.allSatisfy { !$0.isTracked })
        #expect(try fixture.file.shell(".dump") == before)
    }

    @Test func aFailureHalfwayLeavesNothing() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY)")
        // A view of a program has the name that the changes of the second new table need.
        try fixture.file.shell(
            "CREATE TABLE u(id INTEGER PRIMARY KEY); CREATE TABLE v(id INTEGER PRIMARY KEY); CREATE VIEW annals_changes_3 AS SELECT 1")
        let before = try fixture.file.shell(".dump")
        #expect(throws: DatabaseError.self) { try track(fixture) }
        #expect(try fixture.file.shell(".dump") == before)
    }

    @Test(arguments: [3, 99])
    func aStoreOfAnotherFormatIsRefused(format: Int) throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY)")
        try fixture.file.shell("UPDATE annals_meta SET value = \(format) WHERE name = 'format'")
        #expect(throws: AnnalsError.self) { try track(fixture) }
        #expect(throws: AnnalsError.self) { try fixture.queue.writeWithoutTransaction { db in try Tracking.untrack(db) } }
    }

    /// Law 11.
    @Test func untrackingLeavesTheFileAsItWas() throws {
        let schema = """
            PRAGMA user_version = 7; PRAGMA application_id = 99;
            CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a UNIQUE); CREATE INDEX i ON t(a);
            CREATE TABLE c(k TEXT PRIMARY KEY, t REFERENCES t ON DELETE CASCADE) WITHOUT ROWID;
            CREATE VIEW v AS SELECT * FROM t; CREATE TRIGGER u AFTER INSERT ON t BEGIN INSERT INTO c VALUES(NEW.a, NEW.id); END;
            INSERT INTO t(a) VALUES('x'), ('y'); DELETE FROM t WHERE a = 'y'; ANALYZE;
            """
        let look = "SELECT type, name, tbl_name, sql FROM sqlite_master; SELECT * FROM sqlite_stat1;"
        let fixture = try Fixture(schema)
        let before = try fixture.file.shell(look + "\n.dump\nPRAGMA user_version; PRAGMA application_id; SELECT * FROM sqlite_sequence")
        try fixture.track()
        try fixture.file.shell("INSERT INTO t(a) VALUES('z'); REPLACE INTO t VALUES(1, 'z'); ANALYZE")
        try fixture.recordExternal()
        try fixture.file.shell("ALTER TABLE t ADD COLUMN b")
        try fixture.recordExternal()
        let tracked = try fixture.file.shell("SELECT count(*) FROM sqlite_master WHERE name LIKE 'annals%'")
        #expect(tracked != "0\n")
        let other = try Fixture(schema)
        try other.file.shell("INSERT INTO t(a) VALUES('z'); REPLACE INTO t VALUES(1, 'z'); ANALYZE; ALTER TABLE t ADD COLUMN b; ANALYZE")
        #expect(try fixture.queue.writeWithoutTransaction { db in try Tracking.untrack(db) }.sorted() == ["c", "t"])
        try fixture.file.shell("ANALYZE")
        let after = look + "\n.dump\nPRAGMA user_version; PRAGMA application_id; SELECT * FROM sqlite_sequence"
        #expect(try fixture.file.shell(after) == other.file.shell(after))
        // Nothing was written in between, so the file is exactly as before.
        let still = try Fixture(schema)
        try still.track()
        _ = try still.queue.writeWithoutTransaction { db in try Tracking.untrack(db, ["c", "T"]) }
        #expect(
            try still.file.shell(look + "\n.dump\nPRAGMA user_version; PRAGMA application_id; SELECT * FROM sqlite_sequence") == before)
        #expect(try still.file.shell("PRAGMA integrity_check") == "ok\n")
    }

    @Test func untrackingOneTableKeepsTheOthersHistory() throws {
        let fixture = try Fixture(
            tracking:
                "CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p); CREATE TABLE o(id INTEGER PRIMARY KEY)"
        )
        try fixture.account { try fixture.file.shell("INSERT INTO p VALUES(1); INSERT INTO c VALUES(1, 1); INSERT INTO o VALUES(1)") }
        func untrack(_ names: String...) throws { _ = try fixture.queue.writeWithoutTransaction { db in try Tracking.untrack(db, names) } }
        #expect(throws: AnnalsError.self) { try untrack("p") }
        #expect(throws: AnnalsError.self) { try untrack("o", "nothing") }
        #expect(try fixture.tracked().count == 3)
        try untrack("c")
        try untrack("o")
        #expect(try fixture.tracked().map(\.name) == ["p"])
        try fixture.account { try fixture.file.shell("INSERT INTO p VALUES(2); INSERT INTO c VALUES(2, 2)") }
        try untrack("p")
        #expect(try fixture.file.shell("SELECT count(*) FROM sqlite_master WHERE name LIKE 'annals%'") == "0\n")
    }

    @Test func anInMemoryStoreIsTrackedToo() throws {
        try DatabaseQueue().write { (db: Database) in
            try db.execute(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
            let report = try Tracking.track(db, .all)
            #expect(report.tables.map(\.outcome) == [.tracked(id: 1)])
            try db.execute(sql: "INSERT INTO t VALUES(1, 2)")
            #expect(try TransactionRecorder.recordExternal(db) == 1)
        }
    }

    @Test func aTemporaryTableOfTheSameNameDoesNotGetTheTriggers() throws {
        try DatabaseQueue().write { (db: Database) in
            try db.execute(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TEMP TABLE t(id INTEGER PRIMARY KEY)")
            _ = try Tracking.track(db, .all)
            try db.execute(sql: "INSERT INTO temp.t VALUES(1)")
            #expect(try TransactionRecorder.recordExternal(db) == nil)
            try db.execute(sql: "INSERT INTO main.t VALUES(1, 2); DROP TABLE temp.t")
            #expect(try TransactionRecorder.recordExternal(db) == 1)
            #expect(try Tracking.untrack(db) == ["t"])
        }
    }
}
