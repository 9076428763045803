import AnnalsCore
import Foundation
import GRDB
import Synchronization
import Testing

@testable import AnnalsHistory
@testable import AnnalsStore

@Suite("Consumers")
struct ConsumerTests {
    private func shop(_ transactions: Int) throws -> PurgedStore {
        let shop = try PurgedStore("CREATE TABLE item(id INTEGER PRIMARY KEY, n INT); CREATE TABLE seen(number INTEGER PRIMARY KEY)")
        for number in 1...transactions { try shop.file.managed("till", nil, "INSERT INTO item VALUES(\(number), 0)") }
        return shop
    }

    @Test("One reads on from where it stands, and its place moves with its work")
    func consume() async throws {
        let shop = try shop(5)
        let reader: HistoryConsumer = "report"
        try await shop.store.register(reader, from: shop.file.token(1))
        struct Failed: Error {}
        await #expect(throws: Failed.self) {
            try await shop.store.consume(as: reader, limit: 3) { db, _, _ in
                try db.execute(sql: "INSERT INTO seen VALUES(-1)")
                throw Failed()
            }
        }
        let request = HistoryRequest().excludingAuthors("report")
        while try await shop.store.consume(
            as: reader, matching: request, limit: 3,
            { db, history, transactions in
                for transaction in transactions {
                    #expect(try history.changes(in: transaction).count == 1)
                    try db.execute(sql: "INSERT INTO seen VALUES(?)", arguments: [transaction.number])
                }
            })
        {}
        #expect(try await shop.store.read { try Int64.fetchAll($0, sql: "SELECT number FROM seen") } == [2, 3, 4, 5])
        let status = try #require(try await shop.store.consumers().first)
        #expect(status.unread == 0)
        #expect(try shop.file.transactions(HistoryRequest().authors("report")).count == 2, "its own work has its name")
    }

    @Test("What comes after a request's end is read later, and the smaller limit holds")
    func bounded() async throws {
        let shop = try shop(5)
        try await shop.store.register("report", from: shop.file.token(0))
        let numbers = Numbers()
        func consume(_ request: HistoryRequest) async throws {
            try await shop.store.consume(as: "report", matching: request) { _, _, transactions in
                numbers.add(transactions.map(\.number))
            }
        }
        try await consume(HistoryRequest().before(shop.file.token(3)))
        #expect(numbers.all == [[1, 2]])
        try await consume(HistoryRequest().before(Date(timeIntervalSince1970: 0)))
        try await consume(HistoryRequest().limit(1))
        #expect(numbers.all == [[1, 2], [3]])
        #expect(try await shop.store.unread(by: "report", matching: HistoryRequest().limit(1)).map(\.number) == [4])
        try await consume(HistoryRequest())
        #expect(numbers.all == [[1, 2], [3], [4, 5]])
    }

    private final class Numbers: Sendable {
        private let numbers = Mutex<[[Int64]]>([])
        var all: [[Int64]] { numbers.withLock { $0 } }
        func add(_ some: [Int64]) { numbers.withLock { $0.append(some) } }
    }

    @Test("A consumer is listed with its place, its lease and when it was last seen")
    func listed() async throws {
        let shop = try shop(5)
        try await shop.store.register(HistoryConsumer("b", lease: .seconds(60)), from: shop.file.token(2))
        try await shop.store.register("a")
        let all = try await shop.store.consumers()
        #expect(all.map(\.consumer.name) == ["a", "b"])
        #expect(all.map(\.unread) == [0, 3])
        #expect(all[1].consumer.lease == .seconds(60))
        #expect(all[1].lastSeen == shop.file.clock.milliseconds)
        #expect(all.map(\.state) == [.live, .live])
        try await shop.store.unregister("a")
        #expect(try await shop.store.consumers().map(\.consumer.name) == ["b"])
        await #expect { try await shop.store.unregister("a") } throws: { ($0 as? AnnalsError)?.code == .consumerUnknown }
        // The position of sync is listed under this name.
        await #expect { try await shop.store.register("sync") } throws: { ($0 as? AnnalsError)?.code == .usage }
    }

    @Test("Reading does not move one on; an acknowledgement does, and never back")
    func acknowledge() async throws {
        let shop = try shop(5)
        try await shop.store.register("report", from: shop.file.token(0))
        let first = try await shop.store.unread(by: "report", limit: 2)
        #expect(first.map(\.number) == [1, 2])
        #expect(try await shop.store.unread(by: "report", limit: 2) == first)
        try await shop.store.acknowledge(first[1].token, by: "report")
        try await shop.store.acknowledge(first[0].token, by: "report")
        #expect(try await shop.store.unread(by: "report").map(\.number) == [3, 4, 5])
        let token = try shop.file.token(4)
        try await shop.store.write { db in try HistoryConsumer("report").acknowledge(token, in: db) }
        #expect(try await shop.store.token(of: "report") == token)
    }

    @Test("Law 10: a purge stops at the slowest live consumer and says at whom")
    func heldBack() async throws {
        let shop = try shop(9)
        try await shop.store.register("slow", from: shop.file.token(3))
        try await shop.store.register("fast", from: shop.file.token(6))
        let result = try await shop.store.purge(.untilConsumed)
        #expect(result.transactions == 3)
        #expect(result.heldBackBy == ["fast", "slow"])
        #expect(result.stranded == [])
        #expect(try await shop.store.unread(by: "slow").map(\.number) == [4, 5, 6, 7, 8, 9])
    }

    @Test("One whose lease has lapsed holds back nothing, and gets it back by reading")
    func lapsed() async throws {
        let shop = try shop(9)
        try await shop.store.register(HistoryConsumer("idle", lease: .seconds(60)), from: shop.file.token(3))
        shop.file.clock.milliseconds += 60_001
        #expect(try await shop.store.consumers().map(\.state) == [.lapsed])
        _ = try await shop.store.token(of: "idle")
        #expect(try await shop.store.consumers().map(\.state) == [.live])
        #expect(try await shop.store.purge(.untilConsumed).heldBackBy.map(\.name) == ["idle"])
        shop.file.clock.milliseconds += 60_001
        #expect(try await shop.store.purge(.untilConsumed).stranded.map(\.name) == ["idle"])
        #expect(try await shop.store.consumers().map(\.state) == [.expired])
    }

    @Test("Law 10: one that was passed by force fails with the typed error, starts over from the rows, and goes on")
    func startOver() async throws {
        let shop = try shop(9)
        try await shop.store.register("report", from: shop.file.token(3))
        #expect(try await shop.store.deleteHistory(before: shop.file.token(8), mode: .force).stranded == ["report"])
        await #expect { try await shop.store.consume(as: "report") { _, _, _ in Issue.record("there is nothing to read") } } throws: {
            ($0 as? AnnalsError)?.code == .tokenExpired && "\($0)".contains("start over")
        }
        await #expect { try await shop.store.unread(by: "report") } throws: { ($0 as? AnnalsError)?.code == .tokenExpired }
        let rows = try await shop.store.startOver("report") { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM item") }
        #expect(rows == 9)
        try shop.file.managed("till", nil, "INSERT INTO item VALUES(10, 0)")
        #expect(try await shop.store.unread(by: "report").map(\.number) == [10])
    }

    @Test("Untracking leaves nothing of them")
    func untrack() async throws {
        let shop = try shop(1)
        let own = "SELECT name FROM sqlite_master WHERE name NOT LIKE 'annals%'"
        let schema = try await shop.store.read { try String.fetchAll($0, sql: own) }
        try await shop.store.register("report")
        _ = try await shop.store.untrack()
        #expect(try await shop.store.read { try String.fetchAll($0, sql: "SELECT name FROM sqlite_master") } == schema)
    }
}
