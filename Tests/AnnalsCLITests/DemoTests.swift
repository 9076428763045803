import AnnalsStore
import Foundation
import GRDB
import Synchronization
import Testing

@testable import AnnalsCLI

/// Keeps what a command prints.
final class MemorySink: Sink {
    private let text = Mutex("")

    func write(_ text: String) { self.text.withLock { $0 += text } }
    func writeError(_ text: String) {}
    func flush() {}
    var isClosed: Bool { false }
    var output: String { text.withLock { $0 } }
}

@Suite("The demonstration", .timeLimit(.minutes(20)))
struct DemoTests {
    @Test("tells a story in which both sides end equal")
    func sample() async throws {
        let sink = MemorySink()
        try await DemoStory(console: Console(sink: sink), source: .sample).run()
        for text in [
            "Both sides are equal", "✓ incoming cents = 990", "both sides used this key; the incoming row became id = 1002",
            "shop       1002  ", "laptop     1002  ", "then   7  ", "now    7  ",
        ] {
            #expect(sink.output.contains(text), "\(text)")
        }
    }

    @Test("a merge that loses a row is noticed, and ends with the status of a failed check")
    func brokenMerge() async throws {
        let sink = MemorySink()
        var story = DemoStory(console: Console(sink: sink), source: .sample)
        let synchronize = story.steps.synchronize
        story.steps.synchronize = { shop, laptop in
            let outcomes = try await synchronize(shop, laptop)
            try await laptop.writeFromOutside(["UPDATE product SET stock = stock + 1 WHERE id = 99"])
            return outcomes
        }
        await #expect(throws: CheckFailed.self) { try await story.run() }
        #expect(sink.output.contains("The two sides differ"))
    }

    @Test("a merge that does nothing is noticed")
    func noMerge() async throws {
        var story = DemoStory(console: Console(sink: MemorySink()), source: .sample)
        story.steps.synchronize = { _, _ in [] }
        await #expect(throws: CheckFailed.self) { try await story.run() }
    }

    @Test("the same on a copy of the user's own file, which itself stays as it was")
    func ownFile() async throws {
        let folder = try TemporaryFolder("annals-demo-test")
        defer { folder.remove() }
        let path = folder.file("own.db")
        let connection = try DatabaseQueue(path: path)
        try await connection.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, motto TEXT, points INTEGER NOT NULL DEFAULT 0);
                    CREATE TABLE person (id INTEGER PRIMARY KEY, team INTEGER REFERENCES team (id), name TEXT);
                    INSERT INTO team (name, motto) VALUES ('red', 'go'), ('blue', 'stay'), ('green', NULL);
                    INSERT INTO person (team, name) VALUES (1, 'Ann'), (2, 'Bo');
                    CREATE TABLE log (text TEXT);
                    INSERT INTO log VALUES ('not tracked');
                    """)
        }
        try connection.close()
        let before = FileManager.default.contents(atPath: path)
        let sink = MemorySink()
        try await DemoStory(console: Console(sink: sink), source: .file(path)).run()
        #expect(FileManager.default.contents(atPath: path) == before)
        for text in [
            "Both sides are equal", "team.motto, changed on both sides", "team: the same new number",
            "person: the rows that refer to them",
        ] {
            #expect(sink.output.contains(text), "\(text) in \(sink.output)")
        }
    }

    @Test("a file in which nothing can be shown gives a reason")
    func nothingToShow() async throws {
        let folder = try TemporaryFolder("annals-demo-test")
        defer { folder.remove() }
        let path = folder.file("own.db")
        let connection = try DatabaseQueue(path: path)
        try await connection.write { db in try db.execute(sql: "CREATE TABLE empty (id INTEGER PRIMARY KEY, v TEXT)") }
        try connection.close()
        await #expect {
            try await DemoStory(console: Console(sink: MemorySink()), source: .file(path)).run()
        } throws: { error in ErrorReport(error, root: RootCommand.self).status == .data }
    }
}
