import Annals
import AnnalsTesting
import Foundation
import Testing

@Suite("A store that was closed", .timeLimit(.minutes(20)))
struct ClosedStoreTests {
    /// The journal modes use different kinds of connections.
    enum Place: CaseIterable { case memory, pool, queue }

    private func isClosedError(_ error: any Error) -> Bool {
        guard let error = error as? AnnalsError else { return false }
        return error.code == .usage && error.message == "the store is closed" && !error.isRetryable
    }

    private func store(_ place: Place, _ folder: ScratchFolder) async throws -> Store {
        switch place {
        case .memory: return try await TodoStore.inMemory()
        case .queue: return try await TodoStore.file(at: folder.file("a.db"))
        case .pool:
            let file = folder.file("a.db")
            let queue = try DatabaseQueue(path: file)
            try await queue.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA journal_mode = WAL") }
            try queue.close()
            return try await TodoStore.file(at: file)
        }
    }

    @Test("a read, a write and a sync report it", arguments: Place.allCases)
    func access(place: Place) async throws {
        let folder = try ScratchFolder()
        let store = try await store(place, folder)
        try store.close()
        try store.close()
        await #expect(performing: { _ = try await store.read { try TodoItem.fetchCount($0) } }, throws: isClosedError)
        await #expect(performing: { try await store.write { try TodoItem(title: "late").insert(in: $0) } }, throws: isClosedError)
        await #expect(performing: { _ = try await store.latestToken() }, throws: isClosedError)
        await #expect(performing: { _ = try await store.status() }, throws: isClosedError)
        await #expect(performing: { for try await _ in store.history(HistoryRequest()) {} }, throws: isClosedError)
        #expect(performing: { _ = try store.readAndWait { try TodoItem.fetchCount($0) } }, throws: isClosedError)
        #expect(performing: { try store.writeAndWait { try TodoItem(title: "late").insert(in: $0) } }, throws: isClosedError)
    }

    @Test("ends the lists and the tellers of changes that wait", arguments: Place.allCases)
    func sequences(place: Place) async throws {
        let folder = try ScratchFolder()
        let store = try await store(place, folder)
        let changes = store.remoteChanges
        let listening = Task { for try await _ in changes {} }
        let list = FetchedResults(TodoItem.query.ascending("title"), in: store)
        let (shown, said) = AsyncStream<Void>.makeStream()
        let showing = Task { for try await _ in list { said.yield() } }
        for await _ in shown { break }
        try store.close()
        await #expect(performing: { try await listening.value }, throws: isClosedError)
        await #expect(performing: { try await showing.value }, throws: isClosedError)
        // A reader that begins now gets the error at once.
        await #expect(performing: { for try await _ in store.remoteChanges {} }, throws: isClosedError)
        await #expect(performing: { for try await _ in list {} }, throws: isClosedError)
    }

    @Test("ends an agent that stays in touch")
    func agent() async throws {
        let running = try await RunningAgent()
        try await running.caughtUp()
        try running.space[0].store.close()
        await #expect(performing: { try await running.task.value }, throws: isClosedError)
    }
}
