import AnnalsCore
import Foundation
import GRDB
import SeededRandom
import Testing

@testable import AnnalsHistory
@testable import AnnalsSchema
@testable import AnnalsStore

/// Law 1 if a program's own trigger changes the row that is being changed.
@Suite struct TriggerRewriteCheckTests {
    private static let touch = """
        CREATE TABLE doc(id INTEGER PRIMARY KEY, title TEXT, modified TEXT);
        CREATE TRIGGER touch BEFORE UPDATE ON doc BEGIN UPDATE doc SET modified = 'now' WHERE id = OLD.id; END;
        INSERT INTO doc VALUES(1, 'A', 'then'), (2, 'B', 'then');
        """

    /// The changes of each statement in history. An update that restores the earlier values is no change.
    @Test(
        arguments: [
            ("UPDATE doc SET title = 'A', modified = 'then' WHERE id = 1", []),
            ("UPDATE doc SET title = 'C', modified = 'then' WHERE id = 1", ["title"]),
            ("UPDATE doc SET title = 'A' WHERE id = 1", ["modified"]),
            ("UPDATE doc SET modified = 'then'; UPDATE doc SET title = 'B' WHERE id = 2", ["modified"]),
            ("UPDATE doc SET title = 'C', modified = 'then'; UPDATE doc SET title = 'A', modified = 'then' WHERE id = 1", ["title"]),
            ("UPDATE doc SET modified = 'then'; DELETE FROM doc WHERE id = 2; UPDATE doc SET modified = 'then'", ["title,modified"]),
            ("UPDATE OR REPLACE doc SET id = 2, modified = 'then' WHERE id = 1", nil),
        ] as [(String, [String]?)])
    func `what a trigger wrote and the update wrote back`(sql: String, columns: [String]?) throws {
        let store = try HistoryFile(Self.touch)
        try store.track()
        let before = try store.rows()
        let number = try store.external(sql)
        if let columns { #expect((number == nil) == columns.isEmpty) }
        if let number, let columns {
            #expect(try store.changes(number).map { $0.columns.filter { $0.name != "id" }.map(\.name).joined(separator: ",") } == columns)
        }
        #expect(try store.findings() == [])
        try store.replay(to: store.token(0))
        #expect(try RowDump(path: store.path("replayed.db")) == before)
        try store.external("UPDATE doc SET title = 'later'")
        #expect(try store.findings() == [])
    }

    @Test func `a trigger that is dropped before anybody looks`() throws {
        let store = try HistoryFile(Self.touch)
        try store.track()
        let before = try store.rows()
        try store.external("UPDATE doc SET title = 'A', modified = 'then' WHERE id = 1; DROP TRIGGER touch")
        #expect(try store.findings() == [])
        try store.replay(to: store.token(0))
        #expect(try RowDump(path: store.path("replayed.db")) == before)
    }

    @Test func `a column that is added before anybody looks`() throws {
        let store = try HistoryFile(Self.touch)
        try store.track()
        let before = try store.rows()
        try store.external("UPDATE doc SET title = 'A', modified = 'then' WHERE id = 1; ALTER TABLE doc ADD COLUMN w")
        #expect(try store.findings() == [])
        try store.replay(to: store.token(0))
        #expect(try RowDump(path: store.path("replayed.db")).tables["doc"]?.count == before.tables["doc"]?.count)
    }

    @Test func `a key whose index compares otherwise than its column`() throws {
        let store = try HistoryFile(
            """
            CREATE TABLE t(a TEXT NOT NULL, b, PRIMARY KEY(a COLLATE NOCASE));
            CREATE TRIGGER own BEFORE UPDATE ON t BEGIN UPDATE t SET b = 0 WHERE a = OLD.a; END
            """)
        try store.track()
        #expect(try store.external("INSERT INTO t VALUES('Ab', 1)") != nil)
        #expect(try store.findings() == [])
    }

    @Test func `more changes than are held in memory at once`() throws {
        let store = try HistoryFile(
            """
            CREATE TABLE t(id INTEGER PRIMARY KEY, a, b);
            CREATE TRIGGER own BEFORE UPDATE ON t BEGIN UPDATE t SET b = coalesce(b, 0) + 1 WHERE id = OLD.id; END;
            INSERT INTO t SELECT value, 0, 0 FROM json_each('[1, 2, 3, 4, 5, 6, 7, 8, 9]');
            """)
        try store.track()
        try store.outside("UPDATE t SET a = a, b = 0; UPDATE t SET id = id + 100 WHERE id < 3; DELETE FROM t WHERE id = 4")
        let written = try [Int64(1_000), 7, 1].map { atOnce -> Set<[[Value]?]> in
            var changes: Set<[[Value]?]> = []
            try store.queue.writeWithoutTransaction { db in
                try db.inTransaction {
                    let open = try #require(try UnrecordedRange.fetchAll(db).first)
                    var missed = MissedChanges()
                    let last = try #require(try TriggerRewriteCheck(db, open.id)).follow(
                        recorded: open.recorded, newest: open.newest, atOnce: atOnce, &missed)
                    let table = try #require(try TrackedTable.fetch(db, id: open.id))
                    if last > open.newest {
                        try RawChangeReader(db, table).read((open.newest + 1)...last) { changes.insert([$0.old, $0.new]) }
                    }
                    return .rollback
                }
            }
            return changes
        }
        #expect(!written[0].isEmpty && written.allSatisfy { $0 == written[0] }, "\(written.map(\.count))")
        try store.recordExternalChanges()
        #expect(try store.findings() == [])
    }

    @Test func `numbers only, and a trigger that came after tracking`() throws {
        let store = try HistoryFile("CREATE TABLE n(id INTEGER PRIMARY KEY, a INT, b INT); INSERT INTO n VALUES(1, 1, 1)")
        try store.track()
        let before = try store.rows()
        try store.external("CREATE TRIGGER t BEFORE UPDATE OF a ON n BEGIN UPDATE n SET b = b + 1 WHERE id = OLD.id; END")
        try store.external("UPDATE n SET a = 1, b = 1")
        try store.external("UPDATE n SET a = 2, b = 1; UPDATE n SET a = 1, b = 1")
        #expect(try store.findings() == [])
        try store.replay(to: store.token(0))
        #expect(try RowDump(path: store.path("replayed.db")) == before)
    }

    /// `ANNALS_SEED=n swift test --filter TriggerRewriteCheckTests` replays one seed.
    @Test("Law 8 with triggers that write their own table", arguments: Seeds.given ?? Array(1...12))
    func random(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let columns = ["a", "b", "c"]
        let schema = random.one(of: ["id INTEGER PRIMARY KEY", "id TEXT PRIMARY KEY NOT NULL", "id INT NOT NULL PRIMARY KEY"])
        func value() -> String { random.one(of: ["NULL", "1", "2", "'x'", "'a text that is longer'", "x'00'"]) }
        var statements = ["CREATE TABLE t(\(schema), a, b UNIQUE, c)\(random.chance(30) ? " WITHOUT ROWID" : "")"]
        for number in 0..<Int.random(in: 1...3, using: &random) {
            let event = random.one(of: ["BEFORE", "AFTER"]) + " " + random.one(of: ["UPDATE", "UPDATE OF a", "INSERT", "DELETE"])
            let body = random.one(of: [
                "UPDATE t SET c = \(value())", "UPDATE OR IGNORE t SET b = \(value()) WHERE id = 2",
                "UPDATE t SET \(random.one(of: columns.filter { $0 != "b" })) = \(value()) WHERE id >= 2",
            ])
            statements.append("CREATE TRIGGER own\(number) \(event) ON t BEGIN \(body); END")
        }
        let store = try HistoryFile(statements.joined(separator: ";\n"), leavesOutAll: seed % 2 == 1)
        try store.track()
        var copies: [Int64: RowDump] = [0: try store.rows()]
        for _ in 0..<25 {
            let id = random.one(of: ["1", "2", "3"])
            let sql = random.one(of: [
                "INSERT OR REPLACE INTO t VALUES(\(id), \(value()), \(value()), \(value()))",
                "UPDATE OR REPLACE t SET a = \(value()), b = \(value()), c = \(value()) WHERE id <= \(id)",
                "UPDATE OR IGNORE t SET a = a, b = b, c = c", "UPDATE OR REPLACE t SET id = \(id) WHERE id = 1",
                "DELETE FROM t WHERE id = \(id)",
                "UPDATE t SET a = a WHERE id = \(id)",
            ])
            try? store.outside(sql)
            if random.chance(60), try store.recordExternalChanges() != nil { copies[try store.bounds().latest.number] = try store.rows() }
        }
        if try store.recordExternalChanges() != nil { copies[try store.bounds().latest.number] = try store.rows() }
        #expect(try store.findings() == [], "seed \(seed)")
        for (number, copy) in copies {
            try store.replay(to: store.token(number))
            let replayed = try RowDump(path: store.path("replayed.db"))
            #expect(replayed == copy, "seed \(seed), token \(number): \(replayed.difference(from: copy))")
        }
    }
}
