import AnnalsCore
import AnnalsHistory
import Foundation
import GRDB
import SeededRandom
import Testing

@testable import AnnalsStore

/// Another program runs random statements, which are recorded now and then. The changes must explain the rows exactly.
///
/// A failure prints its seed. ANNALS_SEED=… repeats that run.
@Suite("Random writes are accounted for")
struct RandomCaptureTests {
    static let seeds = Seeds.givenOrNew(12)

    static let schema = """
        CREATE TABLE parent(id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE UNIQUE, v, UNIQUE(v, name));
        CREATE TABLE child(k TEXT PRIMARY KEY, p INT REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE,
                           n REFERENCES parent(name) ON DELETE SET NULL ON UPDATE SET NULL, v NUMERIC, g AS (lower(k)));
        CREATE TABLE pair(a, b COLLATE RTRIM, v UNIQUE ON CONFLICT REPLACE, w, PRIMARY KEY(b, a)) WITHOUT ROWID;
        CREATE TABLE tree(id INTEGER PRIMARY KEY AUTOINCREMENT, up REFERENCES tree ON DELETE CASCADE ON UPDATE SET NULL, v TEXT);
        CREATE UNIQUE INDEX part ON child(v) WHERE p > 2;
        CREATE UNIQUE INDEX expr ON tree(substr(v, 1, 2), abs(up));
        """

    /// A program's own triggers that write the same tables in the middle of a statement.
    static let triggers = [
        "", "",
        "CREATE TRIGGER u1 AFTER INSERT ON parent BEGIN UPDATE parent SET v = v || '.' WHERE id = NEW.id AND length(v) < 4; END;",
        "CREATE TRIGGER u1 AFTER UPDATE OF v ON child WHEN NEW.v < 6 BEGIN UPDATE child SET v = v + 1 WHERE k = NEW.k; END;",
        "CREATE TRIGGER u1 AFTER DELETE ON child BEGIN INSERT OR REPLACE INTO pair VALUES(OLD.k, OLD.k, OLD.v, 't'); END;",
        """
        CREATE TRIGGER u1 BEFORE INSERT ON pair BEGIN DELETE FROM tree WHERE id = NEW.v; END;
        CREATE TRIGGER u2 AFTER INSERT ON tree BEGIN INSERT INTO parent(id, name) VALUES(NEW.id, NEW.v) ON CONFLICT DO UPDATE SET v = 1; END;
        """,
    ]

    @Test(arguments: seeds)
    func theChangesAccountForTheRows(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let own = Self.triggers.randomElement(using: &generator) ?? ""
        let isNewer = Bool.random(using: &generator)
        let fixture = try Fixture(Self.schema + (isNewer ? "" : own))
        try fixture.track(seed % 2 == 0 && !isNewer ? .leavingOutAll : .system)
        if isNewer { try fixture.file.shell(own) }
        let program = try BareConnection(fixture.file.path)
        try program.run(
            "PRAGMA foreign_keys = \(Bool.random(using: &generator)); PRAGMA recursive_triggers = \(Bool.random(using: &generator))")
        for round in 0..<40 {
            let statements = (0..<Int.random(in: 1...12, using: &generator)).map { _ in Statement.random(&generator) }
            try fixture.account("ANNALS_SEED=\(seed), round \(round): \(statements.joined(separator: "; "))") {
                // Statements may violate constraints.
                for statement in statements { try? program.run(statement) }
                try? program.run("ROLLBACK")
            }
        }
    }

    enum Statement {
        static func random(_ generator: inout SeededGenerator) -> String {
            func pick(_ choices: [String]) -> String { choices.randomElement(using: &generator) ?? "" }
            let value = pick(["NULL", "1", "2", "3", "4", "5", "6", "2.0", "2.5", "'a'", "'A'", "'b '", "'b'", "x'62'", "''"])
            let other = pick(["NULL", "1", "2", "3", "4", "'a'", "'c'", "'C'", "'dd'", "7", "1e3"])
            let id = pick(["1", "2", "3", "4", "5", "6", "NULL"])
            let key = pick(["'a'", "'b'", "'c'", "'d'", "NULL", "'A'", "1"])
            let or = pick(["", "", "OR REPLACE", "OR REPLACE", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ABORT", "OR ROLLBACK"])
            let upsert = pick(["", "", "ON CONFLICT DO NOTHING", "ON CONFLICT DO UPDATE SET v = \(other)"])
            return pick([
                "INSERT \(or) INTO parent VALUES(\(id), \(value), \(other))",
                "INSERT INTO parent VALUES(\(id), \(value), \(other)) \(upsert)",
                "INSERT \(or) INTO child(k, p, n, v) VALUES(\(key), \(id), \(value), \(other)), (\(other), 3, NULL, \(value))",
                "INSERT INTO child(k, p, v) VALUES(\(key), \(id), \(other)) \(upsert)",
                "INSERT \(or) INTO child(rowid, k, p, v) VALUES(\(id), \(key), \(id), \(other))",
                "UPDATE \(or) child SET rowid = \(id) WHERE k IS \(key)",
                "UPDATE \(or) tree SET oid = \(id), v = \(value) WHERE up IS NULL",
                "INSERT \(or) INTO pair VALUES(\(key), \(value), \(other), \(id))",
                "INSERT INTO pair VALUES(\(value), \(key), \(id), \(other)) \(upsert)",
                "INSERT \(or) INTO tree VALUES(\(id), \(pick(["NULL", "1", "2", "3"])), \(value))",
                "INSERT \(or) INTO tree SELECT id + 1, up, v FROM tree",
                "UPDATE \(or) parent SET id = \(id) WHERE id = \(pick(["1", "2", "3", "4"]))",
                "UPDATE \(or) parent SET name = \(value), v = \(other) WHERE id > \(pick(["1", "3", "5"]))",
                "UPDATE \(or) child SET v = v + 1, p = \(id)", "UPDATE \(or) child SET k = \(key) WHERE k IS \(key)",
                "UPDATE \(or) child SET k = \(other), n = NULL WHERE p = \(id)", "UPDATE \(or) pair SET a = \(value), w = \(other)",
                "UPDATE \(or) pair SET v = \(value) WHERE w IS \(other)", "UPDATE \(or) tree SET id = id + 1",
                "UPDATE tree SET v = \(value), up = id - 1",
                "DELETE FROM parent WHERE id = \(id)", "DELETE FROM child WHERE k IS \(key)", "DELETE FROM pair WHERE w IS NOT \(value)",
                "DELETE FROM tree WHERE id = \(id)", "DELETE FROM tree", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s",
                "RELEASE s",
            ])
        }
    }
}
