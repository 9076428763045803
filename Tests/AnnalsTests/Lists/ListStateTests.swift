import GRDB
import Testing

@testable import Annals

@Suite("The state of a list")
struct ListStateTests {
    @Test("has what another program wrote whole, also where nobody has sealed it yet")
    func unsealed() async throws {
        let folder = try ScratchFolder()
        let store = try await TodoStore.file(at: folder.file("a.db"))
        try await store.write { db in for title in ["a", "b"] { try TodoItem(title: title, rank: 10).insert(in: db) } }
        let other = try DatabaseQueue(path: folder.file("a.db"))
        func refresh(_ before: ListState<Int, TodoItem>) async throws -> (state: ListState<Int, TodoItem>, hasChanged: Bool) {
            try await store.read { db in
                var state = before
                let hasChanged = try state.refresh(TodoItem.query.ascending("title").request, store, db) { $0.rank ?? 0 }
                return (state, hasChanged)
            }
        }
        var (state, hasChanged) = try await refresh(ListState())
        #expect(hasChanged)
        // One transaction. The list must show all of it or nothing.
        try await other.write { db in
            try db.execute(sql: "UPDATE todo SET rank = 7 WHERE title = 'a'; INSERT INTO todo (title, rank) VALUES ('c', 3)")
        }
        (state, hasChanged) = try await refresh(state)
        #expect(hasChanged)
        #expect(state.snapshot?.count == 3 && state.snapshot?.allItems.reduce(0) { $0 + ($1.rank ?? 0) } == 20)
        // The list does not change when it is recorded.
        try await store.recordExternalChanges()
        (state, hasChanged) = try await refresh(state)
        #expect(!hasChanged && state.snapshot?.number == 2)
        #expect(state.snapshot?.token == (try await store.latestToken()))
    }
}
