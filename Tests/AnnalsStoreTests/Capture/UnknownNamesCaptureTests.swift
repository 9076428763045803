import AnnalsCore
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsSchema
@testable import AnnalsStore

/// A program tracks tables with its own function and collation. The writes of programs without them, and Annals without them.
@Suite("Capture without a program's functions and collations")
struct UnknownNamesCaptureTests {
    private static let schema = """
        CREATE TABLE card(name TEXT NOT NULL COLLATE unicase PRIMARY KEY, email UNIQUE, v);
        CREATE TABLE deck(id INTEGER PRIMARY KEY, name TEXT COLLATE unicase UNIQUE, email UNIQUE, v);
        CREATE TABLE item(id INTEGER PRIMARY KEY, v CHECK (twice(v) < 100), w, n TEXT COLLATE unicase);
        CREATE TABLE part(id INTEGER PRIMARY KEY, v, w, email UNIQUE);
        CREATE UNIQUE INDEX part_v ON part(twice(v));
        CREATE UNIQUE INDEX part_w ON part(w) WHERE twice(w) > 4;
        INSERT INTO card VALUES('a', 1, 1), ('b', 2, 2); INSERT INTO deck VALUES(1, 'a', 1, 1), (2, 'b', 2, 2);
        INSERT INTO item VALUES(1, 1, 1, 'a'), (2, 2, 2, 'b'); INSERT INTO part VALUES(1, 1, 1, 1), (2, 2, 2, 2);
        """

    /// The tables, tracked by the program that has the names. `queue` does not have them.
    private func fixture() throws -> Fixture {
        let fixture = try Fixture("CREATE TABLE first(id INTEGER PRIMARY KEY)")
        let program = try UnusualProgram.open(fixture.file.path)
        try program.write { db in try db.execute(sql: Self.schema) }
        let report = try program.writeWithoutTransaction { db in try Tracking.track(db, .all) }
        #expect(report.tables.allSatisfy { $0.isTracked })
        return fixture
    }

    /// Each statement works in the shell if the tables are not tracked.
    @Test(arguments: [
        "UPDATE card SET v = 9", "UPDATE card SET email = email + 10", "UPDATE card SET email = 2, v = 1 WHERE email = 2",
        "UPDATE deck SET v = 9", "UPDATE deck SET email = email + 10", "UPDATE item SET w = 9", "UPDATE item SET id = id + 10",
        "UPDATE item SET n = upper(n)", "DELETE FROM item WHERE id = 1", "UPDATE part SET email = email + 10",
    ])
    func `a write that needs none of them works, and is captured`(_ sql: String) throws {
        let fixture = try fixture()
        let changes = try fixture.account { try fixture.file.shell(sql) }
        #expect(!changes.isEmpty)
    }

    @Test func `rows that a REPLACE of the program removed are recorded by Annals without the collation`() throws {
        let fixture = try fixture()
        let program = try UnusualProgram.open(fixture.file.path)
        for sql in [
            "REPLACE INTO card VALUES('A', 5, 5)", "UPDATE OR REPLACE card SET name = 'B' WHERE email = 5",
            "UPDATE OR REPLACE deck SET name = 'B' WHERE id = 1", "REPLACE INTO part VALUES(3, 1, 7, 8)",
            "INSERT INTO card VALUES('b', 7, 7) ON CONFLICT DO UPDATE SET v = 7", "UPDATE OR REPLACE part SET w = 7, v = 9, email = 9",
        ] {
            let changes = try fixture.account("\(sql)") { try program.write { db in try db.execute(sql: sql) } }
            #expect(!changes.isEmpty, "\(sql)")
        }
    }

    @Test func `the triggers are the same for a program that has them and for one that has not`() throws {
        let fixture = try fixture()
        try fixture.file.shell("CREATE TABLE another(id INTEGER PRIMARY KEY)")
        let report = try fixture.queue.write { db in
            try TransactionRecorder.recordExternalReportingDrift(db, .system).drift
        }
        #expect(report.findings.isEmpty && report.gaps.isEmpty)
    }
}
