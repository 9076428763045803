import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import Foundation
import GRDB
import Testing

@testable import AnnalsStore

@Suite("Status")
struct StoreStatusTests {
    private func status(_ store: HistoryFile) throws -> StoreStatus { try store.queue.read { try StoreStatus($0) } }

    @Test("A database without history has an empty status")
    func untracked() throws {
        let status = try status(HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY)"))
        #expect(status.tracked == [])
        #expect(status.latestToken == nil)
        #expect(status.replica == nil)
    }

    @Test("It tells the tracked tables and how far history reaches")
    func tracked() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE a(id INTEGER PRIMARY KEY)")
        try store.track()
        for number in 1...3 { try store.external("INSERT INTO t VALUES(\(number))") }
        let status = try status(store)
        #expect(status.tracked == ["a", "t"])
        #expect(status.transactions == 3)
        #expect(status.oldestToken == (try store.token(0)))
        #expect(status.latestToken == (try store.token(3)))
        #expect(status.drift == [])
        let share = try #require(status.historyShare)
        #expect(share > 0 && share < 1)
        #expect(status.retention == .all)
    }

    @Test(arguments: [1, 20])
    func `the status has what tracking takes of the file, close to what track added`(_ tables: Int) throws {
        let schema = (1...tables).map { "CREATE TABLE t\($0)(id INTEGER PRIMARY KEY, name TEXT, note TEXT, city TEXT)" }
        let store = try HistoryFile(schema.joined(separator: ";"))
        let added = try store.track().addedBytes
        #expect(added > 0)
        let status = try status(store)
        #expect((added * 3 / 4...added * 5 / 4).contains(status.trackingBytes), "\(added) and \(status.trackingBytes)")
        for number in 1...300 { try store.external("INSERT INTO t1 VALUES(\(number), 'a', 'b', 'c')") }
        #expect(try self.status(store).trackingBytes == status.trackingBytes)
    }

    @Test("It tells how much time a transaction of other programs covers")
    func external() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE a(id INTEGER PRIMARY KEY)")
        #expect(try status(store).external == nil)
        try store.track()
        #expect(try status(store).external?.examined == 0)
        try store.external("INSERT INTO t VALUES(1), (2), (3)")
        try store.managed("Ann", "INSERT INTO a VALUES(1)")
        try store.external("INSERT INTO t VALUES(4)")
        let start = Date(timeIntervalSince1970: 1_760_000_000)
        try store.setTimes(of: "t", from: start, every: 5_400)
        var external = try #require(try status(store).external)
        #expect(external.transactions == 2 && external.examined == 3 && external.longest == .seconds(10_800))
        // The ends of a span may have no time, and a clock may go back.
        try store.setTimes(of: "t", "iif(id = 3, NULL, at - id)")
        external = try #require(try status(store).external)
        #expect(external.longest == .seconds(86_400 - 5_400))
        try store.setTimes(of: "t", "'noon'")
        #expect(try status(store).external?.longest == .zero)
    }

    @Test("A table whose triggers are gone is named")
    func drift() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE a(id INTEGER PRIMARY KEY)")
        try store.track()
        try store.outside("DROP TRIGGER \(store.triggerName("delete", of: "a"))")
        #expect(try status(store).drift == ["a"])
        try store.recordExternalChanges()
        #expect(try status(store).drift == [])
    }

    @Test(
        "a table that another program replaced by one that cannot be tracked is named, until it can be tracked or is untracked",
        arguments: ["CREATE TABLE t(v)", "CREATE VIEW t AS SELECT * FROM u", "CREATE VIRTUAL TABLE t USING fts5(v)"])
    func ended(replacement: String) throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE u(id INTEGER PRIMARY KEY)")
        try store.track()
        #expect(try status(store).endedTables.isEmpty)
        try store.outside("DROP TABLE t; \(replacement)")
        _ = try store.recordExternalChanges()
        let status = try status(store)
        #expect(status.tracked == ["u"])
        #expect(status.endedTables.map(\.table) == ["t"])
        let findings = try store.findings()
        #expect(findings.map(\.code) == [.unseen] && findings[0].table == "t", "\(findings)")
        #expect(try store.queue.read { db in try Repair(db: db, environment: .system).plan(findings) } == [])
        if replacement.contains("TABLE t(v)") {
            try store.outside("DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
            try store.track("t")
        } else {
            _ = try store.queue.writeWithoutTransaction { db in try Tracking.untrack(db, ["t"]) }
        }
        #expect(try self.status(store).endedTables.isEmpty)
        #expect(try store.findings().isEmpty)
    }
}
