import AnnalsCore
import Foundation
import GRDB
import Synchronization
import Testing

@testable import AnnalsHistory
@testable import AnnalsStore

@Suite("Recording and managed writes")
struct TransactionRecorderTests {
    /// A clock that the test sets, and consecutive ids.
    final class Hand: Sendable {
        let now: Mutex<Int64>
        let made = Mutex<UInt64>(0)

        init(now: Int64) { self.now = Mutex(now) }

        var environment: CaptureEnvironment {
            CaptureEnvironment(
                now: { self.now.withLock { $0 } },
                makeTransactionID: {
                    self.made.withLock { made in
                        made += 1
                        return TransactionID(high: 0, low: made)
                    }
                }, makeStoreID: { StoreID(high: 1, low: 1) }, processName: "test")
        }
    }

    private func transactions(_ fixture: Fixture) throws -> [Row] {
        try fixture.queue.read { db in try Row.fetchAll(db, sql: "SELECT * FROM annals_transactions ORDER BY number") }
    }

    @Test func aManagedWriteIsOneLocalTransactionWithItsNames() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE u(id INTEGER PRIMARY KEY)")
        let hand = Hand(now: 5_000)
        let (value, number) = try fixture.queue.write { db in
            try TransactionRecorder.managedWrite(db, author: "Ada", contextName: "form", hand.environment) { db in
                try db.execute(sql: "INSERT INTO t VALUES(1, 'a'), (2, 'b'); INSERT INTO u VALUES(7); UPDATE t SET v = 'c'")
                return 42
            }
        }
        #expect(value == 42)
        #expect(number == 1)
        let row = try #require(try transactions(fixture).first)
        #expect(row["id"] == Data(TransactionID(high: 0, low: 1).bytes))
        #expect(row["time"] == 5_000)
        #expect(row["author"] == "Ada")
        #expect(row["context"] == "form")
        #expect(row["process"] == "test")
        #expect(row["origin"] == 0)
        #expect(row["tables"] == "1 2")
        #expect(try fixture.file.shell("SELECT * FROM annals_spans") == "1|1|1|4\n2|1|1|1\n")
    }

    @Test func strangersWorkIsSealedFirstAndApart() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try fixture.file.shell("INSERT INTO t VALUES(1, 'stranger')")
        let (_, number) = try fixture.queue.write { db in
            try TransactionRecorder.managedWrite(db, author: "me") { db in try db.execute(sql: "UPDATE t SET v = 'me'") }
        }
        #expect(number == 2)
        let rows = try transactions(fixture)
        #expect(rows.map { $0["origin"] as Int } == [1, 0])
        let changes = try fixture.changes()
        #expect(changes[0].changes["t"] == [NetChange(old: nil, new: [.integer(1), .text("stranger")])])
        #expect(changes[1].changes["t"] == [NetChange(old: [.integer(1), .text("stranger")], new: [.integer(1), .text("me")])])
    }

    @Test func aWriteThatChangesNothingMakesNoTransaction() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1, 'a')")
        func number(_ sql: String) throws -> Int64? {
            try fixture.queue.write { db in try TransactionRecorder.managedWrite(db) { db in try db.execute(sql: sql) }.number }
        }
        #expect(try number("SELECT 1") == nil)
        #expect(try number("UPDATE t SET v = v") == nil)
        #expect(try number("UPDATE t SET v = 'b'; UPDATE t SET v = 'a'") == nil)
        #expect(try number("INSERT OR IGNORE INTO t VALUES(1, 'x')") == nil)
        #expect(try number("REPLACE INTO t VALUES(1, 'a')") == nil)
        #expect(try number("CREATE TABLE other(x); INSERT INTO other VALUES(1)") == nil)
        #expect(try number("UPDATE t SET v = 'b'") == 1)
    }

    @Test func aWriteThatFailsLeavesNothing() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try fixture.file.shell("INSERT INTO t VALUES(1, 'stranger')")
        #expect(throws: DatabaseError.self) {
            try fixture.queue.write { db in
                try TransactionRecorder.managedWrite(db) { db in
                    try db.execute(sql: "INSERT INTO t VALUES(2, 'b'); INSERT INTO t VALUES(2, 'c')")
                }
            }
        }
        #expect(try transactions(fixture).isEmpty)
        #expect(try fixture.recordExternal() == 1)
        #expect(try fixture.changes()[0].changes["t"]?.count == 1)
    }

    @Test func aStoreWithoutHistoryIsOnlyWritten() throws {
        let fixture = try Fixture("CREATE TABLE t(id INTEGER PRIMARY KEY)")
        let (_, number) = try fixture.queue.write { db in
            try TransactionRecorder.managedWrite(db) { db in try db.execute(sql: "INSERT INTO t VALUES(1)") }
        }
        #expect(number == nil)
        #expect(try fixture.file.shell("SELECT * FROM t") == "1\n")
        #expect(try fixture.recordExternal() == nil)
    }

    /// An external transaction has the time of its latest write. The clock never goes back.
    @Test func timesRiseAndStrangersKeepTheirs() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        let hand = Hand(now: 1_000)
        func write() throws {
            _ = try fixture.queue.write { db in
                try TransactionRecorder.managedWrite(db, hand.environment) { db in try db.execute(sql: "INSERT INTO t(v) VALUES(1)") }
            }
        }
        try write()
        try write()
        hand.now.withLock { $0 = 500 }
        try write()
        hand.now.withLock { $0 = 2_000 }
        try write()
        try fixture.file.shell("INSERT INTO t(v) VALUES(2); INSERT INTO t(v) VALUES(3)")
        try fixture.recordExternal(hand.environment)
        let times = try transactions(fixture).map { HybridTime(milliseconds: $0["time"], counter: $0["time_counter"]) }
        #expect(
            times[..<4] == [
                .init(milliseconds: 1_000), .init(milliseconds: 1_000, counter: 1), .init(milliseconds: 1_000, counter: 2),
                .init(milliseconds: 2_000),
            ])
        let expected = CaptureEnvironment.system.now()
        #expect(abs(times[4].milliseconds - expected) < 60_000)
        // The test's clock is far behind now, so the counters increase.
        try write()
        let last = try #require(try transactions(fixture).last)
        #expect(HybridTime(milliseconds: last["time"], counter: last["time_counter"]) > times[4])
    }

    @Test func anImportedTransactionsTimeDoesNotMoveTheClock() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try fixture.queue.write { db in
            let info = TransactionInfo(id: .random(), time: HybridTime(milliseconds: 9_000_000_000_000))
            var clock = try StoreClock.load(db)
            clock.observe(HybridTime(milliseconds: 7_000))
            try StoreClock.save(clock, db)
            let number = try TransactionRecorder.record(
                db, spans: [], info: info, origin: .imported, process: nil, replica: ReplicaID(high: 3, low: 4), position: Position(12))
            #expect(number == 1)
            #expect(try StoreClock.load(db).last == HybridTime(milliseconds: 7_000))
        }
        let row = try #require(try transactions(fixture).first)
        #expect(row["origin"] == 3)
        #expect(row["position"] == 12)
    }

    @Test func numbersRiseAfterAPurgeOfAllButTheNewest() throws {
        let fixture = try Fixture(tracking: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        for value in 1...3 { try fixture.account { try fixture.file.shell("INSERT INTO t(v) VALUES(\(value))") } }
        try fixture.file.shell(
            """
            DELETE FROM annals_transactions WHERE number < 3; DELETE FROM annals_spans WHERE number < 3;
            DELETE FROM annals_changes_1 WHERE id < 3;
            """)
        let changes = try fixture.account { try fixture.file.shell("INSERT INTO t(v) VALUES(4)") }
        #expect(changes["t"]?.count == 1)
        #expect(try transactions(fixture).map { $0["number"] as Int } == [3, 4])
    }

    @Test func manyTablesAreLookedAtInParts() throws {
        let count = HistoryLimits.compoundTerms + 5
        let fixture = try Fixture(tracking: (1...count).map { "CREATE TABLE t\($0)(id INTEGER PRIMARY KEY);" }.joined())
        let changes = try fixture.account {
            try fixture.file.shell("INSERT INTO t1 VALUES(1); INSERT INTO t\(count) VALUES(1); INSERT INTO t200 VALUES(1)")
        }
        #expect(changes.count == 3)
    }

    @Test func rawChangesWrittenByHandReadBackTheSame() throws {
        let columns = (0..<130).map { "c\($0)" }.joined(separator: ", ")
        let fixture = try Fixture(tracking: "CREATE TABLE t(k TEXT PRIMARY KEY, \(columns))")
        let table = try #require(try fixture.tracked().first)
        let old: [Value] = [.text("k")] + (0..<130).map { .integer(Int64($0)) }
        var new = old
        for place in [0, 1, 61, 62, 63, 124, 130] { new[place] = place.isMultiple(of: 2) ? .null : .real(0.5) }
        let changes = [
            RawChange(id: 1, old: nil, new: old, newRowid: 5), RawChange(id: 2, old: old, new: new, oldRowid: 5, newRowid: 6),
            RawChange(id: 3, old: new, new: nil, oldRowid: 6, precedes: 2),
        ]
        try fixture.queue.write { db in
            let writer = try RawChangeWriter(db, table)
            for change in changes { try writer.write(change, at: nil) }
            var read: [RawChange] = []
            try RawChangeReader(db, table).read(1...3) { read.append($0) }
            #expect(read == changes)
            #expect(try RawChangeReader(db, table).change(4) == nil)
        }
    }
}
