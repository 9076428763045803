import AnnalsCore
import AnnalsHistory
import AnnalsRows
import AnnalsStore
import AnnalsTesting
import GRDB
import Testing

@Suite("Reverts on a replica that rebased its work")
struct RebasedRevertTests {
    /// Ann's and Bob's values of one cell; Bob's replica rebased his.
    private func world() async throws -> SyncedStores {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE a(id INTEGER PRIMARY KEY, y); INSERT INTO a VALUES(1, 1)")
        try await world.stores[0].write(author: "ann") { db in try db.execute(sql: "UPDATE a SET y = 10") }
        world.clock.advance(.seconds(1))
        try await world.stores[1].write(author: "bob") { db in try db.execute(sql: "UPDATE a SET y = 20") }
        try await world.settle()
        #expect(try await world.rows(1, "SELECT y FROM a") == [[20.databaseValue]])
        return world
    }

    private func numbers(_ store: Store, _ request: HistoryRequest) async throws -> [Int64] {
        var numbers: [Int64] = []
        for try await transaction in store.history(request) { numbers.append(transaction.number) }
        return numbers
    }

    @Test func `the value before the rebase is not restored, because others wrote one since`() async throws {
        let world = try await world()
        let bobs = try await numbers(world.stores[1], HistoryRequest().authors("bob"))
        let rebases = try await numbers(world.stores[1], HistoryRequest().origins(.rebase))
        let (number, rebase) = (try #require(bobs.first), try #require(rebases.last))
        let first = await #expect(throws: AnnalsError.self) { try await world.stores[1].revert(transaction: number) }
        let second = await #expect(throws: AnnalsError.self) { try await world.stores[1].revert(by: "bob") }
        for error in [first, second] {
            #expect(error?.code == .rowsDiffer)
            let hint = error?.hint ?? ""
            #expect(hint.contains("a rebase repeated this work: revert the transaction that blame names"), "\(hint)")
        }
        #expect(try await world.rows(1, "SELECT y FROM a") == [[20.databaseValue]])
        try await world.stores[1].revert(transaction: rebase)
        try await world.settle()
        for index in 0..<2 { #expect(try await world.rows(index, "SELECT y FROM a") == [[10.databaseValue]]) }
    }

    @Test func `the replica without a rebase returns to the same value`() async throws {
        let world = try await world()
        try await world.stores[0].revert(by: "bob")
        try await world.settle()
        for index in 0..<2 { #expect(try await world.rows(index, "SELECT y FROM a") == [[10.databaseValue]]) }
    }
}
