import Annals
import Testing

extension Query where Record == TodoItem {
    fileprivate static var byTitle: Self { all.ascending("title") }
    fileprivate static var urgent: Self { all.and(Column("rank") >= 5).descending("rank") }
}

@Suite("A query")
struct QueryTests {
    private func store() async throws -> Store {
        let store = try await TodoStore.inMemory()
        try await store.write { db in
            for (title, rank) in [("wash", 1), ("cook", 9), ("read", 5), ("walk", 7)] {
                try TodoItem(title: title, rank: rank).insert(in: db)
            }
        }
        return store
    }

    @Test("fetches the rows it asks for, in its order, and counts them")
    func fetches() async throws {
        let store = try await store()
        #expect(try await store.fetch(.byTitle).map(\.title) == ["cook", "read", "walk", "wash"])
        #expect(try await store.fetch(.urgent.limit(2)).map(\.title) == ["cook", "walk"])
        #expect(try await store.fetch(.urgent.limit(2, offset: 1)).map(\.title) == ["walk", "read"])
        #expect(try await store.count(.urgent) == 3)
        #expect(try await store.first(.urgent)?.title == "cook")
        #expect(try await store.first(.urgent.and(Column("rank") > 9)) == nil)
        #expect(try await store.exists(.urgent))
        #expect(try await !store.exists(.urgent.and(Column("rank") > 9)))
    }

    @Test("is an immutable value: what is built on it leaves it as it was, and it can be looked into")
    func isValue() async throws {
        let store = try await store()
        let base = TodoItem.query.ascending("title")
        let narrowed = base.and(Column("rank") > 1).limit(2, offset: 1)
        #expect(base.limit == nil && base.conditions.isEmpty)
        #expect(narrowed.limit == 2 && narrowed.offset == 1 && narrowed.conditions.count == 1)
        #expect(narrowed.orderings.map(\.column) == ["title"] && narrowed.orderings.map(\.isDescending) == [false])
        let sql = try await store.read { db in try narrowed.sql(db).sql }
        #expect(sql == #"SELECT * FROM "todo" WHERE "rank" > ? ORDER BY "title" ASC LIMIT 2 OFFSET 1"#)
        #expect(try await store.fetch(base).count == 4)
    }

    @Test("finds rows by their keys")
    func ids() async throws {
        let store = try await store()
        #expect(try await store.fetch(Query<TodoItem>.id(2)).map(\.title) == ["cook"])
        #expect(try await store.fetch(Query<TodoItem>.ids([3, 1, 77]).ascending("id")).map(\.title) == ["wash", "read"])
        #expect(Query<TodoItem>.id(2).ids == [2.databaseValue])
    }

    @Test("says which column or table does not exist, and which do")
    func unknownNames() async throws {
        let store = try await store()
        for query in [TodoItem.query.ascending("titel"), TodoItem.query.and(Column("titel") == "x")] {
            let error = await #expect(throws: AnnalsError.self) { _ = try await store.fetch(query) }
            #expect(error?.code == .usage)
            #expect(error?.description == "the table todo has no column titel. Its columns are id, title, rank, projectId")
            let inside = await #expect(throws: AnnalsError.self) { try await store.read { db in _ = try TodoItem.fetch(query, in: db) } }
            #expect(inside?.description == error?.description)
        }
        struct Ghost: Codable, FetchableRecord, TableRecord {}
        let error = await #expect(throws: AnnalsError.self) { _ = try await store.count(Ghost.query) }
        #expect(error?.description == "there is no table ghost. Create it, or correct databaseTableName")
    }

    @Test("is one of GRDB's requests, and takes in whatever GRDB's can do")
    func isRequest() async throws {
        let store = try await store()
        try await store.write { db in
            try Project(id: 1, name: "house").insert(in: db)
            try db.execute(sql: "UPDATE todo SET projectId = 1 WHERE title = 'cook'")
        }
        let inHouse = TodoItem.query.refined { $0.joining(required: TodoItem.project.filter(Column("name") == "house")) }
        #expect(try await store.fetch(inHouse).map(\.title) == ["cook"])
        #expect(try await store.read { db in try TodoItem.query.ascending("rank").fetchOne(db)?.title } == "wash")
        #expect(try await store.fetch(TodoItem.order(Column("rank").desc).limit(1)).map(\.title) == ["cook"])
        #expect(try await store.count(TodoItem.filter(Column("rank") > 5)) == 2)
    }

    @Test("brings associated rows with one statement for each association, however many rows there are")
    func prefetches() async throws {
        let store = try await store()
        try await store.write { db in
            for number in 1...50 {
                try Project(id: Int64(number), name: "p\(number)").insert(in: db)
                try TodoItem(title: "t\(number)", projectId: Int64(number)).insert(in: db)
            }
        }
        struct Full: Decodable, FetchableRecord, Sendable {
            var project: Project
            var todos: [TodoItem]
        }
        let statements = Counter()
        let full = try await store.read { db in
            db.trace { event in if event.description.hasPrefix("SELECT ") { statements.add() } }
            defer { db.trace(options: []) }
            return try Full.fetchAll(db, Project.including(all: Project.items.forKey("todos")))
        }
        #expect(full.count == 50 && full.allSatisfy { $0.todos.count == 1 })
        #expect(statements.value == 2)
    }
}
