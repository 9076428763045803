import AnnalsCore
import Foundation
import GRDB
import Testing

@testable import AnnalsHistory

@Suite("The steps of a transaction")
struct HistoryStepsTests {
    private static let start = Date(timeIntervalSince1970: 1_760_000_000)

    /// A step in short: `+ t(1): 1 'a'`, `~ t(1): a 'x'→'y'`, `- t(1): 1 'b'`.
    private func brief(_ step: HistoryStep) -> String {
        let change = step.change
        let row = "\(change.table)(\(change.key.map(\.brief).joined(separator: ",")))"
        switch change.kind {
        case .insert: return "+ \(row): \(change.columns.compactMap { $0.new?.brief }.joined(separator: " "))"
        case .delete: return "- \(row): \(change.columns.compactMap { $0.old?.brief }.joined(separator: " "))"
        case .update:
            return "~ \(row): "
                + change.columns.map { "\($0.name) \($0.old?.brief ?? "")→\($0.new?.brief ?? "")" }.joined(separator: " ")
        }
    }

    private func steps(_ store: HistoryFile, _ sql: String) throws -> [String] {
        let number = try #require(try store.external(sql))
        return try store.steps(number).map(brief)
    }

    @Test func `each write is there with its time, also what a later one took back`() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a);")
        try store.track()
        try store.outside("INSERT INTO t VALUES(1, 'x')")
        try store.outside("UPDATE t SET a = 'y'; UPDATE t SET a = 'x'; INSERT INTO t VALUES(2, 'gone'); DELETE FROM t WHERE id = 2")
        let number = try #require(try store.recordExternalChanges())
        let now = Date()
        let written = try store.steps(number)
        #expect(
            written.map(brief) == ["+ t(1): 1 'x'", "~ t(1): a 'x'→'y'", "~ t(1): a 'y'→'x'", "+ t(2): 2 'gone'", "- t(2): 2 'gone'"])
        #expect(written.allSatisfy { step in step.time.map { abs($0.timeIntervalSince(now)) < 600 } ?? false })
        #expect(try store.changes(number).count == 1)
        try store.setTimes(of: "t", from: Self.start, every: 60.25)
        let times = try store.steps(number).map(\.time)
        #expect(times == (0..<5).map { Self.start.addingTimeInterval(Double($0) * 60.25) }, "to the millisecond")
    }

    @Test func `a time that is no time is unknown`() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a);")
        try store.track()
        let number = try #require(try store.external("INSERT INTO t VALUES(1, 'x'), (2, 'x'), (3, 'x'), (4, 'x')"))
        try store.setTimes(of: "t", "CASE id WHEN 1 THEN NULL WHEN 2 THEN 'noon' WHEN 3 THEN 1e300 ELSE -9e999 END")
        #expect(try store.steps(number).map(\.time) == [nil, nil, nil, nil])
    }

    @Test func `a row that a REPLACE removed is before the row that replaced it, with its time`() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES(1, 'old'), (2, 'two');")
        try store.track()
        let number = try #require(
            try store.external(
                """
                INSERT OR REPLACE INTO t VALUES(1, 'new'); UPDATE t SET a = 'newer' WHERE id = 1;
                INSERT OR REPLACE INTO t VALUES(1, 'last'); UPDATE t SET a = 'end' WHERE id = 2
                """))
        // The deletes have the ids 5 and 6, and the time of the change that they precede.
        try store.setTimes(
            of: "t",
            "julianday(\(Self.start.timeIntervalSince1970), 'unixepoch') + (CASE op WHEN 3 THEN m0 ELSE id END - 1) * 60 / 86400.0")
        let written = try store.steps(number)
        #expect(
            written.map(brief) == [
                "- t(1): 1 'old'", "+ t(1): 1 'new'", "~ t(1): a 'new'→'newer'", "- t(1): 1 'newer'", "+ t(1): 1 'last'",
                "~ t(2): a 'two'→'end'",
            ])
        #expect(written.map(\.time) == [0, 0, 1, 2, 2, 3].map { Self.start.addingTimeInterval($0 * 60) })
    }

    @Test func `a row that a REPLACE of another key removed has no time, and the transaction keeps its own`() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, mail UNIQUE); INSERT INTO t VALUES(1, 'a@');")
        try store.track()
        let number = try #require(try store.external("INSERT OR REPLACE INTO t VALUES(2, 'a@')"))
        let written = try store.steps(number)
        #expect(written.map(brief) == ["+ t(2): 2 'a@'", "- t(1): 1 'a@'"])
        #expect(written[0].time != nil && written[1].time == nil)
        let transaction = try #require(try store.transactions().first)
        #expect(abs(transaction.timestamp.timeIntervalSince(try #require(written[0].time))) < 0.002)
    }

    @Test func `values that an update left out are not among the columns`() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a, b, note TEXT)", leavesOutAll: true)
        try store.track()
        try store.external("INSERT INTO t VALUES(1, 1, 1, 'a long text')")
        #expect(
            try steps(store, "UPDATE t SET a = 2; UPDATE t SET note = 'another'; UPDATE t SET b = 2; UPDATE t SET b = 2; DELETE FROM t")
                == [
                    "~ t(1): a 1→2", "~ t(1): note 'a long text'→'another'", "~ t(1): b 1→2", "- t(1): 1 2 2 'another'",
                ])
    }

    @Test func `a row that got another key has its steps under the key of then, also with a compound key`() throws {
        let store = try HistoryFile(
            """
            CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES(1, 'x');
            CREATE TABLE seat(hall TEXT, n INT, who, PRIMARY KEY(n, hall)) WITHOUT ROWID;
            """)
        try store.track()
        #expect(
            try steps(store, "UPDATE t SET id = 5; UPDATE t SET a = 'y'; UPDATE t SET id = 6, a = 'z'") == [
                "~ t(1): id 1→5", "~ t(5): a 'x'→'y'", "~ t(5): id 5→6 a 'y'→'z'",
            ])
        #expect(
            try steps(store, "INSERT INTO seat VALUES('A', 1, 'Ann'); UPDATE seat SET hall = 'B'; UPDATE seat SET who = 'Bo'") == [
                "+ seat(1,'A'): 'A' 1 'Ann'", "~ seat(1,'A'): hall 'A'→'B'", "~ seat(1,'B'): who 'Ann'→'Bo'",
            ])
    }

    @Test func `tables follow one another, parents first, and a request restricts tables and columns`() throws {
        let store = try HistoryFile(
            "CREATE TABLE item(id INTEGER PRIMARY KEY, list INT REFERENCES list, n); CREATE TABLE list(id INTEGER PRIMARY KEY, name);")
        try store.track()
        let number = try #require(
            try store.external(
                """
                INSERT INTO item VALUES(1, 7, 1); INSERT INTO list VALUES(7, 'L'); UPDATE item SET n = 2; UPDATE list SET name = 'M';
                UPDATE item SET list = NULL
                """))
        let all = try store.steps(number).map(brief)
        #expect(
            all == [
                "+ list(7): 7 'L'", "~ list(7): name 'L'→'M'", "+ item(1): 1 7 1", "~ item(1): n 1→2", "~ item(1): list 7→NULL",
            ])
        #expect(try store.steps(number, HistoryRequest().tables("LIST")).map(brief) == Array(all[..<2]))
        #expect(try store.steps(number, HistoryRequest().updating("n")).map(brief) == [all[3]])
        #expect { try store.steps(number, HistoryRequest().tables("nothing")) } throws: { ($0 as? AnnalsError)?.code == .notTracked }
    }

    @Test func `columns are those of then under the names of now`() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE u(id INTEGER PRIMARY KEY);")
        try store.track()
        let number = try #require(try store.external("INSERT INTO t VALUES(1, 'x'); UPDATE t SET a = 'y'; INSERT INTO u VALUES(1)"))
        try store.external("ALTER TABLE t RENAME COLUMN a TO label; ALTER TABLE t ADD COLUMN more DEFAULT 3;")
        let later = try #require(try store.external("UPDATE t SET label = 'z', more = 4"))
        #expect(try store.steps(number).map(brief) == ["+ u(1): 1", "+ t(1): 1 'x'", "~ t(1): label 'x'→'y'"])
        #expect(try store.steps(later).map(brief) == ["~ t(1): label 'y'→'z' more 3→4"])
    }

    @Test func `many steps are read one by one, and the visit ends at an error`() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, a);")
        try store.track()
        let rows = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 3000) INSERT OR REPLACE INTO t SELECT x,"
        let number = try #require(try store.external("\(rows) 'a' FROM c; \(rows) 'b' FROM c"))
        let kinds = try store.steps(number).map(\.change.kind)
        #expect(kinds.count == 9_000 && kinds.prefix(3_000).allSatisfy { $0 == .insert })
        #expect(kinds.dropFirst(3_000).enumerated().allSatisfy { $1 == ($0.isMultiple(of: 2) ? .delete : .insert) })
        struct Enough: Error {}
        try store.queue.read { db in
            let reader = try HistoryReader(db)
            let transaction = try #require(try reader.transaction(number))
            for _ in 0..<2 { #expect(throws: Enough.self) { try reader.forEachStep(in: transaction) { _ in throw Enough() } } }
            var count = 0
            try reader.forEachStep(in: transaction) { _ in count += 1 }
            #expect(count == 9_000)
        }
    }
}
