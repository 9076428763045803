import AnnalsCore
import AnnalsHistory
import AnnalsSchema
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import Foundation
import GRDB
import Testing

@Suite("History of replicas is bounded and loses no work")
struct PurgingReplicasTests {
    private static let schema = "CREATE TABLE item(id TEXT PRIMARY KEY NOT NULL, n INT); INSERT INTO item VALUES('a', 0)"

    private func write(_ store: Store, _ n: Int) async throws {
        try await store.write { db in try db.execute(sql: "UPDATE item SET n = ?", arguments: [n]) }
    }

    @Test("Law 9: a sync drops what is older than thirty days, and not more than once an hour")
    func thirtyDays() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        // The database's own clock gives the time when an imported transaction arrived.
        world.clock.advance(.milliseconds(Store.Configuration().now() - world.clock.milliseconds))
        for n in 1...5 {
            try await write(world.stores[0], n)
            try await world.sync(0)
            try await world.sync(1)
            world.clock.advance(.seconds(10 * 86_400))
        }
        for index in 0...1 {
            try await world.sync(index)
            let status = try await world.stores[index].status()
            #expect(status.retention == .days(30))
            #expect(status.transactions <= 3, "\(index) holds \(status.transactions)")
            #expect(try await world.stores[index].verify() == [])
            #expect(try await world.stores[index].purgeWhenDue() == nil)
        }
    }

    @Test("Law 10: work that was not pushed stays, and is pushed also where it was purged by force")
    func unpushed() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try await write(world.stores[0], 1)
        try await world.sync(0)
        try await write(world.stores[0], 2)
        try await write(world.stores[0], 3)
        world.clock.advance(.seconds(100 * 86_400))
        let consumers = try await world.stores[0].consumers()
        #expect(consumers.map(\.consumer.name) == ["sync"])
        #expect(consumers.map(\.unread) == [2])
        let careful = try await world.stores[0].purge(.days(30))
        #expect(careful.heldBackBy.map(\.name) == ["sync"])
        #expect(try await world.stores[0].status().transactions == 2)
        let forced = try await world.stores[0].purge(.days(30), mode: .force)
        #expect(forced.transactions == 2)
        #expect(try await world.stores[0].status().outbox == 2)
        #expect(try await world.stores[0].verify() == [])
        try await world.sync(0)
        try await world.sync(1)
        #expect(try await world.stores[1].read { try Int.fetchOne($0, sql: "SELECT n FROM item") } == 3)
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
    }

    @Test("A purged replica goes on merging: conflicts, rebases and strangers' writes")
    func goesOn() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        for n in 1...4 {
            try await write(world.stores[0], n)
            try await write(world.stores[1], -n)
            _ = try await world.stores[n % 2].purge(.untilConsumed, mode: n == 3 ? .force : .respectingConsumers)
            try await world.sync(1)
            try await world.sync(0)
            _ = try await world.stores[0].purge(.untilConsumed)
            try await world.sync(1)
            #expect(try await world.stores[0].digest() == world.stores[1].digest())
            for store in world.stores { #expect(try await store.verify() == []) }
        }
        #expect(try await world.stores[0].conflicts().count == 4)
    }
}

@Suite("A repaired replica")
struct RepairedReplicaTests {
    @Test("compares its rows with the space's at the next sync, and loses no unsent work", arguments: [true, false])
    func repaired(isHistoryReadable: Bool) async throws {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE item(id TEXT PRIMARY KEY NOT NULL, n INT); INSERT INTO item VALUES('a', 0)")
        let store = world.stores[0]
        try await store.write { db in try db.execute(sql: "INSERT INTO item VALUES('b', 1)") }
        try await world.sync(0)
        try await store.write { db in try db.execute(sql: "UPDATE item SET n = 2 WHERE id = 'b'") }
        let damage = isHistoryReadable ? "DELETE FROM annals_transactions WHERE number = 1" : "DROP TABLE annals_transactions"
        let other = try DatabaseQueue(path: store.path)
        try await other.writeWithoutTransaction { db in try db.execute(sql: damage) }
        try other.close()
        let report = try await store.repair(store.repairPlan())
        #expect(report.steps.contains(.compareWithSpace))
        #expect(report.remaining?.map(\.code) == [.unseen])
        try await world.settle()
        #expect(try await store.verify() == [])
        #expect(try await world.stores[1].read { try Int.fetchOne($0, sql: "SELECT n FROM item WHERE id = 'b'") } == 2)
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
    }
}
