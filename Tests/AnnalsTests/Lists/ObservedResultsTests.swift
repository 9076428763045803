import Annals
import Observation
import Testing

@Suite("What SwiftUI observes", .timeLimit(.minutes(5))) @MainActor
struct ObservedResultsTests {
    private struct Task: Codable, Identifiable, Hashable, FetchableRecord, PersistableRecord {
        var id: Int64
        var title: String
    }

    private func store() async throws -> Store {
        let store = try Store(inMemory: nil)
        try await store.write { db in try db.execute(sql: "CREATE TABLE task (id INTEGER PRIMARY KEY, title TEXT NOT NULL)") }
        try await store.track(.all)
        return store
    }

    private typealias Moment = _Concurrency.Task<Never, Never>

    @Test func `a list tells its observers of each commit`() async throws {
        let store = try await store()
        let (redraws, redraw) = AsyncStream<Void>.makeStream()
        let tasks = ObservedResults(FetchedResults(Task.query.ascending("title"), in: store))
        let titles = tasks.items.map(\.title)
        #expect(titles == [])
        var seen = redraws.makeAsyncIterator()
        for title in ["Milk", "Bread"] {
            while tasks.snapshot == nil { await Moment.yield() }
            let titles = withObservationTracking {
                tasks.items.map(\.title)
            } onChange: {
                redraw.yield()
            }
            try await store.write { db in try Task(id: Int64(titles.count), title: title).insert(db) }
            _ = await seen.next()
            // The change is announced before it is made.
            while tasks.items.map(\.title) == titles { await Moment.yield() }
        }
        #expect(tasks.items.map(\.title) == ["Bread", "Milk"] && tasks.error == nil)
    }

    @Test func `an error ends the list and can be seen`() async throws {
        let store = try await store()
        let tasks = ObservedResults(FetchedResults(Task.all(), in: store))
        while tasks.error == nil { await Moment.yield() }
        #expect((tasks.error as? AnnalsError)?.code == .usage && tasks.snapshot == nil)
    }

    @Test func `a released list ends`() async throws {
        let store = try await store()
        var tasks: ObservedResults? = ObservedResults(FetchedResults(Task.query.ascending("title"), in: store))
        weak let released = tasks
        while tasks?.snapshot == nil { await Moment.yield() }
        tasks = nil
        while released != nil { await Moment.yield() }
    }

    @Test func `a context tells that it has changes`() async throws {
        let context = try await store().editContext()
        let (changes, continuation) = AsyncStream<Bool>.makeStream()
        let before = withObservationTracking {
            context.hasChanges
        } onChange: {
            continuation.yield(context.hasChanges)
        }
        #expect(!before)
        try context.insert(Task(id: 1, title: "Milk"))
        var seen = changes.makeAsyncIterator()
        #expect(await seen.next() == true)
    }
}
