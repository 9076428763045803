import AnnalsCore
import AnnalsHistory
import Foundation
import GRDB
import Testing

@testable import AnnalsRows
@testable import AnnalsStore

@Suite("Who wrote each column of a row")
struct BlameTests {
    private func blame(_ store: HistoryFile, _ table: String, _ key: Value...) throws -> Blame {
        try store.recordExternalChanges()
        return try store.queue.read { db in
            var walk = try BlameWalk(db, table: table, key: key)
            return try walk.run()
        }
    }

    private func brief(_ blame: Blame) -> [String] {
        blame.columns.map { column in
            switch column.writer {
            case .transaction(let transaction):
                "\(column.name) \(column.value.brief) #\(transaction.number) \(transaction.author ?? transaction.origin.name)"
            case .beforeHistory: "\(column.name) \(column.value.brief) before history"
            case .columnDefault: "\(column.name) \(column.value.brief) default"
            }
        }
    }

    private func shop() throws -> HistoryFile {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a, b TEXT); INSERT INTO t VALUES(1, 'x', 'y');")
        try store.track()
        return store
    }

    @Test func `each column has the last who wrote it`() throws {
        let store = try shop()
        try store.managed("Ann", "INSERT INTO t VALUES(2, 'n', 'm')")
        try store.managed("Bo", "UPDATE t SET a = 'q'")
        try store.external("UPDATE t SET b = 'mm' WHERE id = 2;")
        try store.managed("Cy", "UPDATE t SET b = b")
        #expect(try brief(blame(store, "t", .integer(2))) == ["id 2 #1 Ann", "a 'q' #2 Bo", "b 'mm' #3 external"])
        #expect(try brief(blame(store, "T", .integer(1))) == ["id 1 before history", "a 'q' #2 Bo", "b 'y' before history"])
    }

    @Test func `a changed key is followed back, also round about`() throws {
        let store = try shop()
        try store.managed("Ann", "INSERT INTO t VALUES(2, 'two', NULL)")
        try store.managed("Bo", "UPDATE t SET id = 9 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2; UPDATE t SET id = 2 WHERE id = 9")
        try store.managed("Cy", "UPDATE t SET id = 7 WHERE id = 1")
        #expect(try brief(blame(store, "t", .integer(7))) == ["id 7 #3 Cy", "a 'two' #1 Ann", "b NULL #1 Ann"])
        #expect(try brief(blame(store, "t", .integer(2))) == ["id 2 #2 Bo", "a 'x' before history", "b 'y' before history"])
        let gone = try blame(store, "t", .integer(1))
        #expect(gone.key == [.integer(1)] && brief(gone) == ["id 1 #2 Bo", "a 'two' #1 Ann", "b NULL #1 Ann"])
        guard case .moved([.integer(7)], let transaction) = gone.end else { throw Complaint(text: "\(String(describing: gone.end))") }
        #expect(transaction.author == "Cy")
    }

    @Test func `a group that changes a row before it deletes it wrote the last values`() throws {
        let store = try shop()
        try store.managed("Ann", "INSERT INTO t VALUES(2, 'n', 'm')")
        try store.external("UPDATE t SET a = 'o' WHERE id = 2; UPDATE t SET a = 'p' WHERE id = 2; DELETE FROM t WHERE id = 2")
        #expect(try brief(blame(store, "t", .integer(2))) == ["id 2 #1 Ann", "a 'p' #2 external", "b 'm' #1 Ann"])
        try store.external("UPDATE t SET b = 'z' WHERE id = 1; UPDATE t SET id = 5 WHERE id = 1; UPDATE t SET b = 'zz' WHERE id = 5")
        #expect(try brief(blame(store, "t", .integer(1))) == ["id 1 before history", "a 'x' before history", "b 'z' #3 external"])
        #expect(try brief(blame(store, "t", .integer(5))) == ["id 5 #3 external", "a 'x' before history", "b 'zz' #3 external"])
    }

    @Test func `of a deleted row it tells who deleted it and the last values`() throws {
        let store = try shop()
        try store.managed("Ann", "UPDATE t SET a = 'last'")
        try store.managed("Bo", "DELETE FROM t")
        let gone = try blame(store, "t", .integer(1))
        #expect(brief(gone) == ["id 1 before history", "a 'last' #1 Ann", "b 'y' before history"])
        guard case .deleted(let transaction) = gone.end else { throw Complaint(text: "\(String(describing: gone.end))") }
        #expect(transaction.author == "Bo")
        // A later row with the same key has nothing of the first row.
        try store.managed("Cy", "INSERT INTO t VALUES(1, 'last', 'y')")
        #expect(try brief(blame(store, "t", .integer(1))) == ["id 1 #3 Cy", "a 'last' #3 Cy", "b 'y' #3 Cy"])
    }

    @Test func `columns have the names of now, and one added has its default`() throws {
        let store = try shop()
        try store.managed("Ann", "INSERT INTO t VALUES(2, 'n', 'm')")
        try store.external(
            "ALTER TABLE t RENAME COLUMN a TO label; ALTER TABLE t ADD COLUMN size DEFAULT 3; ALTER TABLE t ADD COLUMN more;")
        try store.managed("Bo", "UPDATE t SET more = 1")
        #expect(
            try brief(blame(store, "t", .integer(2))) == [
                "id 2 #1 Ann", "label 'n' #1 Ann", "b 'm' #1 Ann", "size 3 default", "more 1 #2 Bo",
            ])
    }

    @Test func `a key is compared as its index does, and compound keys have all their values`() throws {
        let store = try HistoryFile("CREATE TABLE seat(hall TEXT COLLATE NOCASE, n INT, who, PRIMARY KEY(n, hall)) WITHOUT ROWID;")
        try store.track()
        try store.managed("Ann", "INSERT INTO seat VALUES('A', 1, 'x')")
        try store.managed("Bo", "UPDATE seat SET hall = 'a'")
        #expect(try brief(blame(store, "seat", .integer(1), .text("A"))) == ["hall 'a' #2 Bo", "n 1 #1 Ann", "who 'x' #1 Ann"])
        try store.managed("Cy", "DELETE FROM seat")
        #expect(try blame(store, "seat", .text("1"), .text("A")).end != nil)
        #expect { try blame(store, "seat", .integer(1)) } throws: { ($0 as? AnnalsError)?.code == .usage }
        #expect { try blame(store, "seat", .integer(2), .text("A")) } throws: { ($0 as? AnnalsError)?.code == .usage }
        #expect { try blame(store, "nothing", .integer(2)) } throws: { ($0 as? AnnalsError)?.code == .notTracked }
    }

    @Test func `each value has the time of the write itself, across keys and values in between`() throws {
        let store = try shop()
        let start = Date(timeIntervalSince1970: 1_760_000_000)
        try store.external(
            """
            INSERT INTO t VALUES(2, 'n', 'm'); UPDATE t SET a = 'q' WHERE id = 2; UPDATE t SET id = 3 WHERE id = 2;
            UPDATE t SET a = 'r' WHERE id = 3; UPDATE t SET a = 'q' WHERE id = 3; UPDATE t SET a = 'p' WHERE id = 1;
            """)
        try store.setTimes(of: "t", from: start, every: 60)
        func minutes(_ key: Int64) throws -> [Double?] {
            try blame(store, "t", .integer(key)).columns.map { $0.time.map { $0.timeIntervalSince(start) / 60 } }
        }
        #expect(try minutes(3) == [2, 4, 0])
        #expect(try minutes(1) == [nil, 5, nil])
        try store.setTimes(of: "t", "NULL")
        let transaction = try #require(try store.transactions().last)
        #expect(try blame(store, "t", .integer(3)).columns.map(\.time) == Array(repeating: transaction.timestamp, count: 3))
    }

    @Test func `what a gap hides was written before history`() throws {
        let store = try shop()
        try store.managed("Ann", "UPDATE t SET a = 'q'")
        try store.managed("Bo", "UPDATE t SET b = 'z'")
        try store.queue.write { db in try db.execute(sql: "UPDATE annals_tables SET gap = 1") }
        #expect(try brief(blame(store, "t", .integer(1))) == ["id 1 before history", "a 'q' before history", "b 'z' #2 Bo"])
    }
}
