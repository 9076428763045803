import Annals
import Foundation
import Testing

@Suite("A composite attribute")
struct CompositeTests {
    struct Address: Codable, Hashable, Sendable {
        var street: String
        var city: String?
        var since: Date?
        var tags: [String]?
    }

    struct Customer: Codable, Identifiable, Hashable, ActiveRecord, CompositeRecord {
        var id: Int64
        var name: String?
        var home: Address
        var work: Address?

        static let home = Composite("home", ["street": .text, "city": .text, "since": .datetime, "tags": .text])
        static let work = Composite("work", ["street": .text, "city": .text, "since": .datetime, "tags": .text])
        static var composites: [Composite] { [home, work] }
    }

    private static let schema = """
        CREATE TABLE customer (
            id INTEGER PRIMARY KEY, name TEXT, home_street TEXT, home_city TEXT, home_since TEXT, home_tags TEXT,
            work_street TEXT, work_city TEXT, work_since TEXT, work_tags TEXT
        );
        """

    private func store() async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.create(table: "customer") { t in
                t.primaryKey("id", .integer)
                t.column("name", .text)
                t.composite(Customer.home)
            }
            try db.alter(table: "customer") { t in t.addComposite(Customer.work) }
            try db.create(index: "cities", on: "customer", columns: [Customer.home["city"].name])
        }
        try await store.track(.all)
        return store
    }

    @Test("is stored as columns of its own and comes back, also where it is absent")
    func roundTrip() async throws {
        let store = try await store()
        let date = Date(timeIntervalSince1970: 1_700_000_000.25)
        let home = Address(street: "Ring 1", city: nil, since: date, tags: ["a", "b"])
        let customers = [
            Customer(id: 1, name: nil, home: home, work: Address(street: "Hof 2", city: "Bonn", since: nil, tags: nil)),
            Customer(id: 2, name: "Bo", home: home, work: nil),
        ]
        try await store.write { db in for customer in customers { try customer.insert(in: db) } }
        #expect(try await store.fetch(Customer.query.ascending("id")) == customers)
        let row = try await store.read { db in
            try Row.fetchOne(db, sql: "SELECT * FROM customer WHERE id = 1").map { Dictionary(uniqueKeysWithValues: $0) }
        }
        #expect(row?["home_street"] == "Ring 1".databaseValue)
        #expect(row?["home_since"] == date.databaseValue)
        #expect(row?["home_tags"] == #"["a","b"]"#.databaseValue)
        #expect(row?["work_city"] == "Bonn".databaseValue)
        // Absent again: all its columns are NULL.
        var first = customers[0]
        first.work = nil
        first.name = "An"
        try await store.write { [first] db in try first.update(in: db) }
        #expect(try await store.fetch(Customer.query.ascending("id")) == [first, customers[1]])
        #expect(try await store.count(Customer.query.and(Customer.work["street"] == nil)) == 2)
    }

    struct Place: Codable, Hashable, Sendable {
        var streetName: String?
        var since: Date?
    }

    struct Guest: Codable, Identifiable, Hashable, ActiveRecord, CompositeRecord {
        var id: Int64
        var fullName: String
        var homePlace: Place?

        static let homePlace = Composite("homePlace", ["streetName": .text, "since": .datetime])
        static var composites: [Composite] { [homePlace] }
        static let databaseColumnEncodingStrategy = DatabaseColumnEncodingStrategy.convertToSnakeCase
        static let databaseColumnDecodingStrategy = DatabaseColumnDecodingStrategy.convertFromSnakeCase
    }

    @Test("has the columns it is declared with in the table, in what is written and in what is read, where a record renames its columns")
    func renamedColumns() async throws {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.create(table: "guest") { t in
                t.primaryKey("id", .integer)
                t.column("full_name", .text)
                t.composite(Guest.homePlace)
            }
        }
        try await store.track(.all)
        let place = Place(streetName: "Weg 1", since: Date(timeIntervalSince1970: 1_700_000_000))
        let guests = [Guest(id: 1, fullName: "Vera", homePlace: place), Guest(id: 2, fullName: "Bo")]
        try await store.write { db in for guest in guests { try guest.insert(in: db) } }
        #expect(try await store.fetch(Guest.query.ascending("id")) == guests)
        #expect(try await store.fetch(Guest.query.and(Guest.homePlace["streetName"] == "Weg 1")).map(\.id) == [1])
        var vera = guests[0]
        vera.fullName = "Vera B."
        try await store.write { [vera] db in try vera.update(in: db) }
        #expect(try await store.fetch(Guest.query.ascending("id")) == [vera, guests[1]])
    }

    @Test("is not taken for absent where a table calls all of its columns otherwise")
    func otherColumns() async throws {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE guest (id INTEGER PRIMARY KEY, full_name TEXT, home_place_street_name TEXT, home_place_since TEXT);
                    INSERT INTO guest VALUES (1, 'Vera', 'Weg 1', NULL)
                    """)
        }
        await #expect {
            try await store.fetch(Guest.query)
        } throws: {
            "\($0)".contains("homePlace_streetName")
        }
        await #expect(throws: (any Error).self) {
            try await store.write { db in try Guest(id: 2, fullName: "Bo", homePlace: Place(streetName: "Hof 2")).insert(in: db) }
        }
    }

    @Test("can be queried and indexed by its parts")
    func queried() async throws {
        let store = try await store()
        try await store.write { db in
            for (id, city) in [(1, "Bonn"), (2, "Ulm")] {
                try Customer(id: Int64(id), home: Address(street: "x", city: city)).insert(in: db)
            }
        }
        let query = Customer.query.and(Customer.home["city"] == "Ulm")
        #expect(try await store.fetch(query).map(\.id) == [2])
        let plan = try await store.read { db in
            let (sql, arguments) = try query.sql(db)
            return try Row.fetchAll(db, sql: "EXPLAIN QUERY PLAN " + sql, arguments: arguments).map { $0["detail"] as String }
        }
        #expect(plan.contains { $0.contains("cities") })
    }

    @Test("is merged column by column: two edits of different parts both stay")
    func merged() async throws {
        let space = try await TwoReplicas(schema: Self.schema)
        let ada = Customer(id: 1, home: Address(street: "Ring 1", city: "Bonn"), work: nil)
        try await space.stores[0].write { db in try ada.insert(in: db) }
        try await space.settle()
        try await space.stores[0].write { db in
            var mine = try Customer.fetch(id: 1, in: db)
            mine.home.street = "Hof 2"
            try mine.update(in: db)
        }
        try await space.stores[1].write { db in
            var theirs = try Customer.fetch(id: 1, in: db)
            theirs.home.city = "Ulm"
            try theirs.update(in: db)
        }
        try await space.settle()
        for store in space.stores {
            #expect(try await store.fetch(Customer.query).map(\.home) == [Address(street: "Hof 2", city: "Ulm")])
        }
        #expect(try await space.stores[0].conflicts(limit: 1).isEmpty)
    }
}

@Suite("A generated column")
struct GeneratedColumnTests {
    @Test("is computed on each replica, and neither history nor sync carry it")
    func excluded() async throws {
        let space = try await TwoReplicas(
            schema: """
                CREATE TABLE item (
                    id INTEGER PRIMARY KEY, price INTEGER, count INTEGER,
                    total INTEGER GENERATED ALWAYS AS (price * count) STORED, label TEXT AS ('no. ' || id) VIRTUAL
                );
                CREATE INDEX totals ON item (total);
                """)
        try await space.stores[0].write(author: "a") { db in try db.execute(sql: "INSERT INTO item (id, price, count) VALUES (1, 3, 2)") }
        try await space.settle()
        try await space.stores[1].write(author: "b") { db in try db.execute(sql: "UPDATE item SET count = 5") }
        try await space.settle()
        for store in space.stores {
            let (changes, row) = try await store.read { db in
                let reader = try HistoryReader(db)
                let changes = try reader.transactions(HistoryRequest().tables("item")).flatMap { try reader.changes(in: $0) }
                return (changes, try Row.fetchOne(db, sql: "SELECT total, label FROM item").map { [$0[0] as DatabaseValue, $0[1]] })
            }
            #expect(changes.map { $0.columns.map(\.name) } == [["id", "price", "count"], ["count"]])
            #expect(row == [15.databaseValue, "no. 1".databaseValue])
        }
    }
}
