import AnnalsCore
import Foundation
import GRDB
import SeededRandom
import Testing

@testable import AnnalsHistory
@testable import AnnalsStore

@Suite("Writers that give their names in SQL")
struct NamedWritersTests {
    static let schema = """
        CREATE TABLE t(id INTEGER PRIMARY KEY, v UNIQUE);
        CREATE TABLE u(k TEXT PRIMARY KEY, w) WITHOUT ROWID;
        """

    /// The author, the context and the net changes of each transaction.
    private struct Recorded: Hashable, CustomTestStringConvertible {
        var author: String?
        var context: String?
        var changes: [String]

        var testDescription: String { "\(author ?? "–") (\(context ?? "–")): \(changes.joined(separator: "; "))" }
    }

    private func recorded(_ fixture: Fixture, after number: Int64 = 0) throws -> [Recorded] {
        try fixture.recordExternal()
        return try fixture.changes(after: number).map { number, changes in
            let row = try #require(
                try fixture.queue.read { db in
                    try Row.fetchOne(db, sql: "SELECT author, context FROM annals_transactions WHERE number = ?", arguments: [number])
                })
            let texts = changes.sorted { $0.key < $1.key }.flatMap { table, changes in
                changes.map { "\(table) \($0.testDescription)" }.sorted()
            }
            return Recorded(author: row["author"], context: row["context"], changes: texts)
        }
    }

    private func name(_ author: String, _ context: String? = nil) -> String {
        "INSERT INTO annals_context(author, context) VALUES ('\(author)', \(context.map { "'\($0)'" } ?? "NULL"));"
    }

    private let end = "DELETE FROM annals_context;"

    @Test func `each writer's work is one transaction, in the order of the commits`() throws {
        let fixture = try Fixture(tracking: Self.schema)
        try fixture.file.shell("INSERT INTO t VALUES(1, 'x')")
        try fixture.file.shell("BEGIN; \(name("ann", "import")) UPDATE t SET v = 'ann wrote'; INSERT INTO u VALUES('k', 1); \(end) COMMIT")
        try fixture.file.shell("BEGIN; \(name("bob")) UPDATE t SET v = 'bob wrote'; \(end) COMMIT; UPDATE u SET w = 2; UPDATE t SET v = 3")
        #expect(
            try recorded(fixture) == [
                Recorded(changes: ["t ∅ → (1, 'x')"]),
                Recorded(author: "ann", context: "import", changes: ["t (1, 'x') → (1, 'ann wrote')", "u ∅ → ('k', 1)"]),
                Recorded(author: "bob", changes: ["t (1, 'ann wrote') → (1, 'bob wrote')"]),
                Recorded(changes: ["t (1, 'bob wrote') → (1, 3)", "u ('k', 1) → ('k', 2)"]),
            ])
        #expect(
            try fixture.file.shell("SELECT count(*) FROM annals_context_moments; SELECT count(*) FROM annals_context_marks") == "0\n0\n")
    }

    @Test func `rows that named writers replaced take no more space than those that they updated`() throws {
        let fixture = try Fixture(tracking: Self.schema)
        let value = String(repeating: "x", count: 300)
        try fixture.file.shell((1...100).map { "INSERT INTO t VALUES(\($0), '\(value)\($0)');" }.joined())
        try fixture.file.shell(
            (1...100).map { number in
                let rows = (0..<5).map { "REPLACE INTO t VALUES(\((number * 7 + $0 * 13) % 100 + 1), '\(value)\(number)-\($0)');" }.joined()
                return "BEGIN; \(name("ann")) \(rows) \(end) COMMIT;"
            }.joined())
        #expect(try recorded(fixture).count == 101)
        let pages = try fixture.file.shell("PRAGMA page_count; PRAGMA freelist_count; VACUUM; PRAGMA page_count;")
            .split(separator: "\n").compactMap { Int($0) }
        #expect(Double(pages[0] - pages[1]) < Double(pages[2]) * 1.2, "\(pages)")
    }

    @Test func `a rollback takes the name back with the rows`() throws {
        let fixture = try Fixture(tracking: Self.schema)
        try fixture.file.shell("BEGIN; \(name("ann")) INSERT INTO t VALUES(1, 1); \(end) ROLLBACK; INSERT INTO t VALUES(2, 2)")
        try fixture.file.shell("BEGIN; \(name("ann")) ROLLBACK; BEGIN; \(name("bob")) INSERT INTO t VALUES(3, 3); \(end) COMMIT")
        #expect(
            try recorded(fixture) == [
                Recorded(changes: ["t ∅ → (2, 2)"]), Recorded(author: "bob", changes: ["t ∅ → (3, 3)"]),
            ])
    }

    @Test func `savepoints`() throws {
        let fixture = try Fixture(tracking: Self.schema)
        try fixture.file.shell(
            """
            BEGIN; \(name("ann")) INSERT INTO t VALUES(1, 1); SAVEPOINT s; INSERT INTO t VALUES(2, 2); ROLLBACK TO s;
            INSERT INTO t VALUES(3, 3); \(end) COMMIT;
            BEGIN; SAVEPOINT s; \(name("bob")) INSERT INTO t VALUES(4, 4); ROLLBACK TO s; INSERT INTO t VALUES(5, 5); \(end) COMMIT;
            """)
        #expect(
            try recorded(fixture) == [
                Recorded(author: "ann", changes: ["t ∅ → (1, 1)", "t ∅ → (3, 3)"]), Recorded(changes: ["t ∅ → (5, 5)"]),
            ])
    }

    @Test func `two names in one transaction are two transactions of history`() throws {
        let fixture = try Fixture(tracking: Self.schema)
        try fixture.file.shell(
            "BEGIN; \(name("ann")) INSERT INTO t VALUES(1, 1); \(end) \(name("bob")) UPDATE t SET v = 2; \(end) DELETE FROM t; COMMIT")
        #expect(
            try recorded(fixture) == [
                Recorded(author: "ann", changes: ["t ∅ → (1, 1)"]), Recorded(author: "bob", changes: ["t (1, 1) → (1, 2)"]),
                Recorded(changes: ["t (1, 2) → ∅"]),
            ])
    }

    @Test func `if the schema changed meanwhile, the context says why there are no authors`() throws {
        let fixture = try Fixture(tracking: Self.schema)
        try fixture.file.shell("BEGIN; \(name("ann")) INSERT INTO t VALUES(1, 1); \(end) COMMIT; ALTER TABLE u ADD COLUMN x")
        try fixture.file.shell("BEGIN; \(name("sue")) INSERT INTO t VALUES(2, 2); \(end) COMMIT")
        let why = "no authors: the schema changed between two recordings"
        #expect(try recorded(fixture) == [Recorded(context: why, changes: ["t ∅ → (1, 1)", "t ∅ → (2, 2)"])])
        try fixture.file.shell("INSERT INTO t VALUES(3, 3); ALTER TABLE u ADD COLUMN y")
        #expect(try recorded(fixture, after: 1) == [Recorded(changes: ["t ∅ → (3, 3)"])])
    }

    @Test func `a name without an end names nothing, and the context says why`() throws {
        let fixture = try Fixture(tracking: Self.schema)
        try fixture.file.shell("BEGIN; \(name("ann")) INSERT INTO t VALUES(1, 1); COMMIT; INSERT INTO t VALUES(2, 2)")
        try fixture.file.shell("BEGIN; \(name("bob")) INSERT INTO t VALUES(3, 3); \(end) COMMIT")
        let why = "no author: DELETE FROM annals_context is missing before COMMIT"
        #expect(
            try recorded(fixture) == [
                Recorded(context: why, changes: ["t ∅ → (1, 1)", "t ∅ → (2, 2)"]), Recorded(author: "bob", changes: ["t ∅ → (3, 3)"]),
            ])
        try fixture.file.shell("BEGIN; \(name("ann")) INSERT INTO t VALUES(4, 4); COMMIT")
        #expect(try recorded(fixture, after: 2) == [Recorded(context: why, changes: ["t ∅ → (4, 4)"])])
        // The name does not reach beyond the recording.
        try fixture.file.shell("INSERT INTO t VALUES(5, 5); \(end)")
        #expect(try recorded(fixture, after: 3) == [Recorded(changes: ["t ∅ → (5, 5)"])])
    }

    @Test(arguments: [
        ("NULL", "NULL"), ("''", "NULL"), ("7", "NULL"), ("x'61'", "NULL"), ("printf('%.*c', 1001, 'a')", "NULL"),
        ("printf('%.*c', 501, 'é')", "NULL"), ("'ann'", "7"), ("'ann'", "printf('%.*c', 10001, 'a')"),
    ])
    func `names that are no names are refused, and the transaction goes on`(author: String, context: String) throws {
        let fixture = try Fixture(tracking: Self.schema)
        let program = try BareConnection(fixture.file.path)
        try program.run("BEGIN; INSERT INTO t VALUES(1, 1)")
        let complaint = try #require(
            throws: Complaint.self
        ) { try program.run("INSERT INTO annals_context VALUES(\(author), \(context))") }
        #expect(complaint.text.hasPrefix("annals_context: the \(author == "'ann'" ? "context" : "author") must be "))
        try program.run("INSERT INTO t VALUES(2, 2); COMMIT")
        #expect(try recorded(fixture) == [Recorded(changes: ["t ∅ → (1, 1)", "t ∅ → (2, 2)"])])
    }

    @Test func `the view shows the open name`() throws {
        let fixture = try Fixture(tracking: Self.schema)
        let read = "SELECT * FROM annals_context;"
        #expect(try fixture.file.shell("\(read) BEGIN; \(name("ann", "import")) \(read) \(end) \(read) COMMIT; \(end)") == "ann|import\n")
    }

    @Test func `a row that a REPLACE removes is deleted by the writer of the REPLACE`() throws {
        let fixture = try Fixture(tracking: Self.schema)
        try fixture.file.shell("INSERT INTO t VALUES(1, 'a'), (2, 'b'), (3, 'c')")
        try fixture.recordExternal()
        // The UPSERT notes row 1, and the REPLACE of another writer removes it through its unique value.
        try fixture.file.shell("INSERT INTO t VALUES(1, 'z') ON CONFLICT DO UPDATE SET v = 'aa'; INSERT INTO t VALUES(7, 7), (8, 8)")
        try fixture.file.shell("BEGIN; \(name("ann")) INSERT OR REPLACE INTO t VALUES(4, 'aa'); \(end) COMMIT; INSERT INTO t VALUES(9, 9)")
        try fixture.file.shell("BEGIN; \(name("bob")) REPLACE INTO t VALUES(2, 'B'); \(end) COMMIT")
        try fixture.file.shell("BEGIN; \(name("eve")) REPLACE INTO t VALUES(2, 'BB'); REPLACE INTO t VALUES(9, 'c'); \(end) COMMIT")
        #expect(
            try recorded(fixture, after: 1) == [
                Recorded(changes: ["t (1, 'a') → (1, 'aa')", "t ∅ → (7, 7)", "t ∅ → (8, 8)"]),
                Recorded(author: "ann", changes: ["t (1, 'aa') → ∅", "t ∅ → (4, 'aa')"]),
                Recorded(changes: ["t ∅ → (9, 9)"]),
                Recorded(author: "bob", changes: ["t (2, 'b') → (2, 'B')"]),
                Recorded(author: "eve", changes: ["t (2, 'B') → (2, 'BB')", "t (3, 'c') → ∅", "t (9, 9) → (9, 'c')"]),
            ])
    }

    @Test func `a row that is removed by moving another one is deleted by the writer who moved it`() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(k TEXT PRIMARY KEY, v, n INT, o INT); CREATE TABLE s(id INTEGER PRIMARY KEY)")
        // For a row with NULL in a numeric column, the condition of the trigger must not be NULL.
        try fixture.file.shell("INSERT INTO t(k, v) VALUES('a', 1), ('b', 2), ('c', 3)")
        try fixture.recordExternal()
        func move(_ from: String, _ to: Int) -> String { "UPDATE OR REPLACE t SET rowid = \(to) WHERE k = '\(from)';" }
        try fixture.file.shell("BEGIN; \(name("ann")) INSERT INTO t(k, v) VALUES('d', 4); \(end) COMMIT")
        try fixture.file.shell("BEGIN; \(name("bob")) \(move("b", 1)) \(end) COMMIT")
        try fixture.file.shell("BEGIN; \(name("sue")) INSERT INTO t(k, v) VALUES('a', 5), ('e', 6); INSERT INTO s VALUES(1); \(end) COMMIT")
        try fixture.file.shell("BEGIN; \(name("eve")) \(move("b", 3)) INSERT INTO s VALUES(2); \(end) COMMIT")
        try fixture.file.shell("INSERT INTO s VALUES(3)")
        #expect(
            try recorded(fixture, after: 1) == [
                Recorded(author: "ann", changes: ["t ∅ → ('d', 4, NULL, NULL)"]),
                Recorded(author: "bob", changes: ["t ('a', 1, NULL, NULL) → ∅"]),
                Recorded(author: "sue", changes: ["s ∅ → (1)", "t ∅ → ('a', 5, NULL, NULL)", "t ∅ → ('e', 6, NULL, NULL)"]),
                Recorded(author: "eve", changes: ["s ∅ → (2)", "t ('c', 3, NULL, NULL) → ∅"]),
                Recorded(changes: ["s ∅ → (3)"]),
            ])
        #expect(try fixture.file.shell("SELECT k FROM t ORDER BY k") == "a\nb\nd\ne\n")
    }

    @Test func `names are dropped where the schema changed, and no row is`() throws {
        let fixture = try Fixture(tracking: Self.schema)
        try fixture.file.shell("BEGIN; \(name("ann")) INSERT INTO t VALUES(1, 1); \(end) COMMIT; ALTER TABLE t ADD COLUMN x")
        try fixture.file.shell("BEGIN; \(name("bob")) INSERT INTO t(id) VALUES(2); \(end) COMMIT")
        #expect(try recorded(fixture).map(\.author) == [nil])
        #expect(try recorded(fixture).flatMap(\.changes).count == 2)
        try fixture.file.shell("BEGIN; \(name("eve")) INSERT INTO t(id, x) VALUES(3, 3); \(end) COMMIT")
        let newest = try #require(try recorded(fixture).last)
        #expect(newest == Recorded(author: "eve", changes: ["t ∅ → (3, NULL, 3)"]))
    }

    @Test func `an app's own write takes its author from the app`() throws {
        let fixture = try Fixture(tracking: Self.schema)
        try fixture.queue.write { db in
            _ = try TransactionRecorder.managedWrite(db, author: "app") { db in
                try db.execute(sql: "\(name("ann")) INSERT INTO t VALUES(1, 1)")
            }
        }
        try fixture.file.shell("INSERT INTO t VALUES(2, 2); \(end)")
        #expect(
            try recorded(fixture) == [Recorded(author: "app", changes: ["t ∅ → (1, 1)"]), Recorded(changes: ["t ∅ → (2, 2)"])])
    }

    @Test func `untrack removes the view, and a view of a program is not touched`() throws {
        let fixture = try Fixture(tracking: Self.schema)
        try fixture.queue.writeWithoutTransaction { db in _ = try Tracking.untrack(db) }
        #expect(try fixture.file.shell("SELECT name FROM sqlite_master WHERE name GLOB 'annals*'") == "")
        try fixture.file.shell("CREATE VIEW annals_context AS SELECT 1")
        #expect(throws: AnnalsError.self) { try fixture.track() }
    }

    @Test func `a dropped view returns at the next recording`() throws {
        let fixture = try Fixture(tracking: Self.schema)
        try fixture.file.shell("DROP VIEW annals_context; INSERT INTO t VALUES(1, 1)")
        try fixture.recordExternal()
        try fixture.file.shell("BEGIN; \(name("ann")) INSERT INTO t VALUES(2, 2); \(end) COMMIT")
        #expect(try recorded(fixture, after: 1) == [Recorded(author: "ann", changes: ["t ∅ → (2, 2)"])])
    }

    @Test func `a dropped table of marks returns at the next recording`() throws {
        let fixture = try Fixture(tracking: Self.schema)
        try fixture.file.shell("DROP TABLE annals_context_marks")
        try fixture.recordExternal()
        try fixture.file.shell("INSERT INTO t VALUES(1, 1)")
        try fixture.file.shell("BEGIN; \(name("ann")) REPLACE INTO t VALUES(1, 2); \(end) COMMIT")
        #expect(
            try recorded(fixture) == [
                Recorded(changes: ["t ∅ → (1, 1)"]), Recorded(author: "ann", changes: ["t (1, 1) → (1, 2)"]),
            ])
    }

    @Test func `a table of a program with the name of a mark is not Annals' own`() throws {
        let fixture = try Fixture(tracking: Self.schema)
        try fixture.file.shell("CREATE TABLE annals_5_mark(a); CREATE VIEW annals_6_mark AS SELECT 1")
        try fixture.queue.writeWithoutTransaction { db in _ = try Tracking.untrack(db) }
        #expect(try fixture.file.shell("SELECT name FROM sqlite_master WHERE name GLOB 'annals*'") == "annals_5_mark\nannals_6_mark\n")
    }

    @Test func `a name that is not valid UTF-8 names nothing, and neither does the name before it`() throws {
        let fixture = try Fixture(tracking: Self.schema)
        try fixture.file.shell(
            """
            BEGIN; INSERT INTO annals_context VALUES(CAST(x'ff61' AS TEXT), NULL); INSERT INTO t VALUES(1, 1); \(end) COMMIT;
            BEGIN; \(name("ann")) INSERT INTO t VALUES(2, 2); INSERT INTO annals_context VALUES(CAST(x'ff' AS TEXT), NULL); COMMIT;
            """)
        #expect(
            try recorded(fixture) == [
                Recorded(context: "no author: the name is not valid UTF-8", changes: ["t ∅ → (1, 1)", "t ∅ → (2, 2)"])
            ])
    }

    @Test func `writers between whom a trigger hid a write become one transaction`() throws {
        let store = try HistoryFile(
            """
            CREATE TABLE doc(id INTEGER PRIMARY KEY, title TEXT, modified TEXT);
            CREATE TRIGGER touch BEFORE UPDATE ON doc BEGIN UPDATE doc SET modified = 'now' WHERE id = OLD.id; END;
            INSERT INTO doc VALUES(1, 'A', 'then'), (2, 'B', 'then');
            """)
        try store.track()
        try store.outside("BEGIN; \(name("ann")) UPDATE doc SET title = 'A', modified = 'then' WHERE id = 1; \(end) COMMIT")
        try store.outside("BEGIN; \(name("bob")) UPDATE doc SET title = 'Z', modified = 'then' WHERE id = 1; \(end) COMMIT")
        try store.recordExternalChanges()
        try store.outside("BEGIN; \(name("eve")) UPDATE doc SET title = 'Y' WHERE id = 2; \(end) COMMIT")
        try store.recordExternalChanges()
        #expect(try store.findings() == [])
        #expect(try store.transactions().map(\.author) == [nil, "eve"])
    }

    // MARK: Random histories

    static let seeds = Seeds.givenOrNew(12)

    /// What one part of history must be.
    private struct Expected {
        var author: String?
        var rows: [String: Rows]
    }

    @Test(arguments: seeds)
    func `what each of several writers committed is what history has`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let own = RandomCaptureTests.triggers.randomElement(using: &generator) ?? ""
        let fixture = try Fixture(RandomCaptureTests.schema + own)
        try fixture.track(seed % 2 == 0 ? .leavingOutAll : .system)
        let programs = try (0..<3).map { _ in try BareConnection(fixture.file.path) }
        for program in programs {
            try program.run(
                "PRAGMA foreign_keys = \(Bool.random(using: &generator)); PRAGMA recursive_triggers = \(Bool.random(using: &generator))")
        }
        var number: Int64 = 0
        var rows = try fixture.rows()
        for round in 0..<12 {
            var expected = [Expected(rows: rows)]
            var log: [String] = []
            for _ in 0..<Int.random(in: 1...7, using: &generator) {
                let writer = Int.random(in: 0..<3, using: &generator)
                let author = Int.random(in: 0..<3, using: &generator) > 0 ? "writer \(writer)" : nil
                let ends = Int.random(in: 0..<8, using: &generator) > 0
                var statements = (0..<Int.random(in: 1...6, using: &generator)).map { _ in
                    RandomCaptureTests.Statement.random(&generator)
                }
                statements.removeAll { ["BEGIN", "COMMIT", "ROLLBACK"].contains($0) || $0.contains("OR ROLLBACK") }
                if let author { statements = [name(author)] + statements + (ends ? [end] : []) }
                let commits = Int.random(in: 0..<6, using: &generator) > 0
                log += ["[\(writer)] BEGIN"] + statements + [commits ? "COMMIT" : "ROLLBACK"]
                try programs[writer].run("BEGIN")
                // Statements may violate constraints.
                for statement in statements { try? programs[writer].run(statement) }
                do {
                    try programs[writer].run(commits ? "COMMIT" : "ROLLBACK")
                } catch {
                    // A deferred foreign key forbids it.
                    try programs[writer].run("ROLLBACK")
                }
                expected.append(Expected(author: ends ? author : nil, rows: try fixture.rows()))
            }
            rows = try fixture.rows()
            try fixture.recordExternal()
            var found = [expected[0]]
            var contexts: [String] = []
            for (transaction, changes) in try fixture.changes(after: number) {
                let author = try fixture.queue.read { db in
                    try String.fetchOne(db, sql: "SELECT author FROM annals_transactions WHERE number = ?", arguments: [transaction])
                }
                let context = "SELECT context FROM annals_transactions WHERE number = ?"
                contexts += try fixture.queue.read { db in
                    try String.fetchAll(db, sql: "\(context) AND context NOT NULL", arguments: [transaction])
                }
                found.append(Expected(author: author, rows: found[found.count - 1].rows.applying(changes)))
                number = transaction
            }
            let (wanted, have) = (Self.essence(expected), Self.essence(found))
            #expect(
                wanted.map(\.author) == have.map(\.author) && wanted.map(\.rows) == have.map(\.rows),
                "ANNALS_SEED=\(seed), round \(round): \(log.joined(separator: "; ")) \(wanted.map(\.author)) \(have.map(\.author)) \(contexts) \(own)"
            )
            if wanted.map(\.rows) != have.map(\.rows) { return }
        }
    }

    /// Without parts that changed nothing, and with adjacent parts without an author as one.
    private static func essence(_ parts: [Expected]) -> [Expected] {
        var result: [Expected] = []
        for part in parts {
            guard part.rows != result.last?.rows else { continue }
            if let last = result.last, result.count > 1, last.author == nil, part.author == nil { result.removeLast() }
            if part.rows != result.last?.rows { result.append(part) }
        }
        return result
    }
}
