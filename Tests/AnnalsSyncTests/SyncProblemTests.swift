import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import Testing

@Suite("What ended the last sync is noted in the store")
struct SyncProblemTests {
    private func world() async throws -> SyncedStores {
        try await SyncedStores(
            replicas: 2, schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES(1, 'one')")
    }

    private func refused(_ world: SyncedStores, _ error: TransportError = .problem(Problem(.notPermitted), retryAfter: nil)) async throws {
        await #expect(throws: AnnalsError.self) { try await world.sync(1, over: AlteredRelay.failing(world.relay, .push, error: error)) }
    }

    private func problem(_ world: SyncedStores) async throws -> SyncProblem? { try await world.stores[1].status().syncProblem }

    @Test("with its first time, until a sync succeeds")
    func noted() async throws {
        let world = try await world()
        #expect(try await problem(world) == nil)
        try world.outside(1, "UPDATE item SET name = 'two'")
        let start = world.clock.milliseconds
        try await refused(world)
        let problem = try #require(try await problem(world))
        #expect(problem.code == "notPermitted" && problem.message.contains("1 local transaction waits"))
        #expect(Int64(problem.date.timeIntervalSince1970 * 1_000) >= start)
        world.clock.advance(.seconds(60))
        try await refused(world)
        #expect(try await self.problem(world) == problem, "the same problem keeps its time")
        try await world.sync(1, .pullOnly)
        #expect(try await self.problem(world) == problem, "the work still waits")
        try await world.sync(1)
        #expect(try await self.problem(world) == nil)
        #expect(try await world.stores[1].verify() == [])
    }

    @Test("never instead of the error itself: not if another program holds the lock, and not if it was cancelled")
    func harmless() async throws {
        let world = try await world()
        let store = world.stores[1]
        var configuration = GRDB.Configuration()
        configuration.allowsUnsafeTransactions = true
        let writer = try DatabaseQueue(path: store.path, configuration: configuration)
        try await writer.writeWithoutTransaction { db in try db.execute(sql: "BEGIN IMMEDIATE") }
        #expect(await store.note(syncProblem: AnnalsError(.notPermitted, "no")) == false)
        try await writer.writeWithoutTransaction { db in try db.execute(sql: "ROLLBACK") }
        for code in [AnnalsError.Code.cancelled, .usage] { await store.note(syncProblem: AnnalsError(code, "no")) }
        #expect(try await problem(world) == nil)
        await store.note(syncProblem: AnnalsError(.notPermitted, "no", hint: "ask"))
        #expect(try await problem(world)?.hint == "ask")
        try store.close()
        #expect(await store.note(syncProblem: nil) == false)
    }

    @Test("in a form that verify checks, and not after the store left its space")
    func checked() async throws {
        let world = try await world()
        let store = world.stores[1]
        await store.note(syncProblem: AnnalsError(.notPermitted, "no"))
        try world.outside(1, "UPDATE annals_meta SET value = '{}' WHERE name = 'sync_problem'")
        #expect(try await store.verify().contains { "\($0)".contains("sync_problem") })
        await #expect(throws: AnnalsError.self) { try await store.status() }
        try await world.sync(1)
        #expect(try await problem(world) == nil)
        await store.note(syncProblem: AnnalsError(.notPermitted, "no"))
        try await store.leave()
        #expect(try await problem(world) == nil)
        #expect(try await world.rows(1, "SELECT count(*) FROM annals_meta WHERE name = 'sync_problem'") == [[0.databaseValue]])
    }
}
