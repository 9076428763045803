import Annals
import Foundation
import Synchronization
import Testing

private struct Person: Codable, Identifiable, ActiveRecord {
    var id: Int64
    var name: String
    var nickname: String?
    var age = 18
}

extension Query where Record == Person {
    static let adults = all.and(Column("age") >= 18).ascending("name")
}

extension Query where Record == Person {
    static let byName = all.ascending("name")
}

/// The examples in the documentation of queries, records and batches, unchanged.
@Suite("The reference's examples: records")
struct RecordExamples {
    private func people() async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT UNIQUE, nickname TEXT, age INTEGER NOT NULL DEFAULT 18, email TEXT UNIQUE);
                    INSERT INTO person (id, name, nickname, age) VALUES (1, 'Ada', 'A', 36), (2, 'Ben', 'B', 12), (3, 'Cleo', NULL, 40);
                    """)
        }
        try await store.track(.all)
        return store
    }

    @Test("queries are values, and come in pages")
    func queries() async throws {
        let store = try await people()
        do {
            let page = try await store.fetch(.adults.limit(20))
            #expect(page.map(\.name) == ["Ada", "Cleo"])
        }
        let adults = try await store.fetch(Person.query.and(Column("age") >= 18).ascending("name"))
        #expect(adults.map(\.id) == [1, 3])
        var page = try await store.page(.byName, size: 50)
        while let next = page.next { page = try await store.page(.byName, after: next, size: 50) }
        #expect(page.items.count == 3)
        for try await people in store.pages(of: .byName, size: 500) { print(people.count) }
    }

    @Test("a patch writes what it names")
    func patches() async throws {
        let store = try await people()
        let person = try #require(try await store.fetch(.adults).last)
        try await store.write { db in try db.execute(sql: "DELETE FROM person WHERE name = 'Ada'") }
        var patch = Patch<Person>()
        patch.set("name", to: "Ada")
        patch.set("nickname", to: nil as String?)
        try await store.apply(patch, to: person.id)
        #expect(try await store.fetch(.adults).map(\.name) == ["Ada"])
    }

    @Test("a record writes itself, on the default store too")
    func activeRecords() async throws {
        struct Person: Codable, Identifiable, ActiveRecord { var id: UUID; var name: String }
        let store = try Store(inMemory: nil)
        try await store.write { db in try db.execute(sql: "CREATE TABLE person (id BLOB PRIMARY KEY NOT NULL, name TEXT)") }
        try await store.track(.all)
        let people = [Person(id: UUID(), name: "Ben"), Person(id: UUID(), name: "Cleo")]
        try await Store.withDefault(store) {
            try await Person(id: UUID(), name: "Ada").insert()
            try await store.write(author: "import") { db in
                for person in people { try person.save(in: db) }
            }
        }
        #expect(try await Store.withDefault(store) { try await Person.count() } == 3)
        let person = Person(id: UUID(), name: "Dora")
        try await Store.withDefault(store) { try await person.insert() }
        #expect(try await Store.withDefault(store) { try await Person.count() } == 4)
    }

    @Test("a foreign key has a rule for deletes")
    func deleteRules() async throws {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.create(table: "customer") { t in t.primaryKey("id", .blob) }
            try db.create(table: "invoice") { t in
                t.primaryKey("id", .blob)
                t.belongsTo("customer", deleteRule: .deny)
            }
            try db.execute(sql: "INSERT INTO customer VALUES (x'01'); INSERT INTO invoice VALUES (x'02', x'01')")
        }
        try await store.track(.all)
        await #expect { try await store.write { db in try db.execute(sql: "DELETE FROM customer") } } throws: {
            ($0 as? AnnalsError)?.code == .constraint
        }
    }

    @Test("a composite is columns of its own")
    func composites() async throws {
        struct Address: Codable { var street: String?; var city: String? }
        struct Customer: Codable, FetchableRecord, PersistableRecord, CompositeRecord {
            var id: UUID
            var address: Address?
            static let address = Composite("address", ["street": .text, "city": .text])
            static var composites: [Composite] { [address] }
        }
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.create(table: "customer") { t in
                t.primaryKey("id", .blob)
                t.composite(Customer.address)
            }
            try Customer(id: UUID(), address: Address(street: "Elm", city: "Berlin")).insert(db)
        }
        let inBerlin = Customer.query.and(Customer.address["city"] == "Berlin")
        #expect(try await store.fetch(inBerlin).map(\.address?.street) == ["Elm"])
    }

    @Test("batches insert, update and delete")
    func batches() async throws {
        let store = try await people()
        struct Item: Codable, TableRecord {}
        struct Session: Codable, TableRecord {}
        struct Person: Codable, PersistableRecord { var name: String; var email: String }
        try await store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE item (id INTEGER PRIMARY KEY, category TEXT, price REAL);
                    INSERT INTO item VALUES (1, 'tea', 10), (2, 'coffee', 10);
                    CREATE TABLE session (id INTEGER PRIMARY KEY, ended INTEGER);
                    INSERT INTO session VALUES (1, 100), (2, 300);
                    """)
        }
        try await store.track(.all)
        let limit = 200
        do {
            let result = try await store.execute(BatchDeleteRequest(Session.self) { $0.filter(Column("ended") < limit) })
            #expect(result.count == 1)
        }
        do {
            let request = BatchUpdateRequest(Item.self) {
                [Column("price").set(to: Column("price") * 1.1)]
            } where: {
                $0.filter(Column("category") == "tea")
            }
            let result = try await store.execute(request, author: "prices")
            #expect(result.count == 1)
        }
        final class Reader: Sendable {
            private let people = Mutex([Person(name: "Dora", email: "dora@example.org"), Person(name: "Emil", email: "emil@example.org")])
            func next() throws -> Person? { people.withLock { $0.popLast() } }
        }
        let reader = Reader()
        let request = BatchInsertRequest(Person.self, onConflict: .update(["name"], of: ["email"])) { try reader.next() }
        let result = try await store.execute(request, author: "import")
        print(result.count, result.token as Any)
        #expect(result.count == 2)
    }
}
