import AnnalsCore
import Foundation
import GRDB
import SeededRandom
import Testing

@testable import AnnalsHistory
@testable import AnnalsRows
@testable import AnnalsSQLite
@testable import AnnalsStore

extension HistoryFile {
    @discardableResult
    func managed(_ sql: String) throws -> Int64? { try managed(nil, nil, sql) }

    @discardableResult
    func managed(_ author: String, _ sql: String) throws -> Int64? { try managed(author, nil, sql) }

    func differences(_ from: Int64, _ to: Int64, only filter: DifferenceFilter = DifferenceFilter()) throws -> [HistoryChange] {
        var found: [HistoryChange] = []
        try queue.writeWithoutTransaction { db in
            let difference = Difference(db: db, environment: environment)
            let count = try difference.forEachChange(from: HistoryPoint(token(from, db)), to: HistoryPoint(token(to, db)), only: filter) {
                found.append($0)
            }
            #expect(count.total == found.count)
        }
        return found
    }

    func differenceSQL(_ from: Int64, _ to: Int64, only filter: DifferenceFilter = DifferenceFilter()) throws -> String {
        var sql = ""
        try queue.writeWithoutTransaction { db in
            let difference = Difference(db: db, environment: environment)
            _ = try difference.writeSQL(from: HistoryPoint(token(from, db)), to: HistoryPoint(token(to, db)), only: filter) { sql += $0 }
        }
        return sql
    }

    private func token(_ number: Int64, _ db: Database) throws -> HistoryToken {
        HistoryToken(number: number, store: try HistoryBounds(db).storeID)
    }
}

/// A change as one line.
func brief(_ change: HistoryChange) -> String {
    let columns = change.columns.map { "\($0.name) \($0.old?.brief ?? "∅")→\($0.new?.brief ?? "∅")" }
    return "\(change.kind.rawValue) \(change.table)(\(change.key.map(\.brief).joined(separator: ","))) \(columns.joined(separator: " "))"
}

@Suite("The difference between two points of history")
struct DifferenceTests {
    @Test func `is net, and in both directions`() throws {
        let store = try HistoryFile(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); INSERT INTO t VALUES(1, 'x', 1), (2, 'y', 2), (3, 'z', 3);")
        try store.track()
        try store.managed("UPDATE t SET a = 'xx' WHERE id = 1; DELETE FROM t WHERE id = 2")
        try store.managed("UPDATE t SET a = 'x', b = 10 WHERE id = 1; INSERT INTO t VALUES(4, 'n', NULL)")
        try store.managed("INSERT INTO t VALUES(2, 'y', 2); UPDATE t SET a = 'q' WHERE id = 3; UPDATE t SET a = 'z' WHERE id = 3")
        #expect(try store.differences(0, 3).map(brief) == ["update t(1) b 1→10", "insert t(4) id ∅→4 a ∅→'n' b ∅→NULL"])
        #expect(try store.differences(3, 0).map(brief) == ["update t(1) b 10→1", "delete t(4) id 4→∅ a 'n'→∅ b NULL→∅"])
        #expect(try store.differences(1, 2).map(brief) == ["update t(1) a 'xx'→'x' b 1→10", "insert t(4) id ∅→4 a ∅→'n' b ∅→NULL"])
        #expect(try store.differences(2, 2).isEmpty)
        #expect(try store.differenceSQL(2, 2) == "")
    }

    @Test func `a row that was changed and then deleted is deleted, and one that came and went is not told`() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES(1, 'x');")
        try store.track()
        try store.managed("UPDATE t SET a = 'y'; INSERT INTO t VALUES(2, 'z')")
        try store.managed("DELETE FROM t")
        #expect(try store.differences(0, 2).map(brief) == ["delete t(1) id 1→∅ a 'x'→∅"])
        #expect(try store.differences(2, 0).map(brief) == ["insert t(1) id ∅→1 a ∅→'x'"])
    }

    @Test func `keys that were swapped within a transaction differ by their rows`() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES(1, 'one'), (2, 'two');")
        try store.track()
        try store.managed("UPDATE t SET id = 9 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2; UPDATE t SET id = 2 WHERE id = 9")
        try store.managed("INSERT INTO t VALUES(3, 'three'); UPDATE t SET id = 4 WHERE id = 3")
        #expect(try store.differences(0, 1).map(brief) == ["update t(1) a 'one'→'two'", "update t(2) a 'two'→'one'"])
        #expect(try store.differences(0, 2).map(brief).last == "insert t(4) id ∅→4 a ∅→'three'")
        try store.managed("UPDATE t SET id = 9 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2; UPDATE t SET id = 2 WHERE id = 9")
        #expect(try store.differences(0, 3).map(brief) == ["insert t(4) id ∅→4 a ∅→'three'"])
    }

    @Test func `parents' tables come first, and columns have the names of now`() throws {
        let store = try HistoryFile(
            "CREATE TABLE line(id INTEGER PRIMARY KEY, item REFERENCES item(id)); CREATE TABLE item(id INTEGER PRIMARY KEY, a);")
        try store.track()
        try store.managed("INSERT INTO item VALUES(1, 'x'); INSERT INTO line VALUES(1, 1)")
        try store.external("ALTER TABLE item RENAME COLUMN a TO label; ALTER TABLE item ADD COLUMN size INT DEFAULT 7;")
        try store.managed("UPDATE item SET label = 'y'")
        let oldest = try store.bounds().oldest.number
        let latest = try store.bounds().latest.number
        let found = try store.differences(oldest, latest).map(brief)
        #expect(found == ["insert item(1) id ∅→1 label ∅→'y' size ∅→7", "insert line(1) id ∅→1 item ∅→1"])
    }

    @Test func `a token that history does not reach is refused`() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a);")
        try store.track()
        try store.managed("INSERT INTO t VALUES(1, 1)")
        #expect { try store.differences(0, 7) } throws: { ($0 as? AnnalsError)?.code == .tokenUnknown }
        try store.queue.write { db in try db.execute(sql: "UPDATE annals_tables SET gap = 1") }
        #expect { try store.differences(0, 1) } throws: { ($0 as? AnnalsError)?.code == .tokenExpired }
    }

    @Test func `nothing of it is left behind, and foreign keys are as they were`() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a);")
        try store.track()
        try store.managed("INSERT INTO t VALUES(1, 1)")
        struct Enough: Error {}
        #expect(throws: Enough.self) {
            try store.queue.writeWithoutTransaction { db in
                let token = try HistoryBounds(db)
                _ = try Difference(db: db, environment: store.environment)
                    .forEachChange(from: HistoryPoint(token.oldest), to: HistoryPoint(token.latest)) { _ in throw Enough() }
            }
        }
        let databases = try store.queue.writeWithoutTransaction { try String.fetchAll($0, sql: "SELECT name FROM pragma_database_list") }
        #expect(!databases.contains(SchemaCopy.target))
        #expect(try store.queue.writeWithoutTransaction { try Bool.fetchOne($0, sql: "PRAGMA foreign_keys") } == true)
        #expect(try store.differences(0, 1).count == 1)
    }
}

@Suite("The difference as SQL, run by the sqlite3 shell")
struct DifferenceSQLTests {
    /// Replays to one point, runs the difference there, and expects the rows of the other point.
    private func expectTurns(
        _ store: HistoryFile, _ from: Int64, _ to: Int64, foreignKeys: Bool = false, into rows: RowDump, _ note: String = ""
    ) throws {
        let sql = try store.differenceSQL(from, to)
        try store.replay(to: store.token(from))
        try SQLiteShell.run(store.path("replayed.db"), "PRAGMA foreign_keys = \(foreignKeys ? "ON" : "OFF");\n" + sql)
        let turned = try RowDump(path: store.path("replayed.db"))
        #expect(turned == rows, "\(note) \(from) to \(to): \(turned.difference(from: rows))\n\(sql)")
    }

    @Test("Random statements on a random schema, between any two tokens", arguments: Seeds.given ?? Array(1...10))
    func random(seed: UInt64) throws {
        var random = RandomStore(seed: seed)
        let store = try HistoryFile(random.schema, leavesOutAll: seed % 2 == 1)
        let other = try DatabaseQueue(path: store.file.path, configuration: Self.defaults)
        func write() throws {
            for statement in random.statements() { _ = try? other.writeWithoutTransaction { try $0.execute(sql: statement) } }
        }
        for _ in 0..<3 { try write() }
        try store.track()
        var copies: [Int64: RowDump] = [0: try store.rows()]
        for _ in 0..<16 {
            for _ in 0..<3 { try write() }
            try store.recordExternalChanges()
            copies[try store.bounds().latest.number] = try store.rows()
        }
        try other.close()
        let numbers = copies.keys.sorted()
        for _ in 0..<6 {
            let (from, to) = (random.random.one(of: numbers), random.random.one(of: numbers))
            try expectTurns(store, from, to, foreignKeys: random.random.chance(50), into: try #require(copies[to]), "seed \(seed)")
        }
    }

    private static var defaults: Configuration {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        return configuration
    }

    @Test func `unique values that went round, with foreign keys on that would cascade`() throws {
        let store = try HistoryFile(
            """
            CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE ON CONFLICT REPLACE, g AS (name || '!') UNIQUE);
            CREATE TABLE line(id INTEGER PRIMARY KEY, item TEXT NOT NULL REFERENCES item(name) ON DELETE CASCADE ON UPDATE CASCADE);
            INSERT INTO item(id, name) VALUES(1, 'a'), (2, 'b'), (3, 'c'); INSERT INTO line VALUES(1, 'a'), (2, 'b'), (3, 'c');
            """)
        try store.track()
        let before = try store.rows()
        try store.external("UPDATE item SET name = 'x' WHERE id = 1; UPDATE item SET name = 'a' WHERE id = 2;")
        try store.external(
            "UPDATE item SET name = 'b' WHERE id = 3; UPDATE item SET name = 'c' WHERE id = 1; DELETE FROM line WHERE id = 2;")
        let after = try store.rows()
        for isOn in [false, true] {
            try expectTurns(store, 0, 2, foreignKeys: isOn, into: after)
            try expectTurns(store, 2, 0, foreignKeys: isOn, into: before)
        }
    }

    @Test("Values that text does not hold easily", arguments: ["UTF-8", "UTF-16le", "UTF-16be"])
    func values(encoding: String) throws {
        let store = try HistoryFile("PRAGMA encoding = '\(encoding)'; CREATE TABLE t(k PRIMARY KEY, v) WITHOUT ROWID;")
        try store.track()
        let before = try store.rows()
        var generator = SeededGenerator(seed: 7)
        let any = (0..<1_000).map { _ in Double(bitPattern: UInt64.random(in: 0 ... .max, using: &generator)) }.filter(\.isFinite)
        let reals =
            [
                0.1, 1.0 / 3, .leastNonzeroMagnitude, .leastNormalMagnitude, .greatestFiniteMagnitude,
                -Double.leastNormalMagnitude.nextDown,
                9_007_199_254_740_992, 1e22, 1e23, 123_456_789_012_345_680, -.infinity, .infinity, .pi * 1e-300, 8.41e21, 2.0e-9,
            ] + any
        let texts = ["'a' || char(0) || 'b'", "'it''s'", "'line' || char(13, 10) || '.quit'", "char(10) || ';'", "'ß𝄞'", "'-- no'", "''"]
        let others = ["9223372036854775807", "-9223372036854775807 - 1", "x''", "x'00ff'", "NULL"]
        let invalid = encoding == "UTF-8" ? ["CAST(x'ff41' AS TEXT)", "CAST(x'e282' AS TEXT)"] : []
        try store.queue.write { db in
            _ = try TransactionRecorder.managedWrite(db, store.environment) { db in
                for (number, real) in reals.enumerated() {
                    try db.execute(sql: "INSERT INTO t VALUES('r' || ?, ?), (?, 1)", arguments: [number, real, real])
                }
                for (number, text) in (texts + others + invalid).enumerated() {
                    try db.execute(sql: "INSERT INTO t VALUES('t\(number)', \(text))")
                    if text != "NULL" { try db.execute(sql: "INSERT INTO t VALUES(\(text), 2)") }
                }
            }
        }
        let after = try store.rows()
        try expectTurns(store, 0, 1, into: after)
        try expectTurns(store, 1, 0, into: before)
        // Compared bit by bit, because a dump does not show all bits of a real.
        try store.replay(to: store.token(0))
        try SQLiteShell.run(store.path("replayed.db"), store.differenceSQL(0, 1))
        let copy = try DatabaseQueue(path: store.path("replayed.db"))
        let stored = try copy.read { try Double.fetchAll($0, sql: "SELECT v FROM t WHERE typeof(k) = 'text' AND k GLOB 'r*'") }
        #expect(Set(stored.map(\.bitPattern)) == Set(reals.map(\.bitPattern)))
    }

    @Test func `a trigger that writes tracked tables stays silent, one that keeps an index runs`() throws {
        let store = try HistoryFile(
            """
            CREATE TABLE item(id INTEGER PRIMARY KEY, name); CREATE TABLE twice(id INTEGER PRIMARY KEY, name);
            CREATE TABLE words(id INTEGER PRIMARY KEY, word);
            CREATE TRIGGER copies AFTER INSERT ON item BEGIN INSERT INTO twice VALUES(NEW.id, NEW.name); END;
            CREATE TRIGGER keeps AFTER INSERT ON item BEGIN INSERT INTO words VALUES(NEW.id, NEW.name); END -- with a comment
            ;
            """)
        try store.track("item", "twice")
        try store.external("INSERT INTO item VALUES(1, 'a');")
        try expectTurns(store, 0, 1, into: store.rows())
        let schema = "SELECT name || sql FROM sqlite_master WHERE type = 'trigger' AND name NOT GLOB 'annals*' ORDER BY name;"
        #expect(try SQLiteShell.run(store.path("replayed.db"), schema) == store.file.shell(schema))
    }
}

/// The `sqlite3` shell on any file.
enum SQLiteShell {
    @discardableResult
    static func run(_ path: String, _ sql: String) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["sqlite3", "-batch", "-bail", path]
        let (input, output, errors) = (Pipe(), Pipe(), Pipe())
        (process.standardInput, process.standardOutput, process.standardError) = (input, output, errors)
        try process.run()
        let writing = Thread {
            input.fileHandleForWriting.write(Data(sql.utf8))
            try? input.fileHandleForWriting.close()
        }
        writing.start()
        let printed = output.fileHandleForReading.readDataToEndOfFile()
        let complaint = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Complaint(text: "\(complaint)\n\(sql)") }
        return String(decoding: printed, as: UTF8.self)
    }
}
