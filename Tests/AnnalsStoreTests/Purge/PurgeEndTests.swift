import AnnalsCore
import AnnalsHistory
import GRDB
import Testing

@testable import AnnalsStore

@Suite("A purge leaves nothing below the point that it wrote down")
struct PurgeEndTests {
    private func shop() async throws -> PurgedStore {
        let shop = try PurgedStore("CREATE TABLE item(id INTEGER PRIMARY KEY, n INT)")
        for number in 1...3 { try shop.file.managed(nil, nil, "INSERT INTO item VALUES(\(number), 0)") }
        return shop
    }

    private func oldest(_ shop: PurgedStore) async throws -> Int64? {
        try await shop.store.read { try Int64.fetchOne($0, sql: "SELECT min(number) FROM annals_transactions") }
    }

    @Test("Where one of a single transaction was interrupted, the next one ends it")
    func interrupted() async throws {
        let shop = try await shop()
        shop.slicesLeft.withLock { $0 = 0 }
        await #expect(throws: Interrupted.self) { try await shop.store.deleteHistory(before: shop.file.token(2)) }
        #expect(try await oldest(shop) == 1, "it is left to drop")
        shop.slicesLeft.withLock { $0 = nil }
        try await shop.store.deleteHistory(before: shop.file.token(2))
        #expect(try await oldest(shop) == 2)
        #expect(try shop.file.findings() == [])
    }

    @Test("Where history began anew behind unseen writes, what was before goes at once")
    func anew() async throws {
        let shop = try await shop()
        try shop.file.outside("DROP TRIGGER \(try shop.file.triggerName("insert", of: "item")); INSERT INTO item VALUES(9, 9)")
        try await shop.store.purge(.untilConsumed)
        let bounds = try shop.file.bounds()
        #expect(bounds.oldest == bounds.latest)
        #expect(try await oldest(shop) == bounds.latest.number)
        #expect(try shop.file.findings() == [])
    }
}
