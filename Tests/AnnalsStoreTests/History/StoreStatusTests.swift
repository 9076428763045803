import AnnalsCore
import AnnalsHistory
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

    @Test("A table whose triggers are gone is named")
    func drift() throws {
        let store = try HistoryFile("CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE a(id INTEGER PRIMARY KEY)")
        try store.track()
        try store.outside("DROP TRIGGER \(store.triggerName("delete", of: "a"))")
        #expect(try status(store).drift == ["a"])
        try store.recordExternalChanges()
        #expect(try status(store).drift == [])
    }
}
