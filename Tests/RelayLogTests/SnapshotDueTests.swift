import AnnalsCore
import AnnalsWire
import RelayTestSupport
import Synchronization
import Testing

@testable import RelayLog

/// When the next snapshot is due, and which owners are asked to make or to compare one, if some existing snapshots do not count.
@Suite(.timeLimit(.minutes(20))) struct SnapshotDueTests {
    let directory: TemporaryDirectory
    let clock = TestClock()
    let log: RelayLog
    let lineage: Lineage

    private static let ann = ReplicaOwner.token(1)
    private static let bob = ReplicaOwner.token(2)
    private static let mallory = ReplicaOwner.token(3)

    /// Six entries by ann, bob and mallory, and ann's snapshot of the first one.
    init() async throws {
        directory = try TemporaryDirectory()
        var limits = RelayLogLimits()
        limits.snapshotLogPositions = 5
        log = try TestStorage.log(directory.path, limits: limits, clock: clock.clock)
        lineage = try await log.createSpace(.shop).lineage
        var replicas = (1...3).map { TestReplica(UInt64($0)) }
        for number in 0..<6 {
            let batch = replicas[number % 3].batch(lineage, base: try await log.describe(.shop).head, .writing(UInt64(number)))
            let owner = [Self.ann, Self.bob, Self.mallory][number % 3]
            #expect(try await log.push(batch.bytes, header: batch.header(), to: .shop, by: owner).outcome == .accepted)
            replicas[number % 3].accept(batch)
        }
        try await bring(1, by: Self.ann)
    }

    @discardableResult
    private func bring(_ position: Int64, by owner: ReplicaOwner) async throws -> SnapshotRecord {
        let upload = try await log.snapshots.begin(.shop, position: Position(position), by: Taker(credential: owner, space: .shop))
        return try await upload.complete((0..<64).map { _ in UInt8.random(in: 0 ... .max) })
    }

    private func say(_ isGood: Bool, _ snapshot: SnapshotRecord, by owner: ReplicaOwner) async throws {
        let check = SnapshotCheck(position: snapshot.position, digest: snapshot.digest, isGood: isGood)
        _ = try await log.check(check, of: .shop, by: owner)
    }

    /// The request to an up-to-date replica of an owner, after the lease of another replica has ended.
    private func asked(_ owner: ReplicaOwner, replica: UInt64 = 9) async throws -> Page {
        clock.advance(milliseconds: RelayLogLimits().snapshotLeaseMilliseconds)
        let seen = LogMark(lineage: lineage, position: Position(6), replica: TestReplica(replica).id)
        return try await log.pull(from: .shop, after: Position(6), seen: seen, by: owner)
    }

    /// The owners with replicas that are asked for a snapshot.
    private var due: [ReplicaOwner] {
        get async throws {
            var due: [ReplicaOwner] = []
            for owner in [Self.ann, Self.bob, Self.mallory] where try await asked(owner).isSnapshotDue { due.append(owner) }
            return due
        }
    }

    @Test func `one that was refuted counts as none for others, and its owner is not asked again`() async throws {
        #expect(try await due == [Self.ann, Self.bob, Self.mallory])
        let bad = try await bring(5, by: Self.mallory)
        #expect(try await due == [])
        try await say(false, bad, by: Self.bob)
        #expect(try await due == [Self.ann, Self.bob])
        // The confirmation of a trusted owner makes it count again.
        try await say(true, bad, by: Self.ann)
        #expect(try await due == [])
        await log.close()
    }

    @Test func `who only pushes is asked, too, as soon as it was refuted`() async throws {
        let bad = try await bring(5, by: Self.mallory)
        try await say(false, bad, by: Self.bob)
        var fresh = TestReplica(8)
        let batch = fresh.batch(lineage, base: Position(6), .writing(99))
        let seen = LogMark(lineage: lineage, replica: fresh.id)
        #expect(try await log.push(batch.bytes, header: batch.header(), to: .shop, by: Self.ann, seen: seen).isSnapshotDue)
        fresh.accept(batch)
        await log.close()
    }

    @Test func `what another process has recorded is found a few seconds later, and until then answers need no look`() async throws {
        let snapshot = try await bring(3, by: Self.ann)
        #expect(try await asked(Self.mallory).snapshotToCheck == Position(3))
        try await say(true, snapshot, by: Self.bob)
        #expect(try await due.isEmpty)
        let other = SnapshotRecord(
            position: Position(5), byteCount: 64, digest: Digest.zero, file: "other", logBytes: 0, owner: Self.mallory.text,
            verdict: .unchecked)
        try await log.database.storage.write { db in _ = try LogStorage.addSnapshot(other, of: 1, at: 0, in: db) }
        let seen = LogMark(lineage: lineage, position: Position(6), replica: TestReplica(9).id)
        for (milliseconds, position) in [(Int64(0), nil), (4_999, nil), (1, Position(5))] {
            clock.advance(milliseconds: milliseconds)
            #expect(try await log.pull(from: .shop, after: Position(6), seen: seen, by: Self.bob).snapshotToCheck == position)
        }
    }

    @Test func `one of a quarantined owner counts as none until that is lifted`() async throws {
        try await bring(5, by: Self.mallory)
        _ = try await log.database.quarantine(Self.mallory.text, of: .shop, now: clock.now)
        #expect(try await due == [Self.ann, Self.bob])
        #expect(try await log.database.liftQuarantine(of: Self.mallory.text, in: .shop, now: clock.now))
        #expect(try await due == [])
        await log.close()
    }

    @Test func `one of a quarantined owner that another owner has confirmed counts`() async throws {
        let good = try await bring(5, by: Self.mallory)
        try await say(true, good, by: Self.ann)
        _ = try await log.database.quarantine(Self.mallory.text, of: .shop, now: clock.now)
        #expect(try await due == [])
        #expect(try await log.snapshots.open(.shop).record.position == Position(5))
        await log.close()
    }

    @Test func `a clone gets neither junk nor a snapshot that nobody has confirmed where there is a better one`() async throws {
        let bad = try await bring(4, by: Self.mallory)
        try await say(false, bad, by: Self.bob)
        try await bring(5, by: Self.bob)
        #expect(try await log.snapshots.open(.shop).record.position == Position(1))
        #expect(try await log.describe(.shop).snapshot?.position == Position(1))
        // Without a trusted snapshot the newest one counts.
        try await log.database.storage.write { try LogStorage.dropSnapshot(at: Position(1), of: 1, in: $0) }
        let late = try await bring(6, by: Self.mallory)
        try await say(false, late, by: Self.ann)
        #expect(try await log.snapshots.open(.shop).record.position == Position(5))
        await log.close()
    }

    @Test func `a snapshot that nobody compared is compared before a newer one that was refuted`() async throws {
        try await bring(4, by: Self.bob)
        let bad = try await bring(5, by: Self.mallory)
        try await say(false, bad, by: Self.bob)
        #expect(try await asked(Self.ann).snapshotToCheck == Position(4))
        // A new snapshot of the same owner replaces it.
        #expect(try await bring(6, by: Self.bob).position == Position(6))
        #expect(try await asked(Self.ann).snapshotToCheck == Position(6))
        let good = try await log.snapshots.open(.shop, atOrBefore: Position(6), exact: true).record
        // A refuted snapshot may be correct, so other owners are asked. An owner that has answered is not asked.
        try await say(false, good, by: Self.ann)
        #expect(try await asked(Self.ann).isSnapshotDue)
        #expect(try await asked(Self.mallory).snapshotToCheck == Position(6))
        // A snapshot before a newer trusted one needs no further answer.
        try await say(true, good, by: Self.mallory)
        #expect(try await asked(Self.ann, replica: 10).snapshotToCheck == nil)
        await log.close()
    }

    @Test func `an owner whose snapshot had no room is not asked again at once, and others are`() async throws {
        let lease = RelayLogLimits().snapshotLeaseMilliseconds
        let seen = LogMark(lineage: lineage, position: Position(6), replica: TestReplica(9).id)
        func isAsked() async throws -> Bool {
            try await log.pull(from: .shop, after: Position(6), seen: seen, by: Self.ann).isSnapshotDue
        }
        #expect(try await isAsked())
        // The pauses double, up to an hour.
        for pause: Int64 in [1, 2, 4, 6, 6] {
            await #expect(throws: RelayLogError.self) {
                _ = try await log.snapshots.begin(
                    .shop, position: Position(6), of: .max, by: Taker(credential: Self.ann, space: .shop))
            }
            clock.advance(milliseconds: pause * lease - 1)
            #expect(try await !isAsked(), "\(pause)")
            clock.advance(milliseconds: 1)
            #expect(try await isAsked(), "\(pause)")
        }
        await #expect(throws: RelayLogError.self) {
            _ = try await log.snapshots.begin(.shop, position: Position(6), of: .max, by: Taker(credential: Self.ann, space: .shop))
        }
        #expect(try await asked(Self.bob, replica: 10).isSnapshotDue)
        // A snapshot that arrives ends the pauses.
        try await bring(6, by: Self.bob)
        #expect(try await due.isEmpty)
        await log.close()
    }

    @Test func `nobody is asked for a snapshot while the disk has no room for one like the newest`() async throws {
        await log.close()
        let free = Mutex<Int64>(.max)
        var limits = RelayLogLimits()
        limits.snapshotLogPositions = 5
        let log = try RelayLog(
            database: TestStorage.database(directory.path), limits: limits, clock: clock.clock, logger: .silent,
            freeBytes: { free.withLock { $0 } })
        let newest = try #require(try await log.describe(.shop).snapshot)
        let seen = LogMark(lineage: lineage, position: Position(6), replica: TestReplica(9).id)
        for (bytes, isAsked) in [(newest.bytes, false), (newest.bytes + 1, true)] {
            free.withLock { $0 = limits.diskReserveBytes + bytes }
            clock.advance(milliseconds: limits.snapshotLeaseMilliseconds)
            #expect(try await log.pull(from: .shop, after: Position(6), seen: seen, by: Self.ann).isSnapshotDue == isAsked)
        }
        await log.close()
    }

    @Test func `nobody is asked to compare what a quarantined owner brought`() async throws {
        try await bring(5, by: Self.mallory)
        #expect(try await asked(Self.ann).snapshotToCheck == Position(5))
        _ = try await log.database.quarantine(Self.mallory.text, of: .shop, now: clock.now)
        #expect(try await asked(Self.bob).snapshotToCheck == nil)
        await log.close()
    }
}
