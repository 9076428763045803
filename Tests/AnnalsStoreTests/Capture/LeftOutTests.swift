import AnnalsCore
import AnnalsMerge
import GRDB
import SeededRandom
import Testing

@testable import AnnalsHistory
@testable import AnnalsSQLite
@testable import AnnalsSchema
@testable import AnnalsStore

/// History leaves out large values that an update does not change, and nothing is lost.
@Suite struct LeftOutTests {
    private static let schema = """
        CREATE TABLE doc(id INTEGER PRIMARY KEY, name TEXT UNIQUE, body, note TEXT, n INTEGER);
        INSERT INTO doc VALUES(1, 'one', zeroblob(100000), 'a', 0), (2, 'two', hex(zeroblob(50000)), 'b', 0), (3, 'three', 'short', 'c', 0);
        """

    private func file(_ schema: String = Self.schema) throws -> HistoryFile {
        let file = try HistoryFile(schema)
        try file.track()
        return file
    }

    /// The number of bytes of old and new values in the raw changes after one.
    private func bytes(_ file: HistoryFile, after id: Int = 0) throws -> Int {
        try file.queue.read { db in
            let columns = (0..<5).flatMap { ["o\($0)", "n\($0)"] }.map { "coalesce(length(\($0)), 0)" }.joined(separator: " + ")
            return try Int.fetchOne(db, sql: "SELECT coalesce(sum(\(columns)), 0) FROM annals_changes_1 WHERE id > ?", arguments: [id]) ?? 0
        }
    }

    @Test func `F10: a large value that an update leaves as it was is not stored again`() throws {
        let file = try file()
        for number in 1...20 { try file.managed("UPDATE doc SET n = \(number), note = 'note \(number)'") }
        #expect(try bytes(file) < 20 * 3 * 60)
        // A changed value is stored before and after. Short values are always stored.
        try file.managed("UPDATE doc SET body = zeroblob(90000) WHERE id = 1")
        #expect(try 190_000..<190_100 ~= bytes(file, after: 60))
        let changes = try file.changes(20)
        #expect(changes.count == 3 && changes.allSatisfy { $0.columns.map(\.name) == ["note", "n"] })
        #expect(try file.findings() == [])
    }

    @Test func `law 8: every token is reached, by whatever became of the value later`() throws {
        let file = try file()
        var rows: [Int64: RowDump] = [0: try file.rows()]
        for sql in [
            "UPDATE doc SET n = 1", "UPDATE doc SET body = 'new' WHERE id = 1", "UPDATE doc SET n = 2", "DELETE FROM doc WHERE id = 2",
            "UPDATE doc SET name = 'first', n = 3 WHERE id = 1", "INSERT INTO doc VALUES(2, 'two', zeroblob(5000), 'x', 0)",
            "UPDATE doc SET id = id + 10, note = 'moved'",
            "UPDATE doc SET n = 4; UPDATE doc SET body = zeroblob(7000); UPDATE doc SET n = 5",
            "UPDATE doc SET n = 6; DELETE FROM doc WHERE id = 12",
            "UPDATE doc SET n = 7; REPLACE INTO doc VALUES(30, 'first', 'taken', '', 0)",
        ] {
            let number = try #require(try file.external(sql))
            rows[number] = try file.rows()
        }
        for (number, expected) in rows {
            try file.replay(to: file.token(number))
            #expect(try RowDump(path: file.path("replayed.db")) == expected, "token \(number)")
            for (other, there) in rows {
                let sql = try file.differenceSQL(number, other)
                try file.replay(to: file.token(number))
                try SQLiteShell.run(file.path("replayed.db"), sql)
                #expect(try RowDump(path: file.path("replayed.db")) == there, "from \(number) to \(other)")
            }
        }
        #expect(try file.findings() == [])
    }

    @Test func `rows that exchange a unique value, and keep a large one, do so in the difference's script`() throws {
        let file = try file()
        let number = try #require(
            try file.external(
                "UPDATE doc SET name = 'x', n = 1 WHERE id = 1; UPDATE doc SET name = 'one', n = 1 WHERE id = 2; UPDATE doc SET name = 'two' WHERE id = 1"
            ))
        let after = try file.rows()
        let sql = try file.differenceSQL(0, number)
        #expect(sql.utf8.count < 3_000)
        try file.replay(to: file.token(0))
        try SQLiteShell.run(file.path("replayed.db"), sql)
        #expect(try RowDump(path: file.path("replayed.db")) == after)
    }

    @Test func `a table that got a unique constraint later is replayed to before it`() throws {
        let file = try file(
            "CREATE TABLE doc(id INTEGER PRIMARY KEY, name TEXT, body); INSERT INTO doc VALUES(1, 'a', zeroblob(5000)), (2, 'b', zeroblob(6000))"
        )
        let before = try file.rows()
        try file.external(
            "UPDATE doc SET name = 'c' WHERE id = 1; UPDATE doc SET name = 'a' WHERE id = 2; UPDATE doc SET name = 'b' WHERE id = 1")
        try file.outside("CREATE UNIQUE INDEX doc_name ON doc(name)")
        try file.managed("UPDATE doc SET name = 'd' WHERE id = 1")
        try file.replay(to: file.token(0))
        #expect(try RowDump(path: file.path("replayed.db")) == before)
        #expect(try file.findings() == [])
    }

    @Test func `where a program's own triggers write the table, updates hold all values`() throws {
        let file = try file()
        try file.managed("UPDATE doc SET n = 1")
        // A trigger that writes only another table changes nothing.
        try file.outside("CREATE TABLE log(t); CREATE TRIGGER logs AFTER UPDATE ON doc BEGIN INSERT INTO log VALUES(NEW.note); END")
        try file.managed("UPDATE doc SET n = 2")
        #expect(try bytes(file) < 1_000)
        try file.outside("DROP TRIGGER logs; DROP TABLE log")
        try file.outside("CREATE TRIGGER stamps AFTER UPDATE OF note ON doc BEGIN UPDATE \"DOC\" SET n = n + 1 WHERE id = NEW.id; END")
        let token = try file.bounds().latest
        try file.managed("UPDATE doc SET note = 'noted'")
        #expect(try bytes(file, after: 6) > 200_000)
        // Nothing was written between the creation of the trigger and the next check, so older tokens stay valid.
        let rows = try file.rows()
        try file.replay(to: token)
        try file.replay(to: file.bounds().latest)
        #expect(try RowDump(path: file.path("replayed.db")) == rows)
        try file.outside("DROP TRIGGER stamps")
        try file.managed("UPDATE doc SET n = 9")
        #expect(try bytes(file, after: 12) < 1_000)
        #expect(try file.findings() == [])
    }

    @Test(arguments: ["do\"c", "Straße", "it's", "a]b"])
    func `a trigger that writes a table is found however the name is spelled`(name: String) throws {
        let table = SQL.quote(name)
        let file = try file(
            "CREATE TABLE \(table)(id INTEGER PRIMARY KEY, a, b, body, n); INSERT INTO \(table) VALUES(1, '', '', zeroblob(5000), 1)")
        try file.managed("UPDATE \(table) SET n = 2")
        #expect(try bytes(file) < 100)
        try file.outside("CREATE TRIGGER stamps AFTER UPDATE OF a ON \(table) BEGIN UPDATE \(table) SET n = 3; END")
        try file.recordExternalChanges()
        try file.managed("UPDATE \(table) SET n = 4")
        #expect(try bytes(file, after: 1) > 5_000)
    }

    @Test func `what was left out before a program's trigger was known makes history begin anew`() throws {
        let file = try file()
        let token = try file.token(try #require(try file.managed("UPDATE doc SET n = 1")))
        try file.outside(
            """
            CREATE TRIGGER stamps BEFORE UPDATE OF note ON doc BEGIN UPDATE doc SET n = n + 1 WHERE id = NEW.id; END;
            UPDATE doc SET note = 'noted'
            """)
        try file.recordExternalChanges()
        #expect { try file.replay(to: token) } throws: { ($0 as? AnnalsError)?.code == .tokenExpired }
        try file.replay(to: file.bounds().latest)
        #expect(try RowDump(path: file.path("replayed.db")) == file.rows())
    }

    @Test func `rows without a key, and rows that get another key, are held whole`() throws {
        let file = try file(
            "CREATE TABLE doc(id TEXT PRIMARY KEY, body, n, a, b); INSERT INTO doc VALUES(NULL, zeroblob(5000), 1, '', ''), ('k', zeroblob(5000), 1, '', '')"
        )
        let before = try file.rows()
        try file.external("UPDATE doc SET n = 2 WHERE id IS NULL")
        #expect(try bytes(file) > 5_000)
        try file.external("UPDATE doc SET n = 3 WHERE id = 'k'")
        #expect(try bytes(file, after: 1) < 100)
        try file.external("UPDATE doc SET id = 'l' WHERE id = 'k'")
        #expect(try bytes(file, after: 2) > 5_000)
        try file.replay(to: file.token(0))
        #expect(try RowDump(path: file.path("replayed.db")) == before)
    }

    @Test func `a text column that gets its first long value is compared from then on`() throws {
        let file = try file(
            "CREATE TABLE doc(id INTEGER PRIMARY KEY, name TEXT, body TEXT, n INTEGER); INSERT INTO doc VALUES(1, 'short', '', 0)")
        let trigger = "SELECT sql FROM sqlite_master WHERE name = 'annals_1_update'"
        func text() throws -> String { try file.queue.read { try String.fetchOne($0, sql: trigger) } ?? "" }
        #expect(try !text().contains("CASE"))
        try file.managed("UPDATE doc SET n = 1")
        func stored(_ id: Int64) throws -> [DatabaseValue] {
            let sql = "SELECT n1, n2 FROM annals_changes_1 WHERE id = ?"
            return try file.queue.read { try Row.fetchOne($0, sql: sql, arguments: [id]).map { Array($0.databaseValues) } ?? [] }
        }
        #expect(try stored(1) == ["short".databaseValue, "".databaseValue])
        try file.external("UPDATE doc SET body = 'nine char'")
        #expect(try text().contains("CASE WHEN OLD.\"body\"") && !text().contains("CASE WHEN OLD.\"name\""))
        try file.managed("UPDATE doc SET n = 2")
        #expect(try stored(3) == ["short".databaseValue, 1.databaseValue])
        for number in 1...3 { #expect(try file.changes(Int64(number)).map { $0.columns.map(\.name) } == [[number == 2 ? "body" : "n"]]) }
        #expect(try file.findings() == [])
    }

    @Test func `a text column that gets its first large value is noticed when the change is recorded`() throws {
        let file = try file(
            "CREATE TABLE doc(id INTEGER PRIMARY KEY, name TEXT, body TEXT, n INTEGER, x); INSERT INTO doc VALUES(1, 'a', '', 0, 0)")
        try file.managed("UPDATE doc SET n = 1")
        try file.external("UPDATE doc SET body = hex(zeroblob(50000))")
        try file.managed("UPDATE doc SET n = 2")
        #expect(try bytes(file, after: 2) < 100)
        let change = try #require(try file.changes(3).first)
        #expect(change.columns.map(\.name) == ["n"])
        let trigger = "SELECT sql FROM sqlite_master WHERE name = 'annals_1_update'"
        let text = try file.queue.read { try String.fetchOne($0, sql: trigger) } ?? ""
        #expect(text.contains("length(OLD.\"body\")") && !text.contains("length(OLD.\"name\")"))
        #expect(try file.findings() == [])
    }

    @Test func `a first large value among commits of one row is noticed too`() throws {
        let file = try file(
            "CREATE TABLE doc(id INTEGER PRIMARY KEY, name TEXT, body TEXT, n INTEGER, x); INSERT INTO doc VALUES(1, 'a', '', 0, 0)")
        for number in 1...40 { try file.managed("UPDATE doc SET n = \(number)") }
        try file.external("UPDATE doc SET body = hex(zeroblob(5000))")
        for number in 1...16 { try file.managed("UPDATE doc SET n = -\(number)") }
        try file.managed("UPDATE doc SET n = 0")
        #expect(try bytes(file, after: 57) < 100)
        #expect(try file.findings() == [])
    }

    @Test func `values that mean an unchanged value in a raw change are told apart from the same values in rows`() throws {
        let file = try file(
            """
            CREATE TABLE doc(id INTEGER PRIMARY KEY, t TEXT, c TEXT COLLATE NOCASE, i INTEGER, r REAL, b, x TEXT);
            INSERT INTO doc(id) VALUES(1); INSERT INTO doc(id, x) VALUES(2, hex(zeroblob(5000)));
            """)
        let values = ["NULL", "1", "2", "'1'", "'a'", "'A'", "''", "x'01'", "1.5", "9223372036854775807", "hex(zeroblob(700))"]
        for column in ["t", "c", "i", "r", "b", "x"] {
            for old in values {
                for new in values {
                    try file.external("UPDATE doc SET t = NULL, c = NULL, i = NULL, r = NULL, b = NULL; UPDATE doc SET \(column) = \(old)")
                    let before = try file.rows()
                    let number = try file.external("UPDATE doc SET \(column) = \(new)")
                    let after = try file.rows()
                    guard let number else {
                        #expect(before == after, "\(column): \(old) to \(new)")
                        continue
                    }
                    let changes = try file.changes(number)
                    let rows = try file.queue.read { db in
                        try Row.fetchAll(db, sql: "SELECT \(column) AS value, ? AS old FROM doc ORDER BY id", arguments: [old])
                    }
                    #expect(changes.count == rows.count, "\(column): \(old) to \(new)")
                    for (change, row) in zip(changes, rows) {
                        #expect(change.columns.map(\.name) == [column], "\(column): \(old) to \(new)")
                        #expect(change.columns.first?.new?.databaseValue == row["value"], "\(column): \(old) to \(new)")
                    }
                }
            }
        }
        #expect(try file.findings() == [])
    }

    @Test func `a tuple of which the large half stayed stands for the whole table`() throws {
        let rules = FootprintRules(
            table: "t", key: .init(columnIndexes: [0], columns: [.init(name: "id", affinity: .integer)]),
            uniques: [.init(columnIndexes: [1, 2], columns: [.init(name: "a", affinity: .text), .init(name: "b", affinity: .text)])],
            references: [
                .init(
                    columnIndexes: [2, 3], parentTable: "p",
                    parentColumns: [.init(name: "x", affinity: .text), .init(name: "y", affinity: .text)])
            ])
        func footprint(_ old: [Value], _ new: [Value], leftOut: [Int]) -> Footprint {
            var builder = FootprintBuilder(transaction: .random())
            builder.add(rules, old: old, new: new, leftOut: leftOut)
            return builder.finish()
        }
        let old: [Value] = [.integer(1), .text("a"), .null, .text("c")]
        let other: [Value] = [.integer(1), .text("a"), .null, .text("d")]
        let unique: [Value] = [.integer(1), .text("z"), .null, .text("c")]
        #expect(footprint(old, other, leftOut: []).groups.allSatisfy { !$0.writesWhole && !$0.readsWhole })
        #expect(footprint(old, other, leftOut: [2]).groups.filter(\.readsWhole).count == 1)
        #expect(footprint(old, other, leftOut: [2]).groups.allSatisfy { !$0.writesWhole })
        #expect(footprint(old, unique, leftOut: [2]).groups.filter(\.writesWhole).count == 1)
        #expect(footprint(old, unique, leftOut: [3]).groups.allSatisfy { !$0.writesWhole && !$0.readsWhole })
    }

    // MARK: Several changes of one row

    private func fold(_ steps: [(old: [Value]?, new: [Value]?, leftOut: [Int])]) -> [NetChange] {
        var folder = NetChangeFolder(IdentityRule(key: [0], collations: ["BINARY"]))
        for (index, step) in steps.enumerated() {
            folder.add(RawChange(id: Int64(index + 1), old: step.old, new: step.new, leftOut: step.leftOut))
        }
        return folder.finish()
    }

    private func row(_ n: Int64, _ body: String?) -> [Value] { [.integer(1), .integer(n), body.map { .text($0) } ?? .null] }

    @Test func `what one change leaves out, another of the transaction tells`() {
        #expect(fold([(row(1, nil), row(2, nil), [2])]) == [NetChange(old: row(1, nil), new: row(2, nil), leftOut: [2])])
        #expect(fold([(row(1, nil), row(2, nil), [2]), (row(2, "a"), row(2, "b"), [])]) == [NetChange(old: row(1, "a"), new: row(2, "b"))])
        #expect(fold([(row(1, "a"), row(1, "b"), []), (row(1, nil), row(2, nil), [2])]) == [NetChange(old: row(1, "a"), new: row(2, "b"))])
        #expect(fold([(row(1, nil), row(2, nil), [2]), (row(2, "a"), nil, [])]) == [NetChange(old: row(1, "a"), new: nil)])
        #expect(fold([(nil, row(1, "a"), []), (row(1, nil), row(2, nil), [2])]) == [NetChange(old: nil, new: row(2, "a"))])
        // The update of a program's trigger was logged before the insert.
        #expect(fold([(row(1, nil), row(2, nil), [2]), (nil, row(1, "a"), [])]) == [NetChange(old: nil, new: row(2, "a"))])
        #expect(fold([(row(1, nil), row(2, nil), [2]), (row(2, nil), row(1, nil), [2])]) == [])
        let moved: [Value] = [.integer(7), .integer(2), .text("a")]
        #expect(fold([(row(1, nil), row(2, nil), [2]), (row(2, "a"), moved, [])]) == [NetChange(old: row(1, "a"), new: moved)])
    }

    /// Compares with a simple model of the rows. All unchanged values are left out.
    @Test(arguments: 0..<80 as Range<UInt64>)
    func `random writes of a transaction come to the difference`(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        func value() -> String { ["a", "b", "c"].randomElement(using: &generator) ?? "" }
        let before: [Value]? = Bool.random(using: &generator) ? row(0, value()) : nil
        var now = before
        var steps: [(old: [Value]?, new: [Value]?, leftOut: [Int])] = []
        for step in 1...Int.random(in: 1...8, using: &generator) {
            guard var old = now else {
                now = row(Int64(step), value())
                steps.append((nil, now, []))
                continue
            }
            if Int.random(in: 0..<5, using: &generator) == 0 {
                steps.append((old, nil, []))
                now = nil
                continue
            }
            var new = old
            new[1] = .integer(Int64(step))
            if Int.random(in: 0..<3, using: &generator) == 0 { new[2] = .text(value()) }
            now = new
            let isLeftOut = old[2] == new[2]
            if isLeftOut { (old[2], new[2]) = (.null, .null) }
            steps.append((old, new, isLeftOut ? [2] : []))
        }
        let folded = fold(steps)
        if before == now {
            #expect(folded.isEmpty, "seed \(seed)")
        } else {
            var expected = NetChange(old: before, new: now)
            if steps.allSatisfy({ $0.leftOut == [2] }) {
                expected.fill(2, .null)
                expected.leftOut = [2]
            }
            #expect(folded == [expected], "seed \(seed)")
        }
    }
}
