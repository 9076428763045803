import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsSchema
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import RelayLog
import Testing

/// The relay voids an entry that no other replica can apply. All replicas pass over it, and its author sends its changes again.
@Suite struct VoidingTests {
    private static let schema = """
        CREATE TABLE book(id INTEGER PRIMARY KEY, title TEXT UNIQUE, pieces INTEGER);
        INSERT INTO book VALUES(1, 'one', 100), (2, 'two', 200), (3, 'three', 300);
        """
    private static let ours = SpaceKey.random()
    private static let lost = SpaceKey.random()

    private static func ring(_ keys: SpaceKey...) throws -> SpaceKeyRing {
        try SpaceKeyRing(text: keys.map(\.line).joined(separator: "\n"))
    }

    /// Replica 0 seals with a key that no other replica has.
    private func world(replicas: Int = 3, outboxLimits: OutboxLimits = OutboxLimits()) async throws -> SyncedStores {
        let world = try await SyncedStores(
            replicas: replicas, schema: Self.schema, outboxLimits: outboxLimits, spaceKeys: Self.ring(Self.ours))
        try world.give(Self.ring(Self.ours, Self.lost), to: 0)
        return world
    }

    private func write(_ world: SyncedStores, _ index: Int, _ sql: String) async throws {
        world.clock.advance(.seconds(60))
        try await world.stores[index].write { db in try db.execute(sql: sql) }
    }

    private func refusal(_ body: () async throws -> Void) async -> VoidRefusal? {
        do {
            try await body()
            return nil
        } catch {
            return error as? VoidRefusal
        }
    }

    private func expectStuck(_ world: SyncedStores, _ index: Int, at position: Int64, sourceLocation: SourceLocation = #_sourceLocation)
        async
    {
        do {
            _ = try await world.sync(index)
            Issue.record("the sync did not fail", sourceLocation: sourceLocation)
        } catch {
            let error = error as? AnnalsError
            #expect(error?.code == .missingKey, sourceLocation: sourceLocation)
            #expect(error?.message.contains("position \(position) ") == true, "\(error?.message ?? "")", sourceLocation: sourceLocation)
        }
    }

    /// Law 2 for the replicas, a new clone and a replay of the space.
    private func expectEqual(_ world: SyncedStores, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        try await world.settle()
        try await world.addClone("fresh-\(world.stores.count)")
        let digests = try await world.stores.asyncMap { try await $0.digest() }
        #expect(Set(digests).count == 1, sourceLocation: sourceLocation)
        for (number, store) in world.stores.enumerated() {
            #expect(try await store.verify().isEmpty, "replica \(number)", sourceLocation: sourceLocation)
            #expect(try await store.unverifiedRows() == nil, "replica \(number)", sourceLocation: sourceLocation)
        }
        let head = try await world.relay.describe().head
        let path = world.folder.file("then-\(ReplicaID.random()).db")
        _ = try await world.joining("then").replay(to: head, output: path)
        let replayed = try Store(path: path)
        _ = try await replayed.track(.all)
        #expect(try await replayed.digest() == digests[0], sourceLocation: sourceLocation)
    }

    private func titles(_ world: SyncedStores, _ index: Int) async throws -> [String] {
        try await world.stores[index].read { try String.fetchAll($0, sql: "SELECT title || ' ' || pieces FROM book ORDER BY id") }
    }

    @Test func `laws 2 and 5: all pass over it, and its author brings what it wrote as a new transaction`() async throws {
        let world = try await world()
        try await write(world, 0, "UPDATE book SET pieces = 1 WHERE id = 1; INSERT INTO book VALUES(4, 'four', 4)")
        try await world.sync(0)
        try await write(world, 1, "INSERT INTO book VALUES(4, 'mine', 40)")
        await expectStuck(world, 1, at: 2)
        await expectStuck(world, 2, at: 2)
        let outcome = try await world.relay.void(Position(2))
        #expect(outcome.voided == [Position(2)] && outcome.entry == Position(3))
        try await world.sync(1)
        try await world.sync(2)
        #expect(try await titles(world, 2) == ["one 100", "two 200", "three 300", "mine 40"])
        // The author has the right key now, and one more transaction.
        try world.give(Self.ring(Self.lost, Self.ours), to: 0)
        try await write(world, 0, "UPDATE book SET pieces = 3 WHERE id = 3")
        let summary = try await world.sync(0)
        #expect(summary.reconciled > 0 && summary.outbox == 0)
        try await expectEqual(world)
        let all = try await titles(world, 1)
        #expect(Set(all) == ["one 1", "two 200", "three 3", "mine 40", "four 4"])
        let external = try await world.rows(0, "SELECT count(*) FROM annals_transactions WHERE context = 'unseen'")
        #expect(external[0][0] == 1.databaseValue)
    }

    @Test func `an entry of a space that is not sealed can be voided, too`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await write(world, 0, "UPDATE book SET pieces = 1 WHERE id = 1")
        try await world.sync(0)
        _ = try await world.relay.void(Position(2))
        try await write(world, 1, "UPDATE book SET pieces = 2 WHERE id = 1")
        try await expectEqual(world)
        #expect(try await titles(world, 2).count == 3)
    }

    @Test func `an author that was offline keeps its unsent transactions that build on the voided entry`() async throws {
        let world = try await world()
        try await write(world, 0, "INSERT INTO book VALUES(4, 'four', 4)")
        try await world.sync(0)
        try await write(world, 0, "UPDATE book SET pieces = 5 WHERE id = 4; DELETE FROM book WHERE id = 2")
        _ = try await world.relay.void(Position(2))
        try await write(world, 1, "INSERT INTO book VALUES(4, 'other', 9)")
        try await world.sync(1)
        try world.give(Self.ring(Self.lost, Self.ours), to: 0)
        try await expectEqual(world)
        #expect(Set(try await titles(world, 1)) == ["one 100", "three 300", "four 5", "other 9"])
    }

    @Test func `all parts of a transaction are voided together, also if a replica has buffered some of them`() async throws {
        var limits = OutboxLimits()
        limits.partBytes = 4_000
        let world = try await world(outboxLimits: limits)
        try await write(
            world, 0,
            """
            WITH RECURSIVE c(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM c WHERE x < 300)
                INSERT INTO book SELECT x, hex(randomblob(20)), x FROM c
            """)
        let head = try await world.sync(0).position
        #expect(head.rawValue > 4)
        _ = try? await world.sync(1, over: AlteredRelay.failing(world.relay, .pull, from: 3, pageBytes: 1))
        #expect(try await world.stores[1].updateOutbox().pulled > world.stores[1].updateOutbox().position)
        let outcome = try await world.relay.void(Position(4))
        #expect(outcome.voided == (2...head.rawValue).map { Position($0) })
        try await world.sync(1)
        #expect(try await world.rows(1, "SELECT count(*) FROM book")[0][0] == 3.databaseValue)
        try world.give(Self.ring(Self.lost, Self.ours), to: 0)
        try await expectEqual(world)
        #expect(try await world.rows(1, "SELECT count(*) FROM book")[0][0] == 294.databaseValue)
    }

    @Test func `a void is refused if later entries of the author may build on it, unless they are voided, too`() async throws {
        let world = try await world()
        for value in 1...3 {
            try await write(world, 0, "UPDATE book SET pieces = \(value) WHERE id = 1")
            try await write(world, 0, "UPDATE book SET pieces = \(value) WHERE id = 2")
            try await world.sync(0)
        }
        #expect(await refusal { _ = try await world.relay.void(Position(2)) } == .isBuiltUpon(at: Position(4)))
        let outcome = try await world.relay.void(Position(2), withLater: true)
        #expect(outcome.voided == (2...7).map { Position($0) })
        try world.give(Self.ring(Self.lost, Self.ours), to: 0)
        try await expectEqual(world)
        #expect(try await titles(world, 2) == ["one 3", "two 3", "three 300"])
    }

    @Test func `the relay deletes a snapshot with the voided entry, and the author makes no snapshot that contains it`() async throws {
        let world = try await world()
        try await write(world, 0, "UPDATE book SET pieces = 1 WHERE id = 1")
        try await world.sync(0)
        let agent = SyncAgent(store: world.stores[0], transport: world.relay, environment: world.environment)
        #expect(try await agent.makeSnapshot() == Position(2))
        #expect(try await world.relay.void(Position(2)).snapshots == [Position(2)])
        #expect(try await world.relay.describe().snapshot?.position == Position(1))
        #expect(try await agent.makeSnapshot() == nil)
        try world.give(Self.ring(Self.lost, Self.ours), to: 0)
        try await expectEqual(world)
        let later = SyncAgent(store: world.stores[1], transport: world.relay, environment: world.environment)
        #expect(try await later.makeSnapshot() != nil)
        try await expectEqual(world)
    }

    @Test func `a void of an acknowledged entry or of the first entry is refused`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await write(world, 0, "UPDATE book SET pieces = 1 WHERE id = 1")
        try await world.sync(0)
        try await world.sync(1)
        try await world.sync(1)
        let taken = await refusal { _ = try await world.relay.void(Position(2)) }
        guard case .isTakenIn(let replicas) = taken else {
            Issue.record("\(String(describing: taken))")
            return
        }
        #expect(try await replicas.map(\.replica) == [world.identities()[1]])
        #expect(await refusal { _ = try await world.relay.void(Position(1)) } == .cannotBeVoided)
        let beyond = await refusal { _ = try await world.relay.void(Position(9)) }
        #expect(beyond == .noSuchPosition(head: Position(2), horizon: .zero))
    }

    @Test func `a replica that had applied the voided entry sends its changes again`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await write(world, 0, "UPDATE book SET pieces = 1 WHERE id = 1")
        try await world.sync(0)
        // Replica 1 applies the entry. The relay does not have its acknowledgement yet.
        try await world.sync(1)
        try await world.relay.retire(world.identities()[1])
        _ = try await world.relay.void(Position(2))
        try await expectEqual(world)
        #expect(try await titles(world, 2) == ["one 1", "two 200", "three 300"])
    }

    @Test func `law 2: later entries of a retired replica that build on the entry are voided with it`() async throws {
        let world = try await SyncedStores(replicas: 3, schema: Self.schema)
        try await write(world, 0, "INSERT INTO book VALUES(5, 'five', 1)")
        try await world.sync(0)
        try await world.sync(1)
        try await write(world, 1, "UPDATE book SET pieces = 2 WHERE id = 5")
        try await world.sync(1)
        try await world.relay.retire(world.identities()[1])
        #expect(await refusal { _ = try await world.relay.void(Position(2)) } == .isBuiltUpon(at: Position(3)))
        let outcome = try await world.relay.void(Position(2), withLater: true)
        #expect(outcome.voided == [Position(2), Position(3)])
        try await world.sync(2)
        #expect(try await titles(world, 2).count == 3)
        try await expectEqual(world)
        #expect(try await titles(world, 2).contains { $0.hasPrefix("five") })
    }

    @Test func `only the relay can void, and a replica refuses a log that omits an entry without a void`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let description = try await world.relay.describe()
        let seen = LogMark(lineage: description.lineage)
        let entry = try Voiding.entry(
            [VoidedEntry(position: Position(1), digest: .zero)], in: description.lineage, counter: Counter(1), previous: .zero,
            after: description.head, id: .random(), time: 0)
        await #expect(throws: TransportError.self) { _ = try await world.relay.push(entry.bytes, seen: seen) }
        try await write(world, 0, "UPDATE book SET pieces = 1 WHERE id = 1")
        try await world.sync(0)
        do {
            _ = try await world.sync(1, over: AlteredRelay.meddling(world.relay, .voided))
            Issue.record("it is believed")
        } catch {
            let error = error as? AnnalsError
            #expect(error?.code == .corruptBatch && error?.message.contains("position 2") == true, "\(String(describing: error))")
        }
    }

    @Test(.timeLimit(.minutes(20)))
    func `a replica that syncs continuously refuses a log that omits an entry, and verify reports it`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        let agent = SyncAgent(
            store: world.stores[1], transport: AlteredRelay.meddling(world.relay, .voided), environment: world.environment)
        let (reports, told) = AsyncStream<Void>.makeStream()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                do {
                    try await agent.run(commits: nil) { _ in told.yield() }
                    Issue.record("it is believed")
                } catch {
                    let error = error as? AnnalsError
                    #expect(error?.code == .corruptBatch && error?.message.contains("position 2") == true, "\(String(describing: error))")
                }
                told.finish()
            }
            for await _ in reports { break }
            try await write(world, 0, "UPDATE book SET pieces = 1 WHERE id = 1")
            try await world.sync(0)
            try await group.next()
        }
        let finding = try #require(try await world.stores[1].verify().first)
        #expect(finding.code == .log && finding.message.contains("position 2"), "\(finding)")
    }

    @Test func `a replay is refused if the relay omitted an entry`() async throws {
        let world = try await SyncedStores(replicas: 1, schema: Self.schema)
        for value in 1...3 {
            try await write(world, 0, "UPDATE book SET pieces = \(value) WHERE id = 1")
            try await world.sync(0)
        }
        let joining = Joining(
            transport: AlteredRelay.meddling(world.relay, .voided, pageBytes: 1, from: Position(3)), address: "http://127.0.0.1:1",
            space: world.space, name: "then", configuration: world.configuration("then"), environment: world.environment)
        let path = world.folder.file("then.db")
        _ = try await joining.replay(to: Position(2), output: world.folder.file("before.db"))
        do {
            _ = try await joining.replay(to: Position(3), output: path)
            Issue.record("it is believed")
        } catch {
            let error = error as? AnnalsError
            #expect(error?.code == .corruptBatch && error?.message.contains("position 3") == true, "\(String(describing: error))")
        }
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test func `the relay's clock in a void does not change the clock of a replica`() async throws {
        let world = try await world()
        try await write(world, 0, "UPDATE book SET pieces = 1 WHERE id = 1")
        try await world.sync(0)
        // The relay uses the machine's clock, years ahead of the clocks of the replicas.
        _ = try await world.relay.void(Position(2))
        try await world.sync(1)
        try await write(world, 1, "UPDATE book SET pieces = 2 WHERE id = 2")
        let time = try await world.rows(1, "SELECT time FROM annals_transactions ORDER BY number DESC LIMIT 1")[0][0]
        #expect(Int64.fromDatabaseValue(time).map { $0 <= world.clock.milliseconds } == true, "\(time)")
    }
}
