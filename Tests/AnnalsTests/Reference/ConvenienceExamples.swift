import Annals
import Foundation
import Synchronization
import Testing

private struct Person: Codable, Hashable, Identifiable, ActiveRecord {
    static let databaseTableName = "person"
    var id: UUID
    var name: String
    var age: Int = 20
    var email: String?
}

private struct Trip: Codable, Hashable, Identifiable, ActiveRecord {
    static let databaseTableName = "trip"
    var id: Int64?
    var km: Double
}

private struct Task: Codable, Hashable, Identifiable, ActiveRecord {
    static let databaseTableName = "task"
    var id: Int64?
    var title: String
    var list: String
}

private struct Stock: Codable, Identifiable, ActiveRecord {
    static let databaseTableName = "stock"
    var id: Int64
    var count: Int

    func with(count: Int) -> Stock { Stock(id: id, count: count) }
}

private struct SoldOut: Error {}

private final class Seen: Sendable {
    private let all = Mutex<[[String]]>([])

    func withLock<T: Sendable>(_ body: (inout sending [[String]]) -> sending T) -> T { all.withLock(body) }
}

/// The examples of short ways and of the page "Which verbs when", unchanged.
@Suite("The reference's examples: conveniences")
struct ConvenienceExamples {
    private func withTables(_ store: Store) async throws {
        try await store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE person (id BLOB PRIMARY KEY DEFAULT (randomblob(16)), name TEXT, age INTEGER NOT NULL DEFAULT 20, email TEXT);
                    CREATE TABLE trip (id INTEGER PRIMARY KEY, km REAL NOT NULL);
                    CREATE TABLE task (id INTEGER PRIMARY KEY, title TEXT NOT NULL, list TEXT NOT NULL);
                    CREATE TABLE stock (id INTEGER PRIMARY KEY, count INTEGER NOT NULL);
                    INSERT INTO trip VALUES (1, 5), (2, 6);
                    INSERT INTO stock VALUES (17, 3);
                    INSERT INTO task VALUES (1, 'Milk', 'home');
                    """)
        }
        try await store.track(.all)
    }

    @Test("a child context gives its edits to its parent, and a save is reverted")
    func child() async throws {
        let shop = try await Shop()
        let store = shop.store
        let invoice = try #require(try await store.read { db in try Invoice.fetchOne(db, key: 17) })
        do {
            let context = try await store.editContext(author: "till 3")
            _ = try await context.fetch(Invoice.all())
            let sheet = context.child()
            try sheet.edit(invoice) { $0.isPaid = true }
            try await sheet.save()
            try await context.save()
        }
        #expect(try await shop.isPaid(17) == true)
        let context = try await store.editContext(author: "ann")
        let paid = try #require(try await context.fetchOne(Invoice.filter(key: 17)))
        try context.edit(paid) { $0.isPaid = false }
        let saved = try await context.save()
        if let token = saved.token { try await store.revert(token) }
        #expect(try await shop.isPaid(17) == true)
        try await store.write(author: "ann") { db in try db.execute(sql: "UPDATE invoice SET isPaid = 0") }
        try await store.undo(by: "ann")
        try await store.redo(by: "ann")
        #expect(try await shop.isPaid(17) == false)
    }

    @Test("a text is found without its accents")
    func text() async throws {
        let store = try await Shop().store
        try await store.write { db in try db.execute(sql: "INSERT INTO customer VALUES (8, 'Café Nord')") }
        let found = try await store.fetch(Customer.query.text("name", .contains, "cafe"))  // also "Café Nord"
        #expect(found.map(\.id) == [8])
    }

    @Test("a sheet is saved into its context, as the page about verbs says")
    func sheet() async throws {
        let shop = try await Shop()
        try await edit(shop.store)
        #expect(try await shop.isPaid(17) == true)
    }

    private func edit(_ store: Store) async throws {
        let context = try await store.editContext(author: "till 3")
        guard let invoice = try await context.fetchOne(Invoice.filter(key: 17)) else { return }
        let sheet = context.child()
        try sheet.edit(invoice) { $0.isPaid = true }
        try await sheet.save()
        try await context.save()
    }

    @Test("changes and lists of a context are observed")
    func observed() async throws {
        final class Button: @unchecked Sendable { var isEnabled = false }
        let (store, saveButton) = (try Store(inMemory: nil), Button())
        try await withTables(store)
        let context = try await store.editContext()
        try context.insert(Task(title: "Tea", list: "home"))
        let buttons = _Concurrency.Task {
            for await _ in context.changes() { saveButton.isEnabled = context.hasChanges }
        }
        while !saveButton.isEnabled { await _Concurrency.Task.yield() }
        buttons.cancel()
        let shown = Seen()
        @Sendable func show(_ snapshot: FetchedResultsSnapshot<String, Task>) {
            let item = snapshot.item(at: [0, 3])
            shown.withLock { $0.append(snapshot.allItems.map(\.title) + (item.map { [$0.title] } ?? [])) }
        }
        let showing = _Concurrency.Task {
            for try await snapshot in FetchedResults(Task.query.ascending("title"), in: context, sectionBy: \.list) { show(snapshot) }
        }
        while shown.withLock({ $0.isEmpty }) { await _Concurrency.Task.yield() }
        showing.cancel()
        try await showing.value
        #expect(shown.withLock { $0.first } == ["Milk", "Tea"])
    }

    @Test("rows and values are found in short ways")
    func short() async throws {
        let store = try Store(inMemory: nil)
        try await withTables(store)
        let request = BatchInsertRequest(Person.self, rows: [["email": "ada@example.org", "name": "Ada"]])
        #expect(try await store.execute(request).count == 1)
        let names = try await store.fetch(Person.select(Column("name"), as: String.self).distinct())
        let total = try await store.first(Trip.query.request.select(sum(Column("km")), as: Double.self))
        #expect(names == ["Ada"] && total == 11)
        try await store.write { db in
            let trip = try Trip(km: 7).insert(in: db)
            let identifier = try trip.persistentIdentifier(in: db)
            #expect(identifier?.description == "trip(3)")
        }
    }

    @Test("a store is opened by a URL and observed, and a change is read by column")
    func stores() async throws {
        let shop = try await Shop()
        let folder = URL(filePath: shop.path).deletingLastPathComponent()
        let store = try Store(url: folder.appending(component: "shop.db"))
        try await store.write { db in
            let identifier = PersistentIdentifier(table: "invoice", key: [.integer(17)])
            let invoice = try identifier.fetch(Invoice.self, in: db)
            #expect(invoice?.isPaid == false)
        }
        try await store.write { db in try db.execute(sql: "UPDATE item SET price = 5 WHERE id = 1") }
        let changes = try await store.read { db in
            let reader = try HistoryReader(db)
            return try reader.transactions(HistoryRequest()).flatMap { try reader.changes(in: $0) }
        }
        for change in changes {
            if let price = change["price"] { print(price.old ?? .null, "→", price.new ?? .null) }
        }
        try await withTables(try Store(inMemory: "people"))
        try await store.write { db in try db.execute(sql: "CREATE TABLE person (name TEXT)") }
        let shown = Seen()
        @Sendable func show(_ names: [String]) { shown.withLock { $0.append(names) } }
        let watching = _Concurrency.Task {
            let names = ValueObservation.tracking { db in try String.fetchAll(db, sql: "SELECT name FROM person") }
            for try await names in names.values(in: store.reader) { show(names) }
        }
        while shown.withLock({ $0.isEmpty }) { await _Concurrency.Task.yield() }
        watching.cancel()
        try? await watching.value
        #expect(shown.withLock { $0.first } == [])
    }

    @Test("the page about verbs")
    func verbs() async throws {
        let store = try Store(inMemory: nil)
        try await withTables(store)
        try await store.write(author: "till 3") { db in
            let stock = try Stock.fetch(id: 17, in: db)
            guard stock.count > 0 else { throw SoldOut() }
            try stock.with(count: stock.count - 1).update(in: db)
        }
        #expect(try await store.first(Stock.query)?.count == 2)
        try await Store.withDefault(store) {
            try await Person(id: UUID(), name: "Ada").insert()
            let adults = try await Person.fetch(Person.query.and(Column("age") >= 18))
            #expect(adults.count == 1)
        }
    }
}
