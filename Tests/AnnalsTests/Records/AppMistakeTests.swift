import Annals
import AnnalsStore
import GRDB
import Testing

private struct UserTag: Codable, Hashable, ActiveRecord {
    static let databaseTableName = "userTag"
    var user: Int64
    var tag: String
}

/// Does not implement `didInsert`.
private struct Item: Codable, Hashable, ActiveRecord {
    static let databaseTableName = "item"
    var id: Int64?
    var name: String
    var isFavorite = false
}

/// Knows nothing of favourites.
private struct Thing: Hashable, EntityConvertible {
    var id: Int64?
    var name: String

    func entity(updating stored: Item?) -> Item {
        var item = stored ?? Item(id: id, name: name)
        item.name = name
        return item
    }
}

private struct Nowhere: CompositeRecord, Equatable {
    struct Place: Codable, Equatable {}
    static let databaseColumnDecodingStrategy = DatabaseColumnDecodingStrategy.convertFromSnakeCase
    static let composites = [Composite("place", [:])]
    var name: String
    var place: Place?
}

/// A mistake of an app is an error that says what fits. It ends no process, and it is not called a defect of Annals.
@Suite struct AppMistakeTests {
    private func store() async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE userTag(user INTEGER, tag TEXT, PRIMARY KEY(user, tag));
                    CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, isFavorite INTEGER NOT NULL DEFAULT 0, upper TEXT AS (upper(name)));
                    """)
        }
        try await store.track(.all)
        return store
    }

    private func usage(_ words: String, _ body: () async throws -> Void) async {
        let error = await #expect(throws: AnnalsError.self) { try await body() }
        #expect(error?.code == .usage && error?.description.contains(words) == true, "\(String(describing: error))")
    }

    @Test func `one value for a key of two columns is refused`() async throws {
        let store = try await store()
        let words = "the primary key of userTag has 2 columns (user, tag), and the query gives one value"
        await usage(words) { _ = try await store.fetch(Query<UserTag>.id("x")) }
        await usage(words) { _ = try await store.first(Query<UserTag>.ids([1, 2])) }
        await usage(words) { _ = try await store.count(Query<UserTag>.id(1)) }
        await usage(words) { _ = try await store.exists(Query<UserTag>.id(1)) }
        await usage(words) { try await Store.withDefault(store) { _ = try await UserTag.fetch(id: 1) } }
        await usage(words) { _ = try await store.read { db in try Query<UserTag>.id(1).request.fetchAll(db) } }
        let item = try await store.write { db in try Item(name: "tea").insert(in: db) }
        #expect(try await store.fetch(Query<Item>.ids([item.id ?? 0, 99])) == [item])
    }

    @Test func `a limit, an offset and a page size are numbers from 0 or 1 on`() async throws {
        let store = try await store()
        await usage("must not be negative, and one is -1") { _ = try await store.fetch(Item.query.limit(-1)) }
        await usage("must not be negative, and one is -2") { _ = try await store.count(Item.query.limit(1, offset: -2)) }
        await usage("the page size must be at least 1") { _ = try await store.page(Item.query, size: 0) }
    }

    @Test func `a page of history, and a share of the file, are checked`() async throws {
        let store = try await store()
        await usage("the page size must be at least 1, and is 0") { for try await _ in store.history(pageSize: 0) {} }
        let half = HistoryRetention.untilConsumed.whenHistoryFraction(ofStoreExceeds: 50)
        await usage("must be between 0 and 1, and is 50.0") { try await store.setRetention(half) }
        await usage("must be between 0 and 1, and is 50.0") { _ = try await store.purge(half) }
        #expect(try await store.purge(.days(.max)).transactions == 0)
        #expect(try await store.purge(.untilConsumed.keepingAtLeast(.seconds(Int64.max))).transactions == 0)
    }

    @Test func `a cancelled call throws CancellationError`() async throws {
        let store = try await store()
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            _ = try await store.read { db in try Item.fetchCount(db) }
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        let writing = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await store.write { db in try db.execute(sql: "DELETE FROM item") }
        }
        await #expect(throws: CancellationError.self) { try await writing.value }
    }

    @Test func `a page mark belongs to one query`() async throws {
        let store = try await store()
        try await store.write { db in for name in ["a", "b", "c"] { try Item(name: name).insert(in: db) } }
        let mark = try #require(try await store.page(Item.query.ascending("name"), size: 1).next)
        for query in [
            Item.query, Item.query.descending("name"), Item.query.ascending("isFavorite"), Item.query.ascending("name", "id", "id"),
        ] {
            await usage("the page mark belongs to a query of item by name ascending, id ascending") {
                _ = try await store.page(query, after: mark, size: 1)
            }
        }
        await usage("this is a query of usertag by") { _ = try await store.page(UserTag.query, after: mark, size: 1) }
        #expect(try await store.page(Item.query.ascending("name"), after: mark, size: 1).items.map(\.name) == ["b"])
    }

    @Test func `a property that a composite lacks is named by the query`() async throws {
        let store = try await store()
        let place = Composite("place", ["city": .text])
        #expect(try Nowhere(row: ["name": "tea"]).name == "tea")
        await usage("the table item has no column place_town") { _ = try await store.fetch(Item.query.and(place["town"] == "x")) }
    }

    @Test func `a record gets the key that SQLite assigned`() async throws {
        let store = try await store()
        let keys = try await store.write { db in
            [
                try Item(name: "a").insert(in: db).id, try Item(name: "b").save(in: db).id, try Item(id: 7, name: "c").insert(in: db).id,
            ]
        }
        #expect(keys == [1, 2, 7])
        let result = try await store.execute(BatchInsertRequest([Item(name: "d"), Item(name: "e")], resultType: .identifiers))
        #expect(result.identifiers.map(\.key) == [[.integer(8)], [.integer(9)]])
    }

    @Test func `saving a value of the app keeps columns that it does not know`() async throws {
        let store = try await store()
        try await store.save(Thing(id: 1, name: "tea"))
        try await store.write { db in try db.execute(sql: "UPDATE item SET isFavorite = 1") }
        try await store.save(Thing(id: 1, name: "green tea"), Thing(name: "cup"))
        #expect(
            try await store.fetch(Item.query.ascending("id"))
                == [Item(id: 1, name: "green tea", isFavorite: true), Item(id: 2, name: "cup")])
        try await store.update(from: Thing(id: 1, name: "green tea"), to: Thing(id: 1, name: "tea"))
        #expect(try await store.first(Item.query)?.isFavorite == true)
    }

    @Test func `a statement that SQLite refuses is no defect of Annals`() async throws {
        let store = try await store()
        await usage("SQLite refused a statement: no such column: nam") {
            _ = try await store.read { db in try String.fetchAll(db, sql: "SELECT nam FROM item") }
        }
        await usage("SQLite refused a statement: near \"SELEC\": syntax error") {
            try await store.write { db in try db.execute(sql: "SELEC 1") }
        }
        await usage("cannot INSERT into generated column \"upper\"") {
            try await store.write { db in try db.execute(sql: "INSERT INTO item(name, upper) VALUES('a', 'A')") }
        }
        await usage("no such column: prise") {
            _ = try await store.execute(BatchUpdateRequest(Item.self) { [Column("prise").set(to: 1)] })
        }
    }

    @Test func `changes of a store without history are refused`() async throws {
        let store = try Store(inMemory: nil)
        let error = await #expect(throws: AnnalsError.self) { for try await _ in store.remoteChanges { break } }
        #expect(error?.code == .notTracked)
    }

    @Test func `a path in memory is refused`() async throws {
        await usage(":memory: is not a file") { _ = try Store(path: ":memory:") }
    }
}
