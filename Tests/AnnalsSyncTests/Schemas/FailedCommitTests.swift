import AnnalsCore
import AnnalsReplica
import AnnalsTesting
import GRDB
import Synchronization
import Testing

@testable import AnnalsStore

/// A commit with a change of the schema fails, as with a full disk, and the process continues.
@Suite struct FailedCommitTests {
    private struct DiskFull: Error {}

    /// Refuses one commit of a connection.
    private final class Failing: TransactionObserver, Sendable {
        private let commits: Mutex<Int>

        init(_ number: Int) { commits = Mutex(number) }

        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
        func databaseDidChange(with event: DatabaseEvent) {}
        func databaseDidCommit(_ db: Database) {}
        func databaseDidRollback(_ db: Database) {}

        func databaseWillCommit() throws {
            let isTheOne = commits.withLock { commits in
                commits -= 1
                return commits == 0
            }
            if isTheOne { throw DiskFull() }
        }
    }

    @Test(arguments: 1...5)
    func `after a failed commit of a schema entry the next sync applies it`(number: Int) async throws {
        let world = try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b INTEGER); INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)"
        )
        try world.reopen(1, newSchemas: .take)
        try world.outside(1, "INSERT INTO t VALUES (7, 'unsent', 7)")
        try await world.stores[0].migrate(
            label: "check",
            sql: """
                CREATE TABLE new__t (id INTEGER PRIMARY KEY, a TEXT, b INTEGER, CHECK (b <> 9));
                INSERT INTO new__t SELECT id, a, b FROM t; DROP TABLE t; ALTER TABLE new__t RENAME TO t
                """)
        try await world.sync(0)
        let failing = Failing(number)
        world.stores[1].database.add(transactionObserver: failing, extent: .observerLifetime)
        _ = try? await world.sync(1)
        world.stores[1].database.remove(transactionObserver: failing)
        try await world.sync(1)
        try await world.settle()
        try await world.expectAlike()
        for store in world.stores { #expect(try await store.verify() == []) }
    }
}
