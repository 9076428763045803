import Annals
import Foundation
import Logging
import Synchronization
import Testing

@Suite("A state that is kept for reading")
struct QueryGenerationTests {
    private func store(_ path: String) async throws -> Store {
        var configuration = Store.Configuration()
        configuration.createIfMissing = true
        let store = try Store(path: path, configuration: configuration)
        try await store.write { db in try db.execute(sql: League.schema) }
        return store
    }

    @Test("does not change while others write, over a pool and over an app's queue")
    func pinned() async throws {
        let file = try TemporaryFile("league.db")
        let store = try await store(file.path)
        let wrapped = try Store(wrapping: try DatabaseQueue(path: file.path))
        for reader in [store, wrapped] {
            let snapshot = try reader.makeQueryGeneration()
            let before = try await snapshot.read { try Player.fetchCount($0) }
            try await store.write { db in try db.execute(sql: "INSERT INTO player (name) VALUES ('Dora')") }
            #expect(try await snapshot.read { try Player.fetchCount($0) } == before)
            #expect(try await store.read { try Player.fetchCount($0) } == before + 1)
        }
    }

    @Test("is refused where a reader that stays would stop everyone")
    func refused() async throws {
        let file = try TemporaryFile("league.db")
        let queue = try DatabaseQueue(path: file.path)
        try await queue.write { db in try db.execute(sql: League.schema) }
        for store in [try Store(path: file.path), try Store(inMemory: nil)] {
            let error = #expect(throws: AnnalsError.self) { _ = try store.makeQueryGeneration() }
            #expect(error?.code == .usage)
        }
    }
}

@Suite("Blocking forms")
struct BlockingTests {
    /// Not async, like a call from code without concurrency.
    private func count(_ store: Store) throws -> Int {
        try store.writeAndWait(author: "script") { db in try db.execute(sql: "DELETE FROM player WHERE id = 3") }
        return try store.readAndWait { db in try Player.fetchCount(db) }
    }

    @Test("read and write on the calling thread, with an author, and throw what the caller threw")
    func all() async throws {
        struct Stop: Error {}
        let league = try await League()
        #expect(try count(league.store) == 2)
        #expect(try await league.authors() == ["script"])
        let store = league.store
        func failing() throws {
            try store.writeAndWait { db in
                try db.execute(sql: "DELETE FROM player")
                throw Stop()
            }
        }
        #expect(throws: Stop.self) { try failing() }
        func refused() throws { try store.writeAndWait { db in try db.execute(sql: "UPDATE player SET score = -1") } }
        #expect(throws: AnnalsError.self) { try refused() }
        #expect(try await league.store.read { try Player.fetchCount($0) } == 2)
        #expect(try await league.authors() == ["script"])
    }
}

@Suite("Statements are logged with their times")
struct StatementTraceTests {
    private final class Lines: Sendable {
        private let lines = Mutex<[(level: Logger.Level, text: String, milliseconds: Double?)]>([])
        var all: [(level: Logger.Level, text: String, milliseconds: Double?)] { lines.withLock { $0 } }

        func add(_ level: Logger.Level, _ text: String, _ milliseconds: Double?) {
            lines.withLock { $0.append((level, text, milliseconds)) }
        }
    }

    private struct Handler: LogHandler {
        let lines: Lines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            lines.add(event.level, event.message.description, event.metadata?["milliseconds"].flatMap { Double($0.description) })
        }
    }

    private func lines(_ change: (inout StatementTrace) -> Void) async throws -> Lines {
        let lines = Lines()
        var trace = StatementTrace(Logger(label: "sql") { _ in Handler(lines: lines) })
        change(&trace)
        var configuration = Store.Configuration()
        configuration.trace = trace
        let store = try Store(inMemory: nil, configuration: configuration)
        try await store.write { db in
            try db.execute(sql: "CREATE TABLE note (text)")
            try db.execute(sql: "INSERT INTO note VALUES (?)", arguments: ["secret"])
        }
        return lines
    }

    @Test("without the values that are bound to them, unless they are asked for")
    func traced() async throws {
        let lines = try await lines { _ in }.all
        let insert = try #require(lines.first { $0.text.contains("INSERT INTO note") })
        #expect(insert.level == .debug && (insert.milliseconds ?? -1) >= 0)
        #expect(!lines.contains { $0.text.contains("secret") })
        let open = try await self.lines { ($0.showsValues, $0.level) = (true, .info) }.all
        #expect(open.contains { $0.text.contains("secret") && $0.level == .info })
    }

    @Test("only those that took as long as asked for")
    func slow() async throws {
        #expect(try await lines { $0.threshold = .seconds(60) }.all.isEmpty)
    }
}
