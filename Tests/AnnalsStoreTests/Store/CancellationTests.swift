import AnnalsCore
import Foundation
import GRDB
import Synchronization
import Testing

@testable import AnnalsHistory
@testable import AnnalsReplica
@testable import AnnalsRows
@testable import AnnalsSchema
@testable import AnnalsStore

/// Work that is cancelled in the middle leaves its connection unchanged.
@Suite("Cancelled work", .timeLimit(.minutes(20)))
struct CancellationTests {
    /// Cancels a task from inside its work.
    private final class Canceller: Sendable {
        private let task = Mutex<Task<Void, any Error>?>(nil)
        private let isSet = DispatchSemaphore(value: 0)

        func run(_ body: @escaping @Sendable () async throws -> Void) async -> Result<Void, any Error> {
            let task = Task { try await body() }
            self.task.withLock { $0 = task }
            isSet.signal()
            return await task.result
        }

        func cancel() {
            isSet.wait()
            isSet.signal()
            task.withLock { $0 }?.cancel()
        }
    }

    private let file: TemporaryFile
    private let store: Store
    private let start: HistoryToken

    init() async throws {
        file = try TemporaryFile()
        let queue = try DatabaseQueue(path: file.path)
        try await queue.write { db in try db.execute(sql: "CREATE TABLE note(id INTEGER PRIMARY KEY, title)") }
        try queue.close()
        store = try Store(path: file.path)
        _ = try await store.track(.all)
        start = try await store.latestToken()
        for number in 1...5 {
            try await store.write { db in try db.execute(sql: "INSERT INTO note VALUES(?, 'x')", arguments: [number]) }
        }
    }

    private func expectUsable() async throws {
        #expect(try await store.diff(from: start, to: store.latestToken()).count == 5)
        #expect(try await store.verify().isEmpty)
        _ = try await store.replay(to: start, output: file.path + "-replayed")
        _ = try await store.copyRows(to: file.path + "-rows")
        let pragmas = try await store.database.writeWithoutTransaction { db in
            try ["foreign_keys", "ignore_check_constraints"].map { try Int.fetchOne(db, sql: "PRAGMA \($0)") }
        }
        #expect(pragmas == [1, 0])
        for suffix in ["-replayed", "-rows"] { try FileManager.default.removeItem(atPath: file.path + suffix) }
    }

    @Test("a replay")
    func replay() async throws {
        let canceller = Canceller()
        let outcome = await canceller.run { [store, start, path = file.path] in
            _ = try await store.replay(to: start, output: path + "-cancelled") { _, _ in canceller.cancel() }
        }
        #expect(throws: CancellationError.self) { try outcome.get() }
        #expect(!FileManager.default.fileExists(atPath: file.path + "-cancelled"))
        try await expectUsable()
    }

    @Test("a replay that is making its tables, which are not to blame")
    func making() async throws {
        try await store.write { db in try db.execute(sql: "CREATE TABLE other(id INTEGER PRIMARY KEY)") }
        let canceller = Canceller()
        let outcome = await canceller.run { [store, start, path = file.path] in
            try await store.database.writeWithoutTransaction { db in
                db.trace { if $0.description.contains("CREATE TABLE annals_copy.") { canceller.cancel() } }
                defer { db.trace(nil) }
                _ = try Replay.write(db, to: HistoryPoint(start), output: path + "-cancelled", force: false, environment: .system) { _, _ in
                }
            }
        }
        #expect(throws: CancellationError.self) { try outcome.get() }
        try await expectUsable()
    }

    @Test("a copy of the rows for a new space")
    func copy() async throws {
        let canceller = Canceller()
        let outcome = await canceller.run { [store, path = file.path] in
            try await store.database.writeWithoutTransaction { db in
                let tables = try TrackedTables.load(db).entries.map(\.definition)
                try SnapshotFile.write(db, to: path + "-rows", tables: tables, kind: .immediate) {
                    canceller.cancel()
                    try db.execute(sql: "SELECT 1")
                    throw AnnalsError(.defect, operation: "test", "it went on")
                }
            }
        }
        #expect(throws: CancellationError.self) { try outcome.get() }
        try? FileManager.default.removeItem(atPath: file.path + "-rows")
        try await expectUsable()
    }
}
