import Annals
@testable import SeededRandom
import Testing

@Suite("Pages of a query")
struct QueryPageTests {
    private static func store(_ rows: [(String, Int?)]) async throws -> Store {
        let store = try await TodoStore.inMemory()
        try await store.write { db in
            for (title, rank) in rows { try TodoItem(title: title, rank: rank).insert(in: db) }
        }
        return store
    }

    private static let queries: [Query<TodoItem>] = [
        .all, .all.ascending("rank"), .all.descending("rank"), .all.ascending("rank").descending("title"),
        .all.descending("rank", "id"), .all.ascending("title", collation: "NOCASE").descending("rank"),
    ]

    @Test("together are the query, whatever orders it, with equal values and NULLs", arguments: queries.indices, [1, 2, 3, 7])
    func complete(number: Int, size: Int) async throws {
        var random = SeededGenerator(seed: UInt64(number * 10 + size))
        let rows = (0..<23).map { _ in
            (random.one(of: ["a", "A", "b", "c"]), random.chance(30) ? nil : Int.random(in: 0..<4, using: &random))
        }
        let store = try await Self.store(rows)
        let query = Self.queries[number]
        var ids: [Int64?] = []
        for try await page in store.pages(of: query, size: size) {
            #expect(page.count <= size)
            ids += page.map(\.id)
        }
        let whole = try await store.fetch(TodoItem.fetchRequest(query))
        #expect(ids == whole.map(\.id))
    }

    @Test("repeat no row and leave none out when others insert and delete before the mark")
    func stable() async throws {
        let store = try await Self.store((0..<10).map { ("t\($0)", $0 * 10) })
        let query = TodoItem.query.ascending("rank")
        let first = try await store.page(query, size: 4)
        #expect(first.items.map(\.rank) == [0, 10, 20, 30])
        try await store.write { db in
            try TodoItem(title: "early", rank: 5).insert(in: db)
            // The row of the mark.
            try db.execute(sql: "DELETE FROM todo WHERE rank = 30")
            try TodoItem(title: "later", rank: 35).insert(in: db)
        }
        let second = try await store.page(query, after: first.next, size: 4)
        #expect(second.items.map(\.rank) == [35, 40, 50, 60])
        let third = try await store.page(query, after: second.next, size: 4)
        #expect(third.items.map(\.rank) == [70, 80, 90] && third.next == nil)
    }

    @Test("begin behind an item that is at hand")
    func afterItem() async throws {
        let store = try await Self.store((0..<5).map { ("t\($0)", $0 / 2) })
        let query = TodoItem.query.descending("rank")
        let all = try await store.fetch(query.ascending("id"))
        let page = try await store.page(query, after: all[1], size: 2)
        #expect(page.items == Array(all[2...3]))
    }

    @Test("of a query with a limit and an offset end where it ends", arguments: [(0, 0), (1, 0), (5, 0), (6, 2), (4, 8), (3, 30), (40, 3)])
    func limited(limit: Int, offset: Int) async throws {
        let store = try await Self.store((0..<10).map { ("t\($0)", $0 % 3 == 0 ? nil : $0 % 4) })
        for query in Self.queries.map({ $0.limit(limit, offset: offset) }) {
            let whole = try await store.fetch(TodoItem.fetchRequest(query))
            for size in [1, 2, 5, 20] {
                var pages: [[TodoItem]] = []
                for try await page in store.pages(of: query, size: size) { pages.append(page) }
                #expect(pages.flatMap(\.self) == whole)
                #expect(pages.dropLast().allSatisfy { $0.count == size })
            }
        }
    }

    @Test("behind an item that is at hand are of the query's rows, whether it is one of them or stands before or after them")
    func limitedAfterItem() async throws {
        let store = try await Self.store((0..<10).map { ("t\($0)", $0 % 3 == 0 ? nil : $0 % 4) })
        for query in Self.queries {
            let all = try await store.fetch(TodoItem.fetchRequest(query))
            for place in all.indices {
                let first = try await store.page(query.limit(4, offset: 3), after: all[place], size: 2)
                let wanted = Array(all[3..<7].dropFirst(max(0, place - 2)))
                #expect(first.items == Array(wanted.prefix(2)))
                #expect((first.next != nil) == (wanted.count > 2))
                guard let mark = first.next else { continue }
                let second = try await store.page(query.limit(4, offset: 3), after: mark, size: 2)
                #expect(second.items == Array(wanted.dropFirst(2)) && second.next == nil)
            }
        }
    }

    @Test("that order by what they do not select are refused by name")
    func unselected() async throws {
        let store = try await Self.store([("a", 1), ("b", 2)])
        struct Slim: Codable, FetchableRecord, TableRecord {
            static let databaseTableName = "todo"
            static var databaseSelection: [any SQLSelectable] { [Column("id"), Column("title")] }
            var id: Int64
            var title: String
        }
        let error = await #expect(throws: AnnalsError.self) { _ = try await store.page(Slim.query.ascending("rank"), size: 1) }
        #expect(error?.message == "the query orders by rank but does not select it")
    }
}

extension TodoItem {
    /// A query with its complete order, with ties ordered by key.
    fileprivate static func fetchRequest(_ query: Query<TodoItem>) -> QueryInterfaceRequest<TodoItem> { query.request.withStableOrder() }
}
