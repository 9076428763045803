import Annals
import Synchronization
import Testing

@Suite("A list over several tables", .timeLimit(.minutes(20)))
struct RelatedTablesTests {
    struct Entry: Decodable, Identifiable, FetchableRecord, Sendable {
        var todo: TodoItem
        var project: Project?
        var id: Int64? { todo.id }
    }

    struct Board: Decodable, Identifiable, FetchableRecord, Sendable {
        var project: Project
        var todos: [TodoItem]
        var id: Int64 { project.id }
    }

    private func store(tracking: Tracking.Selection = .all) async throws -> Store {
        let store = try await TodoStore.inMemory(tracking: tracking)
        try await store.write { db in
            try Project(id: 1, name: "house").insert(in: db)
            try Project(id: 2, name: "garden").insert(in: db)
            for (title, project) in [("cook", 1), ("dig", 2), ("wash", 1)] {
                try TodoItem(title: title, projectId: Int64(project)).insert(in: db)
            }
        }
        return store
    }

    @Test("is refreshed by a change in a joined table, and only the items it touches count as changed")
    func joined() async throws {
        let store = try await store()
        let request = TodoItem.including(optional: TodoItem.project).order(Column("title")).asRequest(of: Entry.self)
        var list = FetchedResults(request, in: store).makeAsyncIterator()
        #expect(try await list.next()?.allItems.map(\.project?.name) == ["house", "garden", "house"])
        try await store.write { db in try db.execute(sql: "UPDATE project SET name = 'home' WHERE id = 1") }
        let second = try #require(await list.next())
        #expect(second.allItems.map(\.project?.name) == ["home", "garden", "home"])
        #expect(second.reconfiguredItemIdentifiers == [1, 3])
    }

    @Test("is refreshed by a change in rows that it includes, and by none elsewhere")
    func included() async throws {
        let store = try await store()
        let request = Project.including(all: Project.items.order(Column("title")).forKey("todos")).order(Column("name"))
            .asRequest(of: Board.self)
        var list = FetchedResults(request, in: store).makeAsyncIterator()
        #expect(try await list.next()?.allItems.map { $0.todos.map(\.title) } == [["dig"], ["cook", "wash"]])
        try await store.write { db in try db.execute(sql: "INSERT INTO note VALUES (1, 'x')") }
        try await store.write { db in try db.execute(sql: "UPDATE todo SET title = 'weed' WHERE title = 'dig'") }
        let second = try #require(await list.next())
        #expect(second.number == 2 && second.reconfiguredItemIdentifiers == [2])
        #expect(second[2]?.todos.map(\.title) == ["weed"])
    }

    @Test("is refreshed by a table that only decides which rows there are")
    func subquery() async throws {
        let store = try await store()
        let open = TodoItem.query.ascending("title").and(SQL(sql: "projectId IN (SELECT id FROM project WHERE name <> 'garden')"))
        var list = FetchedResults(open, in: store).makeAsyncIterator()
        #expect(try await list.next()?.allItems.map(\.title) == ["cook", "wash"])
        try await store.write { db in try db.execute(sql: "UPDATE project SET name = 'yard' WHERE id = 2") }
        let second = try #require(await list.next())
        #expect(second.allItems.map(\.title) == ["cook", "dig", "wash"] && second.reconfiguredItemIdentifiers.isEmpty)
    }

    @Test("sees a table without history with the next change of one that has it")
    func untracked() async throws {
        let store = try await store(tracking: .tables(["project"]))
        let request = TodoItem.including(optional: TodoItem.project).order(Column("title")).asRequest(of: Entry.self)
        var list = FetchedResults(request, in: store).makeAsyncIterator()
        _ = try await list.next()
        try await store.write { db in try db.execute(sql: "UPDATE todo SET title = 'weed' WHERE title = 'dig'") }
        try await store.write { db in try db.execute(sql: "UPDATE project SET name = 'home' WHERE id = 1") }
        let second = try #require(await list.next())
        #expect(second.number == 2 && second.allItems.map(\.project?.name) == ["home", "home", "garden"])
        #expect(second.allItems.map(\.todo.title) == ["cook", "wash", "weed"])
    }

    @Test("is sorted by a joined table's column as that changes")
    func joinedOrder() async throws {
        let store = try await store()
        let request = TodoItem.including(required: TodoItem.project.order(Column("name"))).order(Column("rank")).asRequest(of: Entry.self)
        let byProject = TodoItem.including(required: TodoItem.project.order(Column("name"), Column("id"))).asRequest(of: Entry.self)
        var list = FetchedResults(byProject, in: store).makeAsyncIterator()
        #expect(try await list.next()?.allItems.first?.todo.title == "dig")
        try await store.write { db in try db.execute(sql: "UPDATE project SET name = 'zoo' WHERE id = 2") }
        #expect(try await list.next()?.allItems.last?.todo.title == "dig")
        var ranked = FetchedResults(request, in: store).makeAsyncIterator()
        #expect(try await ranked.next()?.count == 3)
    }
}

@Suite("A list of ten thousand rows", .timeLimit(.minutes(20)))
struct LongListTests {
    /// Counts how often it is decoded.
    struct Counted: Identifiable, FetchableRecord, TableRecord, Sendable {
        @TaskLocal static var counter: Counter?
        static let databaseTableName = "todo"
        var id: Int64
        var title: String

        init(row: Row) {
            id = row["id"]
            title = row["title"]
            Self.counter?.add()
        }
    }

    private func store() async throws -> Store {
        let store = try await TodoStore.inMemory()
        try await store.write { db in
            try db.execute(
                sql: """
                    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
                    INSERT INTO todo (id, title, rank) SELECT i, printf('t%05d', i), i % 7 FROM n
                    """)
        }
        return store
    }

    @Test("decodes only what changed")
    func decodesOnlyChanges() async throws {
        let store = try await store()
        let counter = Counter()
        try await Counted.$counter.withValue(counter) {
            var list = FetchedResults(Counted.query.ascending("title"), in: store).makeAsyncIterator()
            #expect(try await list.next()?.count == 10_000)
            #expect(counter.value == 10_000)
            try await store.write { db in
                try db.execute(
                    sql: """
                        UPDATE todo SET title = 'a' WHERE id = 5000; DELETE FROM todo WHERE id = 3; INSERT INTO todo (title) VALUES ('b')
                        """)
            }
            let second = try #require(await list.next())
            #expect(second.count == 10_000 && second.itemIdentifiers.first == 5000 && second[10_001]?.title == "b")
            #expect(counter.value == 10_002)
            // There are so many changes that all rows are read together and compared.
            try await store.write { db in
                try db.execute(sql: "UPDATE todo SET rank = rank + 1, title = title || CASE id WHEN 1 THEN 'x' ELSE '' END")
            }
            let third = try #require(await list.next())
            #expect(third.count == 10_000 && third[1]?.title == "t00001x")
        }
    }

    @Test("compares joined rows as they lie, and decodes those that differ")
    func joined() async throws {
        let store = try await store()
        try await store.write { db in
            try Project(id: 1, name: "house").insert(in: db)
            try db.execute(sql: "UPDATE todo SET projectId = 1 WHERE id % 1000 = 0")
        }
        let counter = Counter()
        try await Counted.$counter.withValue(counter) {
            let request = TodoItem.including(optional: TodoItem.project).order(Column("title")).asRequest(of: Counted.self)
            var list = FetchedResults(request, in: store).makeAsyncIterator()
            _ = try await list.next()
            try await store.write { db in try db.execute(sql: "UPDATE project SET name = 'home'") }
            let second = try #require(await list.next())
            #expect(second.reconfiguredItemIdentifiers.count == 10)
            #expect(counter.value == 10_010)
        }
    }
}
