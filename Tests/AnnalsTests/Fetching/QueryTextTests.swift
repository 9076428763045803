import Annals
import Testing

@Suite("A query for a text")
struct QueryTextTests {
    private static let titles = ["Café Nord", "cafe\u{301} süd", "CAFE", "Decaf", "straße", nil]

    private struct Place: Codable, Identifiable, Hashable, FetchableRecord, PersistableRecord, Sendable {
        var id: Int64
        var title: String?
    }

    @Test func `compares numbers as SQLite writes them, and no blobs`() async throws {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.execute(sql: "CREATE TABLE place(id INTEGER PRIMARY KEY, title)")
            try db.execute(sql: "INSERT INTO place VALUES(1, 1e20), (2, 0.1 + 0.2), (3, 12), (4, CAST('12' AS BLOB)), (5, NULL)")
        }
        func found(_ text: String) async throws -> [Int64] {
            let query = Query<Place>.all.ascending("id").text("title", .equals, text)
            return try await store.read { db in try Int64.fetchAll(db, query.request.select(Column("id"))) }
        }
        #expect(try await found("1.0e+20") == [1])
        #expect(try await found("0.3") == [2])
        #expect(try await found("12") == [3])
    }

    private func store() async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.execute(sql: "CREATE TABLE place(id INTEGER PRIMARY KEY, title TEXT)")
            for (index, title) in Self.titles.enumerated() { try Place(id: Int64(index), title: title).insert(db) }
        }
        try await store.track(.all)
        return store
    }

    struct Case: Sendable {
        var match: TextMatch
        var text: String
        var ignored: TextDifferences
        var found: [Int64]

        init(_ match: TextMatch, _ text: String, _ ignored: TextDifferences, _ found: [Int64]) {
            (self.match, self.text, self.ignored, self.found) = (match, text, ignored, found)
        }
    }

    private static let both: TextDifferences = [.letterCase, .diacritics]

    @Test(arguments: [
        Case(.contains, "CAFÉ", both, [0, 1, 2]), Case(.begins, "café", both, [0, 1, 2]), Case(.equals, "Café", both, [2]),
        Case(.ends, "SUD", both, [1]), Case(.contains, "caf", .letterCase, [0, 1, 2, 3]), Case(.contains, "cafe", .letterCase, [2]),
        Case(.contains, "cafe", .diacritics, [1]), Case(.contains, "café", [], [1]), Case(.contains, "", [], [0, 1, 2, 3, 4]),
        Case(.ends, "", [], [0, 1, 2, 3, 4]), Case(.equals, "", [], []), Case(.begins, "", [], [0, 1, 2, 3, 4]),
        Case(.contains, "%", [], []),
    ])
    func `finds the rows that differ only in what is ignored`(example: Case) async throws {
        let store = try await store()
        let query = Query<Place>.all.ascending("id").text("title", example.match, example.text, ignoring: example.ignored)
        #expect(try await store.fetch(query).map(\.id) == example.found)
        #expect(try await store.count(query) == example.found.count)
    }

    @Test func `works beside other conditions, in pages, in contexts and in lists`() async throws {
        let store = try await store()
        let query = Query<Place>.all.ascending("id").text("title", .contains, "cafe").and(Column("id") > 0)
        #expect(try await store.fetch(query.limit(1)).map(\.id) == [1])
        let context = try await store.editContext()
        try context.insert(Place(id: 9, title: "cafés"))
        #expect(try await context.fetch(query.request).map(\.id) == [1, 2, 9])
        for try await list in FetchedResults(query, in: context, sectionBy: { _ in 0 }) {
            #expect(list.allItems.map(\.id) == [1, 2, 9])
            break
        }
    }

    @Test func `names a column that does not exist`() async throws {
        let store = try await store()
        let error = await #expect(throws: AnnalsError.self) {
            _ = try await store.fetch(Query<Place>.all.text("titel", .contains, "x"))
        }
        #expect(error?.code == .usage && error?.message.contains("titel") == true)
    }
}
