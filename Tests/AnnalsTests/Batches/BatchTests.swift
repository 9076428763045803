import Annals
import Foundation
import Synchronization
import Testing

private struct Guest: Codable, PersistableRecord, FetchableRecord, Sendable, Equatable {
    static let databaseTableName = "person"
    static let pets = hasMany(Animal.self, using: ForeignKey(["owner"]))
    var id: Int64?
    var email: String
    var name: String
    var age: Int = 0
}

private struct Animal: TableRecord {
    static let databaseTableName = "pet"
    static let owner = belongsTo(Guest.self, using: ForeignKey(["owner"]))
}

private struct Seat: TableRecord {
    static let databaseTableName = "seat"
    static let person = belongsTo(Guest.self, using: ForeignKey(["person"]))
}

@Suite("Batches")
struct BatchTests {
    private func store() async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE person (id INTEGER PRIMARY KEY, email TEXT NOT NULL UNIQUE, name TEXT NOT NULL, age INTEGER NOT NULL);
                    CREATE TABLE pet (id INTEGER PRIMARY KEY, owner INTEGER REFERENCES person(id) ON DELETE CASCADE);
                    CREATE TABLE loan (id INTEGER PRIMARY KEY, person INTEGER NOT NULL REFERENCES person(id) DEFERRABLE INITIALLY DEFERRED);
                    """)
        }
        try await store.track(.all)
        return store
    }

    private func people(_ names: String...) -> [Guest] {
        names.map { Guest(email: "\($0)@example.org", name: $0) }
    }

    private func all(_ store: Store) async throws -> [String] {
        try await store.read { db in try String.fetchAll(db, sql: "SELECT name || ' ' || age FROM person ORDER BY id") }
    }

    @Test("name only rows whose values are different now")
    func unchanged() async throws {
        let store = try await store()
        try await store.execute(BatchInsertRequest(people("ada", "bob", "cleo")))
        try await store.write { db in try db.execute(sql: "UPDATE person SET age = 30 WHERE name = 'bob'") }
        let request = BatchUpdateRequest(Guest.self, resultType: .identifiers) { [Column("age").set(to: 30)] }
        let result = try await store.execute(request)
        #expect(result.identifiers.map(\.key) == [[.integer(1)], [.integer(3)]] && result.count == 2)
        let again = try await store.execute(request)
        #expect(again.identifiers.isEmpty && again.count == 0)
        // Row 3 gets the key of a row that is not selected, and the values stay with the old key.
        let moved = BatchUpdateRequest(Guest.self, resultType: .identifiers) {
            [Column("id").set(to: 9)]
        } where: {
            $0.filter(key: 3)
        }
        #expect(try await store.execute(moved).identifiers.map(\.key) == [[.integer(9)]])
        let limited = BatchUpdateRequest(Guest.self, resultType: .identifiers) {
            [Column("age").set(to: 31)]
        } where: {
            $0.order(Column("id")).limit(1)
        }
        #expect(try await store.execute(limited).identifiers.map(\.key) == [[.integer(1)]])
    }

    @Test("write a value that only its column's collation finds equal")
    func collated() async throws {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.execute(sql: "CREATE TABLE person(id INTEGER PRIMARY KEY, email TEXT UNIQUE, name TEXT COLLATE NOCASE, age INTEGER)")
        }
        try await store.track(.all)
        try await store.execute(BatchInsertRequest([Guest(email: "a@example.org", name: "ada")]))
        let upsert = BatchInsertRequest([Guest(email: "a@example.org", name: "Ada")], onConflict: .update(["name"], of: ["email"]))
        #expect(try await store.execute(upsert).count == 1)
        #expect(try await all(store) == ["Ada 0"])
    }

    @Test("insert as one transaction of history with its author, and say how many, which and where history stands")
    func insert() async throws {
        let store = try await store()
        let result = try await store.execute(
            BatchInsertRequest(people("ada", "bob", "cleo"), resultType: .identifiers), author: "import", contextName: "first")
        #expect(result.count == 3)
        #expect(result.identifiers == (1...3).map { PersistentIdentifier(table: "person", key: [.integer($0)]) })
        #expect(result.token == (try await store.latestToken()))
        var transactions: [HistoryTransaction] = []
        for try await transaction in store.history(HistoryRequest()) { transactions.append(transaction) }
        #expect(transactions.count == 1 && transactions[0].author == "import" && transactions[0].contextName == "first")
    }

    @Test("take records as they come, and undo all where the source or a constraint fails")
    func streaming() async throws {
        struct Broken: Error {}
        let store = try await store()
        let count = Mutex(0)
        let request = BatchInsertRequest(Guest.self) {
            let number = count.withLock { count in
                count += 1
                return count
            }
            return number <= 5_000 ? Guest(email: "\(number)", name: "n") : nil
        }
        #expect(try await store.execute(request).count == 5_000)
        let failing = BatchInsertRequest(Guest.self) {
            let number = count.withLock { count in
                count += 1
                return count
            }
            if number > 5_010 { throw Broken() }
            return Guest(email: "more \(number)", name: "n")
        }
        await #expect(throws: Broken.self) { try await store.execute(failing) }
        await #expect { try await store.execute(BatchInsertRequest(people("x", "y", "x"))) } throws: {
            ($0 as? AnnalsError)?.code == .constraint
        }
        #expect(try await all(store).count == 5_000)
    }

    @Test("of records are values: each execution inserts all of them, on another store too, and after one that failed")
    func repeated() async throws {
        let (first, second) = (try await store(), try await store())
        let request = BatchInsertRequest(people("ada", "bob"))
        #expect(try await first.execute(request).count == 2)
        #expect(try await second.execute(request).count == 2)
        await #expect { try await first.execute(request) } throws: { ($0 as? AnnalsError)?.code == .constraint }
        try await first.write { db in try db.execute(sql: "DELETE FROM person WHERE name = 'ada'") }
        await #expect { try await first.execute(request) } throws: { ($0 as? AnnalsError)?.code == .constraint }
        try await first.write { db in try db.execute(sql: "DELETE FROM person") }
        #expect(try await first.execute(request).count == 2)
        #expect(try await all(first) == ["ada 0", "bob 0"])
    }

    @Test("upsert writes the named columns only, never replaces a row, and leaves alone what is equal")
    func upsert() async throws {
        let store = try await store()
        try await store.execute(BatchInsertRequest(people("ada", "bob")))
        try await store.write { db in try db.execute(sql: "UPDATE person SET age = 40; INSERT INTO pet VALUES (1, 1)") }
        let news = [
            Guest(email: "ada@example.org", name: "Ada"), Guest(email: "bob@example.org", name: "bob"), Guest(email: "new", name: "new"),
        ]
        let result = try await store.execute(
            BatchInsertRequest(news, onConflict: .update(["name"], of: ["email"]), resultType: .identifiers))
        #expect(result.count == 2)
        #expect(result.identifiers.map(\.key) == [[.integer(1)], [.integer(3)]])
        #expect(try await all(store) == ["Ada 40", "bob 40", "new 0"])
        #expect(try await store.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM pet") } == 1)
        // All columns except the key, for any constraint.
        try await store.execute(BatchInsertRequest([Guest(id: 2, email: "bob@example.org", name: "Bob", age: 1)], onConflict: .update()))
        #expect(try await all(store) == ["Ada 40", "Bob 1", "new 0"])
        let none = try await store.execute(BatchInsertRequest(news, onConflict: .ignore))
        #expect(none.count == 0 && none.token == nil)
    }

    @Test("update by expressions where a request says, and tell which rows")
    func update() async throws {
        let store = try await store()
        try await store.execute(BatchInsertRequest(people("ada", "bob", "cleo")))
        let request = BatchUpdateRequest(Guest.self, resultType: .identifiers) {
            [Column("age").set(to: Column("age") + Column("id") * 10)]
        } where: {
            $0.filter(Column("id") > 1)
        }
        let result = try await store.execute(request, author: "prices")
        #expect(result.count == 2 && result.identifiers.map(\.key) == [[.integer(2)], [.integer(3)]])
        #expect(try await all(store) == ["ada 0", "bob 20", "cleo 30"])
        let every = try await store.execute(BatchUpdateRequest(Guest.self, set: { [Column("age").set(to: 1)] }))
        #expect(every.count == 3 && every.identifiers.isEmpty && every.token != nil)
    }

    @Test("delete keeps the delete rules: cascades are done, and a row that others need makes all of it fail")
    func delete() async throws {
        let store = try await store()
        try await store.execute(BatchInsertRequest(people("ada", "bob", "cleo", "dan")))
        try await store.write { db in try db.execute(sql: "INSERT INTO pet VALUES (1, 1); INSERT INTO loan VALUES (1, 2)") }
        // Checked at commit.
        await #expect { try await store.execute(BatchDeleteRequest(Guest.self)) } throws: { ($0 as? AnnalsError)?.code == .constraint }
        #expect(try await all(store).count == 4)
        let some = try await store.execute(BatchDeleteRequest(Guest.self, resultType: .identifiers) { $0.filter(Column("id") != 2) })
        #expect(some.count == 3 && some.identifiers.map(\.key) == [[.integer(1)], [.integer(3)], [.integer(4)]])
        #expect(try await store.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM pet") } == 0)
        let named = try await store.execute(
            BatchDeleteRequest([
                PersistentIdentifier(table: "loan", key: [.integer(1)]), PersistentIdentifier(table: "loan", key: [.integer(9)]),
            ]))
        #expect(named.count == 1)
    }

    @Test(
        "with a limit take the first rows, and with nothing to set do nothing, whichever result is asked for",
        arguments: [BatchResultType.count, .identifiers])
    func limited(_ type: BatchResultType) async throws {
        let store = try await store()
        try await store.execute(BatchInsertRequest(people("ada", "bob", "cleo", "dan")))
        let nothing = try await store.execute(BatchUpdateRequest(Guest.self, resultType: type) { [] })
        #expect(nothing.count == 0 && nothing.identifiers.isEmpty && nothing.token == nil)
        let updated = try await store.execute(
            BatchUpdateRequest(Guest.self, resultType: type) {
                [Column("age").set(to: 5)]
            } where: {
                $0.filter(Column("name") != "cleo").order(Column("id").desc).limit(2)
            })
        #expect(updated.count == 2)
        #expect(try await all(store) == ["ada 0", "bob 5", "cleo 0", "dan 5"])
        let deleted = try await store.execute(
            BatchDeleteRequest(Guest.self, resultType: type) { $0.order(Column("id")).limit(1, offset: 1) })
        #expect(deleted.count == 1 && deleted.token != nil)
        #expect(try await all(store) == ["ada 0", "cleo 0", "dan 5"])
        if type == .identifiers {
            #expect(Set(updated.identifiers.map(\.key)) == [[.integer(2)], [.integer(4)]])
            #expect(deleted.identifiers.map(\.key) == [[.integer(2)]])
        }
    }

    @Test("select by what other rows say, with a limit and in tables without rowid, too", arguments: [BatchResultType.count, .identifiers])
    func associations(_ type: BatchResultType) async throws {
        let store = try await store()
        try await store.execute(BatchInsertRequest(people("ada", "bob", "cleo", "dan")))
        try await store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE seat (line TEXT, number INTEGER, person INTEGER REFERENCES person(id), note TEXT, PRIMARY KEY (line, number))
                        WITHOUT ROWID;
                    INSERT INTO seat VALUES ('a', 1, 1, ''), ('a', 2, 2, ''), ('b', 1, NULL, ''), ('b', 2, 2, '');
                    INSERT INTO pet VALUES (1, 1), (2, 1), (3, 2), (4, NULL);
                    """)
        }
        let withPets = try await store.execute(
            BatchUpdateRequest(Guest.self, resultType: type) {
                [Column("age").set(to: 1)]
            } where: {
                $0.having(Guest.pets.isEmpty == false)
            })
        #expect(withPets.count == 2)
        let first = try await store.execute(
            BatchUpdateRequest(Guest.self, resultType: type) {
                [Column("age").set(to: 2)]
            } where: {
                $0.having(Guest.pets.isEmpty == false).order(Column("id").desc).limit(1)
            })
        #expect(first.count == 1)
        #expect(try await all(store) == ["ada 1", "bob 2", "cleo 0", "dan 0"])
        let pets = try await store.execute(
            BatchDeleteRequest(Animal.self, resultType: type) {
                $0.including(required: Animal.owner.filter(Column("name") == "ada")).order(Column("id").desc).limit(1)
            })
        #expect(pets.count == 1)
        #expect(try await store.read { db in try Int.fetchAll(db, sql: "SELECT id FROM pet") } == [1, 3, 4])
        let seats = try await store.execute(
            BatchUpdateRequest(Seat.self, resultType: type) {
                [Column("note").set(to: "bob's")]
            } where: {
                $0.joining(required: Seat.person.filter(Column("name") == "bob"))
            })
        #expect(seats.count == 2)
        if type == .identifiers {
            #expect(pets.identifiers.map(\.key) == [[.integer(2)]])
            #expect(Set(seats.identifiers.map(\.key)) == [[.text("a"), .integer(2)], [.text("b"), .integer(2)]])
        }
    }

    @Test("no merging is needed: who watches the store is told of a batch as of any write")
    func watched() async throws {
        let store = try await store()
        var changes = store.remoteChanges.makeAsyncIterator()
        let result = try await store.execute(BatchInsertRequest(people("ada", "bob")))
        #expect(try await changes.next()?.token == result.token)
    }
}
