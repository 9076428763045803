import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import Testing

/// User decisions that break constraints that SQLite checks only at COMMIT, and the counts of lost values in a summary.
@Suite struct ResolvingTests {
    private func world() async throws -> SyncedStores {
        try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE team(id INTEGER PRIMARY KEY, name TEXT);
                CREATE TABLE person(
                    id INTEGER PRIMARY KEY, team INTEGER REFERENCES team(id) ON DELETE NO ACTION DEFERRABLE INITIALLY DEFERRED);
                INSERT INTO team VALUES(1, 'a'), (2, 'b'), (3, 'c');
                INSERT INTO person VALUES(10, 1);
                """)
    }

    private func items() async throws -> SyncedStores {
        try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price INTEGER); INSERT INTO item VALUES(1, 'tea', 3)"
        )
    }

    /// The second replica writes earlier than the first, and its transaction reaches the relay second.
    private func conflict(_ world: SyncedStores, first: String, second: String) async throws -> Conflict {
        try world.outside(1, second)
        _ = try await world.stores[1].prepareOutbox()
        world.clock.advance(.seconds(1))
        try world.outside(0, first)
        try await world.sync(0)
        try await world.sync(1)
        try await world.settle()
        return try #require(try await world.stores[0].conflicts().first)
    }

    private func expectRefusal(_ world: SyncedStores, _ conflict: Conflict, _ words: String) async throws {
        let before = try await world.stores[0].digest()
        let error = await #expect(throws: AnnalsError.self) { try await world.stores[0].resolve(conflict.id, taking: .incoming) }
        #expect(error?.code == .constraint && error?.message == words)
        #expect(try await world.stores[0].digest() == before)
        #expect(try await world.stores[0].conflicts().map(\.isResolved) == [false])
    }

    @Test func `a decision to delete a parent is refused while a deferred key refers to it`() async throws {
        let world = try await world()
        let conflict = try await conflict(
            world, first: "UPDATE team SET name = 'x' WHERE id = 3", second: "DELETE FROM team WHERE id = 3")
        try world.outside(0, "INSERT INTO person VALUES(11, 3)")
        try await expectRefusal(
            world, conflict, "the row id = 3 of team cannot be deleted: rows of person refer to it by FOREIGN KEY (team)")
        try world.outside(0, "DELETE FROM person WHERE id = 11")
        let settlement = try await world.stores[0].resolve(conflict.id, taking: .incoming)
        #expect(settlement == .changed(transaction: try await world.stores[0].latestToken().number))
        try await world.settle()
        #expect(try await world.rows(1, "SELECT id FROM team") == [[1.databaseValue], [2.databaseValue]])
    }

    @Test func `a decision is refused if its value refers to a deleted parent by a deferred key`() async throws {
        let world = try await world()
        let conflict = try await conflict(
            world, first: "UPDATE person SET team = 2 WHERE id = 10", second: "UPDATE person SET team = 3 WHERE id = 10")
        try world.outside(0, "DELETE FROM team WHERE id = 3")
        try await expectRefusal(
            world, conflict, "the row id = 10 of person cannot have these values: team has no matching row for FOREIGN KEY (team)")
    }

    @Test(arguments: [0, 1])
    func `an update of a deleted row inserts the row again, with its other columns`(_ number: Int) async throws {
        let world = try await items()
        let conflict = try await conflict(
            world, first: "UPDATE item SET name = 'cup' WHERE id = 1; DELETE FROM item WHERE id = 1",
            second: "UPDATE item SET price = 4 WHERE id = 1")
        #expect(conflict.entry.kind == .updateOfDeleted && conflict.entry.winner == .stored)
        _ = try await world.stores[number].resolve(conflict.id, taking: .incoming)
        try await world.settle()
        for store in 0...1 {
            // Only the store that deleted it knows what the row was between the two commits.
            let name = number == 0 ? "cup" : "tea"
            #expect(try await world.rows(store, "SELECT * FROM item") == [[1.databaseValue, name.databaseValue, 4.databaseValue]])
        }
    }

    @Test func `a decision about a deleted row can be changed back and forth`() async throws {
        let world = try await items()
        try world.outside(0, "DELETE FROM item WHERE id = 1")
        try await world.sync(0)
        world.clock.advance(.seconds(1))
        try world.outside(1, "UPDATE item SET price = 4 WHERE id = 1")
        try await world.settle()
        let conflict = try #require(try await world.stores[1].conflicts().first)
        #expect(conflict.entry.kind == .updateOfDeleted && conflict.entry.winner == .incoming)
        for number in [1, 0] {
            _ = try await world.stores[number].resolve(conflict.id, taking: .stored, again: true)
            try await world.settle()
            #expect(try await world.rows(1 - number, "SELECT count(*) FROM item") == [[0.databaseValue]])
            _ = try await world.stores[number].resolve(conflict.id, taking: .incoming, again: true)
            try await world.settle()
            #expect(try await world.rows(1 - number, "SELECT name, price FROM item") == [["tea".databaseValue, 4.databaseValue]])
        }
    }

    @Test func `all columns that are summed are named, if a constraint refuses one of them`() async throws {
        let world = try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE item(id INTEGER PRIMARY KEY, stock INTEGER CHECK (stock >= 0), sold INTEGER, name TEXT);
                INSERT INTO item VALUES(1, 2, 0, 'tea')
                """)
        try await world.stores[0].setPolicies(
            ["stock", "sold"].map { PolicySetting(table: "item", column: $0, aspect: .update, policy: "sum") })
        try await world.settle()
        try world.outside(0, "UPDATE item SET stock = stock - 2, sold = sold + 2")
        try await world.sync(0)
        world.clock.advance(.seconds(1))
        try world.outside(1, "UPDATE item SET stock = stock - 1, sold = sold + 1, name = 'cup'")
        try await world.settle()
        let found = try #require(try await world.stores[1].conflicts(limit: 10).first)
        #expect(found.sums.map { "\($0.column) \($0.changeText)" } == ["stock -1", "sold 1"])
        let error = await #expect(throws: AnnalsError.self) { try await world.stores[0].resolve(found.conflict.id, taking: .incoming) }
        #expect(error?.message.contains("is the changes of stock by -1 and of sold by 1, and no values") == true)
    }

    @Test(arguments: [0, 1])
    func `the other columns are not those of a later row with the key`(_ number: Int) async throws {
        let world = try await items()
        let conflict = try await conflict(
            world, first: "DELETE FROM item WHERE id = 1", second: "UPDATE item SET price = 4 WHERE id = 1")
        try world.outside(0, "INSERT INTO item VALUES(1, 'cake', 9)")
        try await world.settle()
        world.clock.advance(.seconds(1))
        try world.outside(1, "DELETE FROM item WHERE id = 1")
        try await world.settle()
        let error = await #expect(throws: AnnalsError.self) { try await world.stores[number].resolve(conflict.id, taking: .incoming) }
        #expect(error?.message.contains("deleted it, which is not the delete of conflict") == true, "\(String(describing: error))")
    }

    @Test func `a row of another replica with the same values is not the row that was set aside`() async throws {
        let world = try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE item(id INTEGER PRIMARY KEY, stock INTEGER CHECK (stock >= 0)); INSERT INTO item VALUES(8, 17);
                CREATE TABLE sale(id INTEGER PRIMARY KEY, item INTEGER, pieces INTEGER);
                """)
        try await world.stores[0].setPolicies([
            PolicySetting(table: "item", column: "stock", aspect: .update, policy: "sum"),
            PolicySetting(table: "item", aspect: .whole, policy: "yes"),
        ])
        try await world.settle()
        for store in world.stores {
            world.clock.advance(.seconds(1))
            try await store.write { db in
                try db.execute(sql: "UPDATE item SET stock = stock - 12; INSERT INTO sale(item, pieces) VALUES(8, 12)")
            }
        }
        try await world.settle()
        #expect(try await world.rows(0, "SELECT id FROM sale") == [[1.databaseValue]])
        let store = world.stores[1]
        let conflict = try #require(try await store.conflicts().first { $0.entry.table == "sale" })
        let error = await #expect(throws: AnnalsError.self) { try await store.resolve(conflict.id, taking: .incoming) }
        #expect(error?.message.contains("was not inserted, and a row of sale has its key id = 1 now") == true)
        #expect(try await store.conflicts().allSatisfy { !$0.isResolved })
        _ = try await store.resolve(conflict.id, taking: .incoming, setting: ["id": .integer(2)])
        try await world.settle()
        #expect(try await world.rows(0, "SELECT id FROM sale ORDER BY id") == [[1.databaseValue], [2.databaseValue]])
    }

    @Test func `a row that was set aside does not overwrite another row that has its key`() async throws {
        let world = try await SyncedStores(
            replicas: 2,
            schema: """
                CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT);
                CREATE TABLE purchase(id INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES customer(id) ON DELETE CASCADE, what TEXT);
                INSERT INTO customer VALUES(1, 'Ann'), (2, 'Bob');
                """)
        try world.outside(0, "DELETE FROM customer WHERE id = 2; INSERT INTO purchase VALUES(1, 1, 'tea')")
        try await world.sync(0)
        world.clock.advance(.seconds(1))
        try world.outside(1, "INSERT INTO purchase VALUES(1, 2, 'coffee')")
        try await world.settle()
        let conflicts = try await world.stores[0].conflicts()
        let conflict = try #require(conflicts.first { $0.entry.table == "purchase" && $0.entry.winner == .stored })
        try world.outside(0, "INSERT INTO customer VALUES(2, 'Bob')")
        try world.outside(0, "INSERT OR IGNORE INTO purchase VALUES(\(conflict.entry.key[0].integer ?? 0), 1, 'cake')")
        let store = world.stores[0]
        let before = try await store.digest()
        for side in [JournalEntry.Side.incoming, nil] {
            let error = await #expect(throws: AnnalsError.self) {
                try await store.resolve(conflict.id, taking: side, setting: side == nil ? ["what": .text("milk")] : [:])
            }
            #expect(
                error?.code == .constraint && error?.message.contains("was not inserted, and a row of purchase has its key") == true,
                "\(String(describing: error))")
            #expect(try await store.digest() == before)
        }
        // To confirm that there is no row changes nothing either.
        #expect(try await store.resolve(conflict.id, taking: .stored) == .agreed)
        #expect(try await store.digest() == before)
        _ = try await store.resolve(conflict.id, taking: .incoming, setting: ["id": .integer(9)], again: true)
        // The row under the old key is still another one.
        await #expect(throws: AnnalsError.self) { try await store.resolve(conflict.id, taking: .incoming, again: true) }
        #expect(try await store.resolve(conflict.id, taking: .stored) == .nothingToDo)
        try await world.settle()
        #expect(try await world.rows(1, "SELECT customer, what FROM purchase WHERE id = 9") == [[2.databaseValue, "coffee".databaseValue]])
        #expect(try await world.rows(1, "SELECT count(*) FROM purchase WHERE what = 'tea'") == [[1.databaseValue]])
    }

    @Test func `a change that is summed is no value for the row, also if all of its transaction was set aside`() async throws {
        let world = try await SyncedStores(
            replicas: 2,
            schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, stock INTEGER CHECK (stock >= 0)); INSERT INTO item VALUES(1, 7)")
        try await world.stores[0].setPolicies([
            PolicySetting(table: "item", column: "stock", aspect: .update, policy: "sum"),
            PolicySetting(table: "item", aspect: .whole, policy: "yes"),
        ])
        try await world.settle()
        try world.outside(0, "UPDATE item SET stock = stock - 6")
        try await world.sync(0)
        world.clock.advance(.seconds(1))
        try world.outside(1, "UPDATE item SET stock = stock - 7")
        try await world.settle()
        try world.outside(0, "UPDATE item SET stock = stock + 20")
        let conflict = try #require(try await world.stores[0].conflicts().last)
        let error = await #expect(throws: AnnalsError.self) { try await world.stores[0].resolve(conflict.id, taking: .incoming) }
        #expect(error?.code == .usage && error?.message.contains("is a change of stock by -7, and no value") == true)
        _ = try await world.stores[0].resolve(conflict.id, taking: .incoming, setting: ["stock": .integer(14)])
        try await world.settle()
        #expect(try await world.rows(1, "SELECT stock FROM item") == [[14.databaseValue]])
    }

    @Test func `all replicas count the same conflicts, and one counts a value as lost`() async throws {
        let world = try await world()
        try await world.addClone("r2")
        try world.outside(0, "UPDATE team SET name = 'x' WHERE id = 1")
        try await world.sync(0)
        world.clock.advance(.seconds(1))
        try world.outside(1, "UPDATE team SET name = 'y' WHERE id = 1")
        let winner = try await world.sync(1)
        #expect(winner.conflicts == 1 && winner.lost == 0)
        let (loser, other) = (try await world.sync(0), try await world.sync(2))
        #expect(loser.conflicts == 1 && loser.lost == 1)
        #expect(other.conflicts == 1 && other.lost == 0)
        for (summary, store) in zip([loser, winner, other], world.stores) {
            #expect(try await store.conflicts(limit: 9).map(\.conflict.id).first == summary.firstConflict)
        }
    }

    /// 'Bob' has won over 'Ann' in the row.
    private func named() async throws -> (SyncedStores, Conflict) {
        let world = try await items()
        for (number, name) in ["Ann", "Bob"].enumerated() {
            try await world.stores[number].write { db in try db.execute(sql: "UPDATE item SET name = ?", arguments: [name]) }
            try await world.sync(number)
            world.clock.advance(.seconds(1))
        }
        try await world.settle()
        return (world, try #require(try await world.stores[0].conflicts().first))
    }

    private func name(_ world: SyncedStores) async throws -> String? {
        try await world.settle()
        let rows = try await world.rows(0, "SELECT name FROM item")
        #expect(try await world.rows(1, "SELECT name FROM item") == rows)
        return rows.first?.first.flatMap { String.fromDatabaseValue($0) }
    }

    private func marks(_ world: SyncedStores) async throws -> [Conflict.Resolution?] {
        var marks: [Conflict.Resolution?] = []
        for store in world.stores { marks.append(try await store.conflicts().first?.resolution) }
        return marks
    }

    @Test(arguments: [0, 1])
    func `a decision that only marks gives way to one that changed the row`(_ first: Int) async throws {
        let (world, conflict) = try await named()
        #expect(try await world.stores[0].resolve(conflict.id, taking: .stored) != .agreed)
        #expect(try await world.stores[1].resolve(conflict.id, taking: .incoming) == .agreed)
        try await world.sync(first)
        #expect(try await world.sync(1 - first).replacedDecisions == (first == 0 ? 1 : 0))
        #expect(try await name(world) == "Ann")
        #expect(try await marks(world) == [.stored, .stored])
    }

    @Test(arguments: [0, 1], [0, 1])
    func `the mark is that of the decision whose value is in the row`(_ earlier: Int, _ first: Int) async throws {
        let (world, conflict) = try await named()
        for number in [earlier, 1 - earlier] {
            world.clock.advance(.seconds(1))
            if number == 0 {
                _ = try await world.stores[0].resolve(conflict.id, taking: .stored)
            } else {
                _ = try await world.stores[1].resolve(conflict.id, setting: ["name": .text("Cy")])
            }
        }
        try await world.sync(first)
        try await world.sync(1 - first)
        let found = try await name(world)
        #expect(found == (earlier == 0 ? "Cy" : "Ann"))
        #expect(try await marks(world) == (earlier == 0 ? [.values, .values] : [.stored, .stored]))
    }

    @Test func `a mark that differs from the row can be corrected`() async throws {
        let (world, conflict) = try await named()
        #expect(try await world.stores[0].resolve(conflict.id, taking: .incoming) == .agreed)
        try world.outside(1, "UPDATE item SET name = 'Ann'")
        try await world.settle()
        #expect(try await world.stores[1].resolve(conflict.id, taking: .stored) == .nothingToDo)
        #expect(try await world.stores[1].resolve(conflict.id, taking: .stored, again: true) == .agreed)
        #expect(try await name(world) == "Ann")
        #expect(try await marks(world) == [.stored, .stored])
        #expect(try await world.stores[1].resolve(conflict.id, taking: .stored, again: true) == .nothingToDo)
    }

    @Test func `a decision with a value of another column does not keep a choice that is not in the row`() async throws {
        let (world, conflict) = try await named()
        _ = try await world.stores[0].resolve(conflict.id, taking: .stored)
        _ = try await world.stores[1].resolve(conflict.id, taking: .incoming, setting: ["price": .integer(9)])
        try await world.sync(0)
        #expect(try await world.sync(1).replacedDecisions == 1)
        #expect(try await name(world) == "Ann")
        #expect(try await world.rows(0, "SELECT price FROM item") == [[9.databaseValue]])
        #expect(try await marks(world) == [.stored, .stored])
    }

    @Test func `the next sync of the replica that decided first counts the decision that replaced its own`() async throws {
        let (world, conflict) = try await named()
        _ = try await world.stores[0].resolve(conflict.id, taking: .incoming)
        _ = try await world.stores[1].resolve(conflict.id, taking: .stored)
        try await world.sync(0)
        #expect(try await world.sync(1).replacedDecisions == 0)
        #expect(try await world.sync(0).replacedDecisions == 1)
        #expect(try await name(world) == "Ann")
        #expect(try await marks(world) == [.stored, .stored])
    }
}
