import Annals
import Testing

/// The examples in the documentation of `FetchedResults`, unchanged.
@Suite("The reference's examples: lists")
struct ListExamples {
    private struct Task: Codable, Identifiable, Hashable, FetchableRecord, PersistableRecord {
        var id: Int64
        var list: String
        var title: String
    }

    private func store() async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE task (id INTEGER PRIMARY KEY, list TEXT, title TEXT);
                    INSERT INTO task VALUES (1, 'home', 'Milk'), (2, 'work', 'Report');
                    """)
        }
        try await store.track(.all)
        return store
    }

    @Test("a list follows the store")
    func list() async throws {
        let store = try await store()
        var shown: FetchedResultsSnapshot<String, Task>?
        var selection: Int64? = 1
        var redrawn: [String] = []
        func redraw(_ id: Int64, _ task: Task?) { redrawn.append(task?.title ?? "") }

        let results = FetchedResults(Task.query.ascending("list", "title"), in: store, sectionBy: \.list)
        for try await snapshot in results {
            if let shown {
                let animation = snapshot.difference(from: shown)
                selection = selection.map { snapshot.current($0, since: shown) }
                for id in snapshot.reconfiguredItemIdentifiers { redraw(id, snapshot[id]) }
                print(animation)
                break
            }
            shown = snapshot
            try await store.write { db in try db.execute(sql: "UPDATE task SET title = 'Oat milk' WHERE id = 1") }
        }
        #expect(redrawn == ["Oat milk"] && selection == 1)
    }

    @Test("a list's sections are shown")
    func sections() async throws {
        let store = try await store()
        let shown = try #require(try await first(store))
        let (told, tell) = AsyncStream<[String]>.makeStream()
        @Sendable func follow() async throws {
            func show<Difference>(_ identifiers: [String], _ difference: Difference) { tell.yield(identifiers) }
            let results = FetchedResults(Task.query.ascending("list", "title"), in: store, sectionBy: \.list)
            for try await snapshot in results {
                show(snapshot.sectionIdentifiers, snapshot.difference(from: shown))
            }
        }
        // It is cancelled when this function ends.
        async let _: Void = follow()
        for await sections in told {
            #expect(sections == ["home", "work"])
            break
        }
    }

    private func first(_ store: Store) async throws -> FetchedResultsSnapshot<String, Task>? {
        for try await snapshot in FetchedResults(Task.query.ascending("list", "title"), in: store, sectionBy: \.list) { return snapshot }
        return nil
    }
}
