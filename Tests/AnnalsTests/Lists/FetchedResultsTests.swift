import Annals
import Foundation
import Testing

@Suite("A list", .timeLimit(.minutes(20)))
struct FetchedResultsTests {
    typealias Results = FetchedResults<SingleSection, TodoItem>

    private static let byTitle = TodoItem.query.ascending("title")

    private func insert(_ store: Store, _ titles: String...) async throws {
        try await store.write { db in for title in titles { try TodoItem(title: title).insert(in: db) } }
    }

    @Test("begins with what there is, and has a snapshot for each transaction that changes it")
    func snapshots() async throws {
        let store = try await TodoStore.inMemory()
        try await insert(store, "b", "d")
        var list = Results(Self.byTitle, in: store).makeAsyncIterator()
        let first = try #require(await list.next())
        #expect(first.allItems.map(\.title) == ["b", "d"] && first.number == 1)
        #expect(first.reconfiguredItemIdentifiers.isEmpty)

        try await insert(store, "a", "c")
        let second = try #require(await list.next())
        #expect(second.itemIdentifiers == [3, 1, 4, 2] && second.number == 2)
        #expect(Array(first.itemIdentifiers).applying(second.difference(from: first)) == second.itemIdentifiers)
        #expect(second.difference(from: first).count == 2)

        try await store.write { db in
            try db.execute(sql: "UPDATE todo SET rank = 7 WHERE title = 'd'; DELETE FROM todo WHERE title = 'a'")
        }
        let third = try #require(await list.next())
        #expect(third.itemIdentifiers == [1, 4, 2] && third.reconfiguredItemIdentifiers == [2])
        #expect(third[2]?.rank == 7 && third[3] == nil)

        try await store.write { db in try db.execute(sql: "UPDATE todo SET title = 'z' WHERE title = 'b'") }
        let fourth = try #require(await list.next())
        #expect(fourth.itemIdentifiers == [4, 2, 1] && fourth.reconfiguredItemIdentifiers == [1])
        #expect(fourth.difference(from: third).inferringMoves().insertions.count == 1)
    }

    @Test("goes on without a row that cannot be decoded, if the app says so", arguments: [false, true])
    func undecodable(readsAll: Bool) async throws {
        let store = try await TodoStore.inMemory()
        try await insert(store, "a", "b", "c")
        try await store.write { db in try db.execute(sql: "UPDATE todo SET rank = 'high' WHERE title = 'b'") }
        // A request with a join is read as a whole.
        let request = TodoItem.order(Column("title"))
        let list = FetchedResults(readsAll ? request.joining(optional: TodoItem.project) : request, in: store)
        await #expect(throws: (any Error).self) { for try await _ in list { break } }

        var snapshots = list.skippingUndecodableRows().makeAsyncIterator()
        let first = try #require(await snapshots.next())
        #expect(first.allItems.map(\.title) == ["a", "c"])
        #expect(first.undecodableRows.map(\.identifier) == [PersistentIdentifier(table: "todo", key: [.integer(2)])])

        try await store.write { db in try db.execute(sql: "UPDATE todo SET rank = 'low' WHERE title = 'c'") }
        let second = try #require(await snapshots.next())
        #expect(second.allItems.map(\.title) == ["a"] && second.undecodableRows.count == 2)

        try await store.write { db in try db.execute(sql: "UPDATE todo SET rank = 5 WHERE title = 'b'") }
        let third = try #require(await snapshots.next())
        #expect(third.allItems.map(\.title) == ["a", "b"] && third[2]?.rank == 5)
        #expect(third.undecodableRows.map(\.identifier.key) == [[.integer(3)]])

        try await store.write { db in try db.execute(sql: "DELETE FROM todo WHERE title = 'c'") }
        let fourth = try #require(await snapshots.next())
        #expect(fourth.undecodableRows.isEmpty && fourth.count == 2)
    }

    @Test("has no snapshot for what changes nothing in it: other tables, columns that it does not select, rolled back work")
    func quiet() async throws {
        struct Title: Codable, Identifiable, FetchableRecord, TableRecord, Sendable {
            static let databaseTableName = "todo"
            static var databaseSelection: [any SQLSelectable] { [Column("id"), Column("title")] }
            var id: Int64
            var title: String
        }
        let store = try await TodoStore.inMemory()
        try await insert(store, "b")
        var list = FetchedResults(Title.query.ascending("title"), in: store).makeAsyncIterator()
        let first = try #require(await list.next())
        try await store.write { db in try db.execute(sql: "INSERT INTO note VALUES (1, 'x')") }
        try await store.write { db in try db.execute(sql: "UPDATE todo SET rank = 3") }
        struct Stop: Error {}
        await #expect(throws: Stop.self) {
            try await store.write { db in
                try db.execute(sql: "DELETE FROM todo")
                throw Stop()
            }
        }
        try await insert(store, "c")
        let second = try #require(await list.next())
        #expect(second.number == 2 && second.allItems.map(\.title) == ["b", "c"])
        #expect(first.token.isOlder(than: second.token) == true)
    }

    @Test("of generated columns alone follows what they are made of", .timeLimit(.minutes(20)), arguments: ["VIRTUAL", "STORED"])
    func generated(kind: String) async throws {
        struct Shown: Codable, Identifiable, FetchableRecord, TableRecord, Sendable {
            static let databaseTableName = "item"
            static var databaseSelection: [any SQLSelectable] { [Column("id"), Column("label")] }
            var id: Int64
            var label: String
        }
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, label TEXT AS (upper(name)) \(kind));
                    INSERT INTO item (id, name) VALUES (1, 'a'), (2, 'b');
                    """)
        }
        try await store.track(.all)
        var list = FetchedResults(Shown.query.ascending("label"), in: store).makeAsyncIterator()
        #expect(try await list.next()?.allItems.map(\.label) == ["A", "B"])
        try await store.write { db in try db.execute(sql: "UPDATE item SET name = 'c' WHERE id = 1") }
        let second = try #require(await list.next())
        #expect(second.allItems.map(\.label) == ["B", "C"] && second.reconfiguredItemIdentifiers == [1])
    }

    @Test("is never half applied, however fast others write")
    func neverHalf() async throws {
        let folder = try ScratchFolder()
        let store = try await TodoStore.file(at: folder.file("a.db"))
        try await store.write { db in for number in 0..<10 { try TodoItem(title: "t\(number)", rank: 10).insert(in: db) } }
        let writing = Task {
            for number in 0..<60 {
                // Each transaction keeps the sum, and the newest change is in a row of its own.
                try await store.write { db in
                    try db.execute(sql: "UPDATE todo SET rank = rank - 1 WHERE id = ?", arguments: [number % 10 + 1])
                    try db.execute(sql: "UPDATE todo SET rank = rank + 1 WHERE id = ?", arguments: [(number + 3) % 10 + 1])
                    try db.execute(sql: "UPDATE todo SET title = ? WHERE id = 1", arguments: ["a\(number)"])
                }
            }
        }
        // A second writer without Annals.
        let stranger = Task {
            let queue = try DatabaseQueue(path: folder.file("a.db"), configuration: Self.patient)
            for number in 0..<30 {
                try await queue.write { db in
                    try db.execute(sql: "UPDATE todo SET rank = rank - 2 WHERE id = ?", arguments: [number % 7 + 1])
                    try db.execute(sql: "UPDATE todo SET rank = rank + 2 WHERE id = ?", arguments: [number % 3 + 8])
                    try db.execute(sql: "INSERT INTO todo (title, rank) VALUES ('s', 0)")
                }
            }
        }
        var last: FetchedResultsSnapshot<SingleSection, TodoItem>?
        for try await snapshot in Results(Self.byTitle, in: store) {
            #expect(snapshot.allItems.reduce(0) { $0 + ($1.rank ?? 0) } == 100)
            #expect(snapshot.number == (last?.number ?? 0) + 1)
            last = snapshot
            if snapshot.count == 40, snapshot.allItems.contains(where: { $0.title == "a59" }) { break }
        }
        try await writing.value
        try await stranger.value
        #expect(try await store.fetch(TodoItem.query.ascending("title", "id")) == last?.allItems)
    }

    private static var patient: Configuration {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        return configuration
    }

    @Test("follows what another program writes")
    func otherProgram() async throws {
        let folder = try ScratchFolder()
        let store = try await TodoStore.file(at: folder.file("a.db"))
        var list = Results(Self.byTitle, in: store).makeAsyncIterator()
        #expect(try await list.next()?.isEmpty == true)
        let other = try DatabaseQueue(path: folder.file("a.db"))
        try await other.write { db in try db.execute(sql: "INSERT INTO todo (title) VALUES ('x'), ('y')") }
        #expect(try await list.next()?.allItems.map(\.title) == ["x", "y"])
    }

    @Test("follows what a sync brings")
    func sync() async throws {
        let space = try await TwoReplicas()
        var list = Results(Self.byTitle, in: space.stores[1]).makeAsyncIterator()
        #expect(try await list.next()?.isEmpty == true)
        try await insert(space.stores[0], "x", "y")
        try await space.sync(0)
        try await space.sync(1)
        #expect(try await list.next()?.allItems.map(\.title) == ["x", "y"])
    }

    @Test("keeps a selection across a sync that gives an own row another number")
    func renumbered() async throws {
        let space = try await TwoReplicas()
        try await insert(space.stores[0], "theirs")
        try await space.sync(0)
        try await insert(space.stores[1], "mine", "mine too")
        var list = Results(Self.byTitle, in: space.stores[1]).makeAsyncIterator()
        let before = try #require(await list.next())
        let selected = try #require(before.allItems.first { $0.title == "mine" }?.id)
        #expect(selected == 1)

        try await space.sync(1)
        let after = try #require(await list.next())
        #expect(after.allItems.map(\.title) == ["mine", "mine too", "theirs"])
        #expect(after[selected]?.title == "theirs")
        let now = after.current(before.itemIdentifiers[0], since: before)
        #expect(after[now]?.title == "mine")
        #expect(after.reconfiguredItemIdentifiers.contains(now))
        // Neither of the two existing items is removed.
        let difference = after.difference(from: before)
        #expect(difference.removals.isEmpty && difference.insertions.count == 1)
        // A later snapshot also has this change, for a reader that missed this one.
        try await insert(space.stores[1], "zz")
        let later = try #require(await list.next())
        #expect(later[later.current(before.itemIdentifiers[0], since: before)]?.title == "mine")
        #expect(later.current(now, since: after) == now)
    }

    @Test("has sections in the order of their first items, and items within them")
    func sections() async throws {
        let store = try await TodoStore.inMemory()
        try await store.write { db in
            for (title, rank) in [("b", 2), ("a", 1), ("c", 2), ("d", 1)] { try TodoItem(title: title, rank: rank).insert(in: db) }
        }
        let query = TodoItem.query.descending("rank").ascending("title")
        var list = FetchedResults(query, in: store, sectionBy: { $0.rank ?? 0 }).makeAsyncIterator()
        let first = try #require(await list.next())
        #expect(first.sectionIdentifiers == [2, 1])
        #expect(first.itemIdentifiers(inSection: 2).map { first[$0]?.title } == ["b", "c"])
        #expect(first.itemIdentifiers(inSection: 9).isEmpty)
        // The last item of a section is removed, and a new section is added.
        try await store.write { db in try db.execute(sql: "UPDATE todo SET rank = 3 WHERE rank = 1") }
        let second = try #require(await list.next())
        #expect(second.sectionIdentifiers == [3, 2])
        #expect(second.itemIdentifiers(inSection: 3).map { second[$0]?.title } == ["a", "d"])
    }

    @Test("without an order is refused, and so is one that nothing tells of or that has a row twice")
    func refused() async throws {
        let store = try await TodoStore.inMemory(tracking: .tables(["project"]))
        func refusal<Item: FetchableRecord & Identifiable & Sendable>(_ request: QueryInterfaceRequest<Item>) async -> AnnalsError?
        where Item.ID: Sendable {
            await #expect(throws: AnnalsError.self) {
                var list = FetchedResults(request, in: store).makeAsyncIterator()
                _ = try await list.next()
            }
        }
        let unordered = await refusal(TodoItem.all())
        #expect(unordered?.code == .usage && unordered?.message == "the request for the list of todo is not ordered")
        let inSubquery = await refusal(TodoItem.filter(sql: "id IN (SELECT id FROM todo ORDER BY rank LIMIT 3)"))
        #expect(inSubquery?.message == "the request for the list of todo is not ordered")
        let untracked = await refusal(TodoItem.order(Column("title")))
        #expect(untracked?.code == .notTracked)
        let unknown = await refusal(TodoItem.order(Column("titel")))
        #expect(unknown?.message == "the table todo has no column titel")
        try await store.write { db in
            try Project(id: 1, name: "p").insert(in: db)
            try TodoItem(title: "a", projectId: 1).insert(in: db)
            try TodoItem(title: "b", projectId: 1).insert(in: db)
        }
        let twice = await refusal(Project.joining(required: Project.items).order(Column("name")))
        #expect(twice?.message == "the request for the list of project returns a row twice")
    }

    @Test("goes on when history is purged up to what it has not seen")
    func purged() async throws {
        let store = try await TodoStore.inMemory()
        try await insert(store, "a")
        var list = Results(Self.byTitle, in: store).makeAsyncIterator()
        _ = try await list.next()
        try await insert(store, "b")
        let latest = try await store.latestToken()
        _ = try await store.deleteHistory(before: latest, mode: .force)
        try await insert(store, "c")
        #expect(try await list.next()?.allItems.map(\.title) == ["a", "b", "c"])
        try await insert(store, "d")
        #expect(try await list.next()?.count == 4)
    }

    @Test("ends when its task is cancelled")
    func cancelled() async throws {
        let store = try await TodoStore.inMemory()
        let (started, start) = AsyncStream.makeStream(of: Void.self)
        let task = Task {
            var count = 0
            for try await _ in Results(Self.byTitle, in: store) {
                count += 1
                start.yield()
            }
            return count
        }
        for await _ in started { break }
        task.cancel()
        #expect(try await task.value == 1)
    }
}
