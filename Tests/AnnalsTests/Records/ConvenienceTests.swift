import Annals
import Foundation
@testable import SeededRandom
import Testing

private struct Trip: Codable, Hashable, Identifiable, ActiveRecord {
    static let databaseTableName = "trip"
    enum Columns {
        static let name = Column("name")
        static let km = Column("km")
    }
    var id: Int64?
    var name: String
    var km: Double = 0
}

private struct Seat: Codable, Hashable, ActiveRecord {
    static let databaseTableName = "seat"
    var row: Int64
    var letter: String
}

/// Short ways for what an app does often.
@Suite struct ConvenienceTests {
    private func store() async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE trip(id INTEGER PRIMARY KEY, name TEXT NOT NULL, km REAL NOT NULL DEFAULT 1.5);
                    CREATE TABLE seat("row" INTEGER, letter TEXT, PRIMARY KEY("row", letter));
                    """)
        }
        try await store.track(.all)
        return store
    }

    @Test func `a store is opened by a URL, and the error of a missing file says how to create it`() async throws {
        let folder = try ScratchFolder()
        let url = URL(filePath: folder.file("a shop.db"))
        let error = #expect(throws: AnnalsError.self) { try Store(url: url) }
        #expect(error?.code == .fileNotFound && error?.hint?.contains("createIfMissing") == true)
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        #expect(try Store(url: url, configuration: configuration).path == folder.file("a shop.db"))
        let web = try #require(URL(string: "https://example.org/shop.db"))
        #expect(throws: AnnalsError.self) { try Store(url: web) }
    }

    @Test func `a record has its row's identifier, and the identifier fetches the record`() async throws {
        let store = try await store()
        #expect(Trip(name: "new").persistentIdentifier == nil)
        try await store.write { db in
            #expect(try Trip(name: "new").persistentIdentifier(in: db) == nil)
            let trip = try Trip(name: "Rome").insert(in: db)
            let identifier = try #require(trip.persistentIdentifier)
            #expect(try trip.persistentIdentifier(in: db) == identifier && "\(identifier)" == "trip(1)")
            #expect(try identifier.fetch(Trip.self, in: db) == trip)
            let seat = try Seat(row: 12, letter: "O'").insert(in: db)
            let place = try #require(try seat.persistentIdentifier(in: db))
            #expect("\(place)" == "seat(12, 'O''')")
            #expect(try place.fetch(Seat.self, in: db) == seat)
            #expect(try PersistentIdentifier(table: "trip", key: [.integer(9)]).fetch(Trip.self, in: db) == nil)
        }
        #expect([Value.null, .real(1.5), .blob([1, 2])].map(\.description) == ["NULL", "1.5", "blob of 2 bytes"])
    }

    @Test func `a change has columns by name, and an inserted or deleted row as a record`() async throws {
        let store = try await store()
        let start = try await store.latestToken()
        try await store.write { db in _ = try Trip(id: 1, name: "Rome", km: 7).insert(in: db) }
        try await store.write { db in try db.execute(sql: "UPDATE trip SET km = 8") }
        try await store.write { db in try db.execute(sql: "DELETE FROM trip") }
        let changes = try await store.read { db in
            let reader = try HistoryReader(db)
            return try reader.transactions(HistoryRequest(after: start)).flatMap { try reader.changes(in: $0) }
        }
        #expect(try changes[0].decode(Trip.self) == Trip(id: 1, name: "Rome", km: 7))
        #expect(changes[1]["KM"]?.old == .real(7) && changes[1]["km"]?.new == .real(8) && changes[1]["name"] == nil)
        #expect(try changes[2].decode(Trip.self).km == 8)
        let error = #expect(throws: AnnalsError.self) { try changes[1].decode(Trip.self) }
        #expect(error?.code == .usage)
    }

    @Test func `orders are by column, and one value or an aggregate is fetched from the store`() async throws {
        let store = try await store()
        let request = BatchInsertRequest(
            Trip.self, rows: [["name": "Rome", "km": 7], ["name": "Oslo", "id": nil], ["name": "Bonn"]], resultType: .identifiers)
        let result = try await store.execute(request)
        #expect(result.identifiers.map(\.description) == ["trip(1)", "trip(2)", "trip(3)"])
        #expect(
            try await store.fetch(Trip.query.descending(Trip.Columns.km).ascending(Trip.Columns.name)).map(\.name) == [
                "Rome", "Bonn", "Oslo",
            ])
        #expect(try await store.first(Trip.query.request.select(sum(Trip.Columns.km), as: Double.self)) == 10)
        #expect(try await store.first(Trip.filter(Trip.Columns.km > 99).select(max(Trip.Columns.km), as: Double.self)) == nil)
        #expect(
            try await store.fetch(Trip.select(Trip.Columns.name, as: String.self).order(Trip.Columns.name)) == ["Bonn", "Oslo", "Rome"])
    }

    @Test func `a snapshot has items by section and number`() async throws {
        let store = try await store()
        for name in ["Aix", "Ulm", "Bonn"] {
            try await store.write { db in _ = try Trip(name: name, km: Double(name.count)).insert(in: db) }
        }
        var list = FetchedResults(Trip.query.ascending("km", "name"), in: store, sectionBy: \.km).makeAsyncIterator()
        let snapshot = try #require(await list.next())
        #expect(snapshot.item(at: [0, 1])?.name == "Ulm" && snapshot.item(at: [1, 0])?.name == "Bonn")
        #expect([[0, 2], [2, 0], [0, -1], [-1, 0], [0], []].allSatisfy { snapshot.item(at: IndexPath(indexes: $0)) == nil })
        #expect(snapshot.indexPath(of: 3) == [1, 0] && snapshot.indexPath(of: 2) == [0, 1] && snapshot.indexPath(of: 9) == nil)
    }

    @Test func `GRDB observes a store through its reader`() async throws {
        let store = try await store()
        let names = ValueObservation.tracking { db in try String.fetchAll(db, sql: "SELECT name FROM trip") }
        var values = names.values(in: store.reader).makeAsyncIterator()
        #expect(try await values.next() == [])
        try await store.write { db in _ = try Trip(name: "Rome").insert(in: db) }
        while let now = try await values.next(), now != ["Rome"] {}
    }
}

/// Undo and redo of what an author committed.
@Suite struct AuthorUndoTests {
    private func store() async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { db in try db.execute(sql: "CREATE TABLE trip(id INTEGER PRIMARY KEY, name TEXT)") }
        try await store.track(.all)
        return store
    }

    private func insert(_ name: String, by author: String? = "ann", _ store: Store) async throws {
        try await store.write(author: author) { db in try db.execute(sql: "INSERT INTO trip(name) VALUES(?)", arguments: [name]) }
    }

    private func names(_ store: Store) async throws -> String {
        try await store.read { db in try String.fetchAll(db, sql: "SELECT name FROM trip ORDER BY id").joined() }
    }

    @Test func `the newest work is undone first, and redone last`() async throws {
        let store = try await store()
        for name in ["a", "b", "c"] { try await insert(name, store) }
        try await insert("X", by: "ben", store)
        #expect(try await store.redo(by: "ann") == nil)
        for expected in ["abX", "aX", "X"] {
            #expect(try await store.undo(by: "ann") != nil)
            #expect(try await names(store) == expected)
        }
        #expect(try await store.undo(by: "ann") == nil)
        for expected in ["aX", "abX"] {
            #expect(try await store.redo(by: "ann") != nil)
            #expect(try await names(store) == expected)
        }
        try await store.undo(by: "ann")
        #expect(try await names(store) == "aX")
        for expected in ["abX", "abcX"] {
            try await store.redo(by: "ann")
            #expect(try await names(store) == expected)
        }
        #expect(try await store.redo(by: "ann") == nil)
        try await store.undo(by: "ann")
        try await insert("d", store)
        #expect(try await store.redo(by: "ann") == nil)
        for expected in ["abX", "aX", "X"] {
            try await store.undo(by: "ann")
            #expect(try await names(store) == expected)
        }
        #expect(try await store.undo(by: nil) == nil)
        #expect(try await store.verify().isEmpty)
    }

    /// Random work of two authors, held against two stacks.
    @Test(arguments: Seeds.givenOrNew(10)) func `random undo and redo follow a stack for each author`(seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let store = try await store()
        var done: [String: [Int]] = ["ann": [], "ben": []]
        var undone = done
        for number in 0..<40 {
            let author = random.next() % 2 == 0 ? "ann" : "ben"
            switch random.next() % 5 {
            case 0, 1:
                try await store.write(author: author) { db in
                    try db.execute(sql: "INSERT INTO trip VALUES(?, '')", arguments: [number])
                }
                done[author]?.append(number)
                undone[author] = []
            case 2, 3:
                let last = done[author]?.popLast()
                #expect((try await store.undo(by: author) != nil) == (last != nil), "ANNALS_SEED=\(seed)")
                if let last { undone[author]?.append(last) }
            default:
                let last = undone[author]?.popLast()
                #expect((try await store.redo(by: author) != nil) == (last != nil), "ANNALS_SEED=\(seed)")
                if let last { done[author]?.append(last) }
            }
            let rows = try await store.read { db in try Int.fetchAll(db, sql: "SELECT id FROM trip ORDER BY id") }
            #expect(rows == done.values.flatMap(\.self).sorted(), "ANNALS_SEED=\(seed), step \(number)")
        }
    }

    @Test func `what others changed since is protected, and a schema change ends what can be undone`() async throws {
        let store = try await store()
        try await insert("a", store)
        try await store.write(author: "ben") { db in try db.execute(sql: "UPDATE trip SET name = 'B'") }
        let error = await #expect(throws: AnnalsError.self) { try await store.undo(by: "ann") }
        #expect(error?.code == .rowsDiffer)
        try await store.migrate(label: "v2") { db in try db.execute(sql: "ALTER TABLE trip ADD COLUMN km REAL") }
        #expect(try await store.undo(by: nil) == nil)
    }

    @Test func `work that others have set back, or reverted, counts as undone`() async throws {
        let store = try await store()
        try await insert("a", store)
        try await insert("b", store)
        try await store.write(author: "ben") { db in try db.execute(sql: "DELETE FROM trip WHERE name = 'b'") }
        #expect(try await store.undo(by: "ann") != nil)
        #expect(try await names(store) == "")
        #expect(try await store.undo(by: "ann") == nil)
        try await insert("c", store)
        let last = try await store.latestToken()
        try await store.revert(last)
        #expect(try await store.undo(by: "ann") == nil)
        // A schema change ends it for every author.
        try await insert("d", store)
        try await store.migrate(label: "v2") { db in try db.execute(sql: "ALTER TABLE trip ADD COLUMN km REAL") }
        #expect(try await store.undo(by: "ann") == nil)
    }

    @Test func `a save is reverted by its token`() async throws {
        let store = try await store()
        try await insert("a", store)
        let (_, token) = try await store.transaction(author: "ann") { db in try db.execute(sql: "UPDATE trip SET name = 'b'") }
        #expect(try await store.revert(try #require(token)).rows.total == 1)
        #expect(try await names(store) == "a")
        let other = try await self.store().latestToken()
        await #expect(throws: AnnalsError.self) { try await store.revert(other) }
    }
}
