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

    @Test(arguments: [true, false])
    func `a deleted row that two replicas restore is one row, and so are its children`(isReverted: Bool) async throws {
        let world = try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE bill(id INTEGER PRIMARY KEY, name TEXT);
                CREATE TABLE line(id INTEGER PRIMARY KEY, bill INTEGER REFERENCES bill(id) ON DELETE CASCADE, what TEXT);
                INSERT INTO bill VALUES(1, 'Ann'), (2, 'Bob'); INSERT INTO line VALUES(7, 2, 'tea'), (8, 2, 'cake');
                """)
        let point = try await world.stores[1].latestToken()
        try world.outside(0, "PRAGMA foreign_keys = ON; DELETE FROM bill WHERE id = 2")
        try await world.settle()
        for (index, store) in world.stores.enumerated() {
            let number = try await store.latestToken().number
            if index == 1, !isReverted { try await store.restore(to: point) } else { try await store.revert(transaction: number) }
            world.clock.advance(.seconds(1))
        }
        try await world.stores[1].write { db in try db.execute(sql: "UPDATE line SET what = 'scone' WHERE id = 8") }
        try await world.settle()
        for index in 0..<2 {
            #expect(try await world.rows(index, "SELECT id FROM bill") == [[1], [2]].map { $0.map(\.databaseValue) })
            let lines = try await world.rows(index, "SELECT id || ' ' || bill || ' ' || what FROM line")
            #expect(lines == [["7 2 tea".databaseValue], ["8 2 scone".databaseValue]])
            #expect(try await world.stores[index].conflicts().isEmpty)
            #expect(try await world.stores[index].verify() == [])
        }
    }

    @Test func `a row that another program inserted under a restored row's key is another row`() async throws {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE a(id INTEGER PRIMARY KEY, y); INSERT INTO a VALUES(1, 1), (2, 'x')")
        try world.outside(0, "DELETE FROM a WHERE id = 2")
        try await world.settle()
        try await world.stores[1].revert(transaction: world.stores[1].latestToken().number)
        try world.outside(0, "INSERT INTO a VALUES(2, 'x')")
        try await world.settle()
        #expect(try await world.rows(1, "SELECT y FROM a WHERE id > 1") == [["x".databaseValue], ["x".databaseValue]])
    }

    @Test(arguments: [true, false]) func `the values that the rebase found are restored`(isByAuthor: Bool) async throws {
        let world = try await world()
        let number = try #require(try await numbers(world.stores[1], HistoryRequest().authors("bob")).first)
        if isByAuthor { try await world.stores[1].revert(by: "bob") } else { try await world.stores[1].revert(transaction: number) }
        try await world.settle()
        for index in 0..<2 { #expect(try await world.rows(index, "SELECT y FROM a") == [[10.databaseValue]]) }
        #expect(try await world.stores[1].verify() == [])
    }

    @Test(arguments: [true, false])
    func `work of others is reverted after own work that a rebase repeated over it, and that is later work`(isByAuthor: Bool) async throws {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE a(id INTEGER PRIMARY KEY, y); INSERT INTO a VALUES(1, 1), (2, 2), (3, 3)")
        try await world.stores[0].write(author: "oops") { db in try db.execute(sql: "UPDATE a SET y = 0") }
        world.clock.advance(.seconds(1))
        try await world.stores[1].write(author: "ann") { db in try db.execute(sql: "UPDATE a SET y = 555 WHERE id = 3") }
        try await world.settle()
        let store = world.stores[1]
        let rebase = try #require(try await numbers(store, HistoryRequest().origins(.rebase)).last)
        let oops = try #require(try await numbers(store, HistoryRequest().authors("oops")).first)
        func revert() async throws {
            if isByAuthor { try await store.revert(by: "oops") } else { try await store.revert(transaction: oops) }
        }
        let error = await #expect(throws: AnnalsError.self) { try await revert() }
        let refusal = try #require(error?.underlying as? RevertRefusal)
        #expect(!refusal.isRebased && refusal.transactions.map(\.number) == [rebase], "\(String(describing: error))")
        #expect(error?.hint?.contains("revert \(rebase) (by ann") == true, "\(String(describing: error))")
        try await store.revert(transaction: rebase)
        try await revert()
        try await world.settle()
        for index in 0..<2 { #expect(try await world.rows(index, "SELECT y FROM a") == [[1], [2], [3]].map { $0.map(\.databaseValue) }) }
    }

    @Test func `a rebase because of another column changes nothing about a revert`() async throws {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE a(id INTEGER PRIMARY KEY, x, y); INSERT INTO a VALUES(1, 1, 1), (2, 2, 2), (3, 3, 3)")
        try await world.stores[0].write(author: "ann") { db in try db.execute(sql: "UPDATE a SET x = 10") }
        world.clock.advance(.seconds(1))
        try await world.stores[1].write(author: "bob") { db in
            try db.execute(sql: "UPDATE a SET y = 20 WHERE id = 1; DELETE FROM a WHERE id = 2; INSERT INTO a VALUES(4, 4, 4)")
        }
        try await world.settle()
        #expect(try await numbers(world.stores[1], HistoryRequest().origins(.rebase)).count == 2)
        try await world.stores[1].revert(by: "bob")
        try await world.settle()
        for index in 0..<2 {
            let rows = try await world.rows(index, "SELECT id, x, y FROM a ORDER BY id")
            #expect(rows == [1, 2, 3].map { [$0, 10, $0].map(\.databaseValue) }, "\(rows)")
        }
    }

    @Test func `one of several transactions that a rebase repeated together is refused, and all of them are not`() async throws {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE a(id INTEGER PRIMARY KEY, y); INSERT INTO a VALUES(1, 1)")
        try await world.stores[0].write(author: "ann") { db in try db.execute(sql: "UPDATE a SET y = 10") }
        world.clock.advance(.seconds(1))
        for value in [20, 30] {
            try await world.stores[1].write(author: "bob") { db in try db.execute(sql: "UPDATE a SET y = ?", arguments: [value]) }
        }
        try await world.settle()
        let bobs = try await numbers(world.stores[1], HistoryRequest().authors("bob").origins(.local))
        let rebase = try #require(try await numbers(world.stores[1], HistoryRequest().origins(.rebase)).last)
        let last = try #require(bobs.last)
        let error = await #expect(throws: AnnalsError.self) { try await world.stores[1].revert(transaction: last) }
        #expect(error?.code == .rowsDiffer)
        #expect(error?.hint?.contains("a rebase repeated this work with other work of this replica: revert \(rebase) instead") == true)
        #expect(try await world.rows(1, "SELECT y FROM a") == [[30.databaseValue]])
        #expect(try await world.stores[1].revert(by: "bob", isTrial: true).rows.updated == 1)
        try await world.stores[1].revert(transaction: rebase)
        try await world.settle()
        for index in 0..<2 { #expect(try await world.rows(index, "SELECT y FROM a") == [[10.databaseValue]]) }
    }

    @Test func `of work that a rebase did not repeat, nothing is left to undo`() async throws {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE a(id INTEGER PRIMARY KEY, y); INSERT INTO a VALUES(1, 1)")
        try await world.stores[1].write(author: "bob") { db in try db.execute(sql: "UPDATE a SET y = 20") }
        world.clock.advance(.seconds(1))
        try await world.stores[0].write(author: "ann") { db in try db.execute(sql: "UPDATE a SET y = 10") }
        try await world.sync(0)
        try await world.settle()
        #expect(try await world.rows(1, "SELECT y FROM a") == [[10.databaseValue]])
        #expect(try await world.stores[1].revert(by: "bob").rows.total == 0)
        let bobs = try #require(try await numbers(world.stores[1], HistoryRequest().authors("bob")).first)
        #expect(try await world.stores[1].revert(transaction: bobs).rows.total == 0)
        #expect(try await world.rows(1, "SELECT y FROM a") == [[10.databaseValue]])
    }

    @Test func `one column of entangled work can be reverted alone`() async throws {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE a(id INTEGER PRIMARY KEY, x, y); INSERT INTO a VALUES(1, 1, 1)")
        try await world.stores[0].write(author: "ann") { db in try db.execute(sql: "UPDATE a SET y = 10") }
        world.clock.advance(.seconds(1))
        for sql in ["UPDATE a SET x = 20, y = 20", "UPDATE a SET x = 30"] {
            try await world.stores[1].write(author: "bob") { db in try db.execute(sql: sql) }
        }
        try await world.settle()
        let first = try #require(try await numbers(world.stores[1], HistoryRequest().authors("bob")).first)
        try await world.stores[1].revert(transaction: first, part: RevertPart(table: "a", columns: ["y"]))
        try await world.settle()
        for index in 0..<2 { #expect(try await world.rows(index, "SELECT x, y FROM a") == [[30.databaseValue, 10.databaseValue]]) }
    }

    @Test func `the replica without a rebase returns to the same value`() async throws {
        let world = try await world()
        try await world.stores[0].revert(by: "bob")
        try await world.settle()
        for index in 0..<2 { #expect(try await world.rows(index, "SELECT y FROM a") == [[10.databaseValue]]) }
    }

    @Test func `the work of an author is reverted although rebases repeated each part of it`() async throws {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE p(id INTEGER PRIMARY KEY, price, name); INSERT INTO p VALUES(1, 1, 'a')")
        for (price, name) in [(100, "AA"), (101, "AAA")] {
            try await world.stores[0].write(author: "ann") { db in try db.execute(sql: "UPDATE p SET price = ?", arguments: [price]) }
            try await world.stores[1].write(author: "bob") { db in try db.execute(sql: "UPDATE p SET name = ?", arguments: [name]) }
            world.clock.advance(.seconds(1))
            try await world.settle()
        }
        #expect(try await numbers(world.stores[1], HistoryRequest().origins([.rebase])).count == 4)
        for store in world.stores.reversed() {
            let outcome = try await store.revert(HistoryRequest(), by: "bob", isTrial: true)
            #expect(outcome.rows.updated == 1 && outcome.forced == 0)
        }
        // One part of it is in the way of an earlier part.
        let first = try #require(try await numbers(world.stores[1], HistoryRequest().authors("bob")).first)
        let error = await #expect(throws: AnnalsError.self) { try await world.stores[1].revert(transaction: first, isTrial: true) }
        #expect(error?.hint?.contains("a rebase repeated this work") == false)
        _ = try await world.stores[1].revert(HistoryRequest(), by: "bob")
        try await world.settle()
        #expect(try await world.rows(0, "SELECT price, name FROM p") == [[101.databaseValue, "a".databaseValue]])
    }
}
