import AnnalsCore
import AnnalsWire
import RelayTestSupport
import Testing

@testable import RelayLog

/// The deletion of a space removes all of it and nothing else. A new space with its name is another space.
@Suite(.timeLimit(.minutes(20))) struct DeletionTests {
    let directory: TemporaryDirectory
    let clock = TestClock()

    init() throws {
        directory = try TemporaryDirectory()
    }

    private func fill(_ log: RelayLog, _ space: SpaceName) async throws {
        let lineage = try await log.createSpace(space).lineage
        var replica = TestReplica(1)
        for number in 0..<5 {
            let batch = replica.batch(lineage, base: Position(Int64(number)), .writing(1))
            #expect(try await log.push(batch, to: space).outcome == .accepted)
            replica.accept(batch)
        }
        let upload = try await log.snapshots.begin(space, position: Position(5))
        try await upload.complete([1, 2, 3])
        var waiting = TestReplica(2)
        #expect(try await log.push(waiting.parts(lineage, base: Position(5), .writing(2), count: 2)[0], to: space).outcome == .accepted)
        // The replicas are stored.
        _ = try await log.replicas(of: space)
    }

    /// Rows in all tables that belong to a space.
    private func rows(_ log: RelayLog) async throws -> [Int64] {
        try await log.reading { db in
            try ["annals_runs", "annals_parts", "annals_snapshots", "annals_days", "annals_replicas", "annals_spaces"].map {
                try db.integer("SELECT count(*) FROM \($0)", []) ?? -1
            }
        }
    }

    @Test func `all of a space goes in small commits, and the other one stays`() async throws {
        var limits = RelayLogLimits()
        limits.purgeSliceRuns = 2
        let log = try TestStorage.log(directory.path, limits: limits, clock: clock.clock)
        try await fill(log, .shop)
        let one = try await rows(log)
        try await fill(log, .other)
        let deletion = try await log.deleteSpace(.shop, by: .commandLine(user: "ann"))
        #expect(
            deletion.head == Position(5) && deletion.snapshotBytes == Int64(TestSnapshot.bytes([1, 2, 3]).count) && deletion.logBytes > 500)
        #expect(try await rows(log) == one)
        await #expect(throws: RelayLogError.self) { try await log.describe(.shop) }
        #expect(try await log.spaces() == [.other])
        #expect(try await log.pull(from: .other, after: .zero).frames.count == 5)
        let line = try #require(try await log.audit(limit: 10).first)
        #expect(line.action == "space-delete" && line.space == .shop && line.actor == "cli (ann)" && line.subject.hasPrefix("head 5, "))
        await #expect(throws: RelayLogError.self) { try await log.deleteSpace(.shop) }
        await log.close()
    }

    @Test func `a new space of the name begins anew, also for who was connected to the old one`() async throws {
        let log = try TestStorage.log(directory.path, clock: clock.clock)
        try await fill(log, .shop)
        let old = try await log.describe(.shop).lineage
        // Deleted by another process, without the serving relay.
        let beside = try TestStorage.database(directory.path)
        _ = try await beside.deleteSpace(.shop, now: clock.now)
        try beside.close()
        await #expect(throws: RelayLogError.self) { try await log.pull(from: .shop, after: .zero) }
        var replica = TestReplica(3)
        await #expect(throws: RelayLogError.self) { try await log.push(replica.batch(old, base: .zero, .writing(1))) }
        let lineage = try await log.createSpace(.shop).lineage
        #expect(lineage != old)
        await #expect(throws: RelayLogError.self) { try await log.require(.shop, seen: LogMark(lineage: old)) }
        // The head of the old space is not used for the new one: the pull waits.
        let batch = replica.batch(lineage, base: .zero, .writing(1))
        async let waited = log.pull(from: .shop, after: .zero, wait: .seconds(3600))
        while log.waiterCount == 0 { await Task.yield() }
        #expect(try await log.push(batch).outcome == .accepted)
        #expect(try await waited.frames.count == 1)
        await log.close()
    }

    @Test func `who waits for a space that is deleted is answered`() async throws {
        let log = try TestStorage.log(directory.path, clock: clock.clock)
        try await fill(log, .shop)
        async let waited = log.pull(from: .shop, after: Position(5), wait: .seconds(3600))
        while log.waiterCount == 0 { await Task.yield() }
        _ = try await log.deleteSpace(.shop)
        #expect(try await waited.frames.isEmpty)
        await log.close()
    }

    @Test func `a deletion that was interrupted is finished by the upkeep`() async throws {
        let log = try TestStorage.log(directory.path, clock: clock.clock)
        try await fill(log, .shop)
        // The state after the first commit of a deletion.
        try await log.database.storage.write { db in
            try db.execute("UPDATE annals_spaces SET name = 'deleted:1' WHERE name = 'shop'", [])
        }
        #expect(try await log.spaces().isEmpty)
        try await log.upkeep()
        #expect(try await rows(log) == [0, 0, 0, 0, 0, 0])
        await log.close()
    }
}
