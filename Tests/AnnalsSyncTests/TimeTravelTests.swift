import AnnalsCore
import AnnalsHistory
import AnnalsRows
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import Testing

/// Blame and revert after a rebase, and for entries of other replicas.
@Suite struct TimeTravelTests {
    private func world() async throws -> SyncedStores {
        try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, city TEXT, email TEXT UNIQUE);
                INSERT INTO customer VALUES(1, 'Vera', 'Lyon', 'v@'), (2, 'Luis', 'Cork', 'l@');
                """)
    }

    private func write(_ world: SyncedStores, _ index: Int, _ author: String, _ sql: String) async throws {
        world.clock.advance(.seconds(1))
        try await world.stores[index].write(author: author) { try $0.execute(sql: sql) }
    }

    private func writers(_ store: Store, _ key: Int64) async throws -> [String: String] {
        var writers: [String: String] = [:]
        for column in try await store.blame(table: "customer", key: [.integer(key)]).columns {
            switch column.writer {
            case .transaction(let transaction): writers[column.name] = "\(transaction.author ?? "?") \(transaction.origin.name)"
            case .beforeHistory: writers[column.name] = "before"
            case .columnDefault: writers[column.name] = "default"
            }
        }
        return writers
    }

    @Test func `work without an author has none on other replicas, and the name of its replica`() async throws {
        let world = try await world()
        try world.outside(1, "UPDATE customer SET city = 'Oslo' WHERE id = 1")
        try await world.stores[1].write { db in try db.execute(sql: "UPDATE customer SET name = 'Ada' WHERE id = 1") }
        try await world.settle()
        let there = try await writers(world.stores[0], 1)
        #expect(there["city"] == "? imported" && there["name"] == "? imported")
        #expect(try await writers(world.stores[1], 1)["city"] == "? external")
        let imported = try await world.stores[0].read { try HistoryReader($0).transactions(HistoryRequest().origins(.imported)) }
        let replicas = try await world.stores[0].replicaNames()
        #expect(imported.map(\.author) == [nil, nil] && imported.map { replicas.name(of: $0) } == ["r1", "r1"])
        try await world.stores[0].leave()
        let known = try await world.stores[0].replicaNames()
        #expect(known.own == nil && imported.map { known.name(of: $0) } == ["r1", "r1"])
    }

    @Test func `what a rebase laid on again is its author's, not the rebase's`() async throws {
        let world = try await world()
        try await write(
            world, 1, "Ann", "UPDATE customer SET city = 'Oslo' WHERE id = 1; INSERT INTO customer VALUES(7, 'New', 'Bonn', 'n@')")
        try await write(world, 1, "Bo", "UPDATE customer SET email = 'x@' WHERE id = 1")
        try await write(world, 0, "Cy", "UPDATE customer SET name = 'Eva' WHERE id = 1")
        try await world.sync(0)
        try await world.sync(1)
        try await world.settle()
        let origins = try await world.stores[1].read { try HistoryReader($0).transactions(HistoryRequest()).map(\.origin.name) }
        #expect(origins.contains("rebase"))
        #expect(
            try await writers(world.stores[1], 1) == ["id": "before", "name": "Cy imported", "city": "Ann local", "email": "Bo local"])
        #expect(
            try await writers(world.stores[1], 7) == ["id": "Ann local", "name": "Ann local", "city": "Ann local", "email": "Ann local"])
        #expect(
            try await writers(world.stores[0], 1) == ["id": "before", "name": "Cy local", "city": "Ann imported", "email": "Bo imported"])
    }

    @Test func `a row that a rebase renumbered keeps its authors`() async throws {
        let world = try await world()
        try await write(world, 0, "Cy", "INSERT INTO customer VALUES(7, 'Theirs', 'Rome', 'n@')")
        try await world.sync(0)
        try await write(world, 1, "Ann", "INSERT INTO customer VALUES(7, 'New', 'Bonn', 'm@')")
        try await write(world, 1, "Bo", "UPDATE customer SET city = 'Oslo' WHERE id = 7")
        try await world.settle()
        let name = try await world.rows(1, "SELECT id FROM customer WHERE name = 'New'")
        #expect(name != [[7.databaseValue]] && name.count == 1)
        let key = try #require(Int64.fromDatabaseValue(name[0][0]))
        let own = try await writers(world.stores[1], key)
        #expect(own["name"] == "Ann local" && own["email"] == "Ann local" && own["city"] == "Bo local", "\(own)")
        let other = try await writers(world.stores[0], key)
        #expect(other["name"] == "Ann imported" && other["city"] == "Bo imported", "\(other)")
        #expect(try await writers(world.stores[1], 7)["name"] == "Cy imported")
    }

    @Test func `a reverted import is the same on both replicas, and reverted again too`() async throws {
        let world = try await world()
        let before = try await world.stores[0].digest()
        try await write(world, 1, "Ann", "UPDATE customer SET email = 't' WHERE id = 1; UPDATE customer SET email = 'v@' WHERE id = 2")
        try await write(world, 1, "Ann", "UPDATE customer SET email = 'l@' WHERE id = 1; DELETE FROM customer WHERE id = 2")
        try await world.settle()
        let after = try await world.stores[0].digest()
        let numbers = try await world.stores[0].read { try HistoryReader($0).transactions(HistoryRequest()).map(\.number) }
        for number in numbers.reversed() { try await world.stores[0].revert(transaction: number, author: "Cy") }
        #expect(try await world.stores[0].digest() == before)
        try await world.settle()
        #expect(try await world.stores[1].digest() == before)
        let reverts = try await world.stores[1].read { db in
            try HistoryReader(db).transactions(HistoryRequest().authors("Cy")).map(\.number)
        }
        #expect(reverts.count == 2)
        for number in reverts.reversed() { try await world.stores[1].revert(transaction: number) }
        try await world.settle()
        for store in world.stores {
            #expect(try await store.digest() == after)
            #expect(try await store.verify().isEmpty)
        }
    }

    @Test func `a revert and later work of another that met are settled like any two transactions`() async throws {
        let world = try await world()
        try await write(world, 0, "Ann", "UPDATE customer SET city = 'Rome', name = 'R' WHERE id = 1")
        try await world.settle()
        let number = try await world.stores[0].latestToken().description.prefix { $0 != "-" }
        try await world.stores[0].revert(transaction: try #require(Int64(number)))
        try await write(world, 1, "Bo", "UPDATE customer SET city = 'Oslo' WHERE id = 1")
        try await world.settle()
        for index in 0..<2 {
            #expect(
                try await world.rows(index, "SELECT name, city FROM customer WHERE id = 1") == [
                    ["Vera".databaseValue, "Oslo".databaseValue]
                ])
        }
        #expect(try await world.stores[0].digest() == world.stores[1].digest())
        #expect(try await world.stores[0].conflicts().count == 1)
    }
}
