import AnnalsCore
import AnnalsHistory
import AnnalsStore
import GRDB
import GRDBSQLite
import Testing

/// Reading a store changes nothing on the connection of the app.
struct ReadingTests {
    private let queue: DatabaseQueue
    private let store: Store

    init() async throws {
        queue = try DatabaseQueue()
        try await queue.write { db in try db.execute(sql: "CREATE TABLE t (id TEXT PRIMARY KEY, v); INSERT INTO t VALUES ('a', 1)") }
        store = try Store(wrapping: queue)
        _ = try await store.track(.all)
    }

    @Test func `an app's statements stay compiled while its queue is looked at`() async throws {
        // The statement cache keeps it between accesses.
        func recompiled() throws -> Int32 {
            try queue.unsafeRead { db in
                let statement = try db.cachedStatement(sql: "SELECT v FROM t")
                _ = try Int.fetchAll(statement)
                return sqlite3_stmt_status(statement.sqliteStatement, SQLITE_STMTSTATUS_REPREPARE, 0)
            }
        }
        let before = try recompiled()
        _ = try await store.replicaState()
        _ = try await store.status()
        for try await _ in store.history() {}
        #expect(try recompiled() == before)
    }

    @Test func `an app's observers hear of no commit when a queue is looked at`() async throws {
        let observer = Commits()
        queue.add(transactionObserver: observer, extent: .observerLifetime)
        _ = try await store.replicaState()
        _ = try await store.conflicts()
        #expect(observer.count == 0)
    }

    @Test func `a look that fails leaves no transaction open`() async throws {
        await #expect(throws: AnnalsError.self) { _ = try await store.token(named: "no such thing") }
        #expect(try await queue.unsafeRead { db in !db.isInsideTransaction })
        try await queue.write { db in try db.execute(sql: "UPDATE t SET v = 2") }
    }
}

private final class Commits: TransactionObserver {
    var count = 0

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseDidCommit(_ db: Database) { count += 1 }
    func databaseDidRollback(_ db: Database) {}
}
