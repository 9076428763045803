import AnnalsCore
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import Foundation
import GRDB
import Testing

/// Merge rule 26: a time counts as at most one minute after the relay's clock, for every author.
@Suite("Clocks that are wrong", .timeLimit(.minutes(20)))
struct ClockTests {
    private static let year = Duration.seconds(365 * 86_400)
    private static let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT); INSERT INTO t VALUES (1, 'base');"

    private func write(_ world: SyncedStores, _ index: Int, _ value: String) async throws {
        try await world.stores[index].write { db in try db.execute(sql: "UPDATE t SET a = ?", arguments: [value]) }
    }

    private func value(_ world: SyncedStores, _ index: Int) async throws -> String? {
        try await world.stores[index].read { db in try String.fetchOne(db, sql: "SELECT a FROM t") }
    }

    @Test("A replica a year ahead does not win over what is written a day later", arguments: [SyncDirection.both, .pullOnly])
    func yearAhead(_ direction: SyncDirection) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema, sharesClock: true)
        // With equal times, the higher replica id wins. So the replica with this id has the wrong clock.
        let identities = try await world.identities()
        let (ahead, right) = identities[0] > identities[1] ? (0, 1) : (1, 0)
        world.clock.advance(Self.year)
        try await write(world, ahead, "a year ahead")
        world.clock.advance(.zero - Self.year)
        try await world.sync(ahead)
        world.clock.advance(.seconds(86_400))
        try await write(world, right, "a day later")
        try await world.sync(right, direction)
        try await world.settle()
        #expect(try await value(world, ahead) == "a day later")
    }

    @Test("A replica a year ahead wins over what was written a day before", arguments: [SyncDirection.both, .pullOnly])
    func yearAheadLater(_ direction: SyncDirection) async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema, sharesClock: true)
        try await write(world, 0, "a day before")
        try await world.sync(0)
        world.clock.advance(.seconds(86_400) + Self.year)
        try await write(world, 1, "a year ahead")
        world.clock.advance(.zero - Self.year)
        try await world.sync(1, direction)
        try await world.settle()
        #expect(try await value(world, 0) == "a year ahead")
    }

    @Test func `A summary has the delays of its transactions`() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema, sharesClock: true)
        try await world.settle()
        try await write(world, 0, "a")
        world.clock.advance(.milliseconds(200))
        try await write(world, 0, "b")
        world.clock.advance(.milliseconds(40))
        let sent = try await world.sync(0).pushed.delays
        world.clock.advance(.seconds(100_000))
        let received = try await world.sync(1).pulled.delays
        func classes(_ delays: Delays) -> [Double] { zip(Delays.bounds, delays.counts).flatMap { Array(repeating: $0, count: $1) } }
        #expect(classes(sent) == [0.05, 0.25] && abs(sent.seconds - 0.28) < 0.001)
        // Longer than the longest class.
        #expect(classes(received) == [] && received.count == 2 && received.seconds > 200_000)
        #expect(try await world.sync(0).pulled.delays == Delays())
    }

    @Test("What a replica a year behind writes over what it has seen stands")
    func yearBehind() async throws {
        let world = try await SyncedStores(replicas: 2, schema: Self.schema, sharesClock: true)
        try await write(world, 0, "seen")
        try await world.settle()
        world.clock.advance(.zero - Self.year)
        try await write(world, 1, "a year behind")
        try await write(world, 1, "a year behind, again")
        world.clock.advance(Self.year)
        try await world.settle()
        #expect(try await value(world, 0) == "a year behind, again")
    }
}
