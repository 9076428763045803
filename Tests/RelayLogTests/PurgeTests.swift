import AnnalsCore
import AnnalsWire
import Foundation
import GRDB
import RelayTestSupport
import Testing

@testable import RelayLog

/// A relay's directory in format 3.
enum FormatThree {
    static let sql = """
        \(BeforeOperators.sql)
        ALTER TABLE annals_spaces DROP COLUMN horizon_digest;
        ALTER TABLE annals_spaces DROP COLUMN log_bytes;
        ALTER TABLE annals_spaces DROP COLUMN part_changes;
        ALTER TABLE annals_replicas DROP COLUMN last_position;
        ALTER TABLE annals_replicas DROP COLUMN retired;
        DROP TABLE annals_snapshots;
        CREATE TABLE annals_snapshots(
            space INTEGER PRIMARY KEY REFERENCES annals_spaces(id), position INTEGER NOT NULL, bytes INTEGER NOT NULL,
            digest BLOB NOT NULL, file TEXT NOT NULL, created INTEGER NOT NULL) STRICT;
        PRAGMA user_version = 3;
        """
}

/// Purging the older part of a log.
@Suite struct PurgeTests {
    let directory: TemporaryDirectory
    let clock = TestClock()
    let log: RelayLog
    let lineage: Lineage

    init() async throws {
        directory = try TemporaryDirectory()
        log = try TestStorage.log(directory.path, clock: clock.clock)
        lineage = try await log.createSpace(.shop).lineage
    }

    /// Pushes this number of transactions, one at a time, a second apart.
    func fill(_ count: Int, by replica: inout TestReplica, base: Position? = nil) async throws -> [TestBatch] {
        var batches: [TestBatch] = []
        for number in 0..<count {
            clock.advance(milliseconds: 1000)
            let head = try await log.describe(.shop).head
            let batch = replica.batch(lineage, base: base ?? head, .writing(UInt64(number) + 1000))
            #expect(try await log.push(batch).outcome == .accepted)
            replica.accept(batch)
            batches.append(batch)
        }
        return batches
    }

    func snapshot(_ position: Int64) async throws {
        let upload = try await log.snapshots.begin(.shop, position: Position(position))
        try await upload.complete(Array("rows at \(position)".utf8))
    }

    /// Keeps nothing because of its age.
    var rules: PurgeRules {
        var rules = PurgeRules()
        rules.keep = -1
        return rules
    }

    @discardableResult
    func purge(_ rules: PurgeRules? = nil) async throws -> Int64 {
        try await log.purge(.shop, rules ?? self.rules).horizon.rawValue
    }

    func acknowledge(_ replica: TestReplica, _ position: Int64) {
        log.note(replica.id, named: "r", at: Position(position), in: .shop)
    }

    func runs() async throws -> Int {
        try await log.database.storage.read { Int(try $0.integer("SELECT count(*) FROM annals_runs", []) ?? 0) }
    }

    /// A batch with a purged first transaction: the digest cannot be compared any more, and only limits of its position are known.
    @Test func `law 7: positions of a batch that is sent again ascend, whatever was purged of it`() async throws {
        var (one, two) = (TestReplica(1), TestReplica(2))
        var sent: [TestBatch] = []
        for number in 0..<3 {
            sent += try await fill(1, by: &one, base: number == 0 ? .zero : nil)
            if number < 2 { _ = try await fill(1, by: &two) }
        }
        try await snapshot(1)
        for replica in [one, two] { acknowledge(replica, 5) }
        #expect(try await purge() == 1)
        var again = sent[0]
        again.transactions = [sent[0], sent[1], sent[2]].map { $0.transactions[0] }
        again.transactions[0].digest = .test(99)
        let answer = try await log.push(again)
        #expect(answer.outcome == .accepted)
        #expect(answer.positions == [Position(2), Position(3), Position(5)])
        #expect(try PushAnswer.decode(answer.encode()) == answer)
    }

    @Test func `law 9: what a snapshot covers and everyone has goes, and the log begins at that snapshot`() async throws {
        var one = TestReplica(1)
        _ = try await fill(6, by: &one)
        #expect(try await purge() == 0, "no snapshot covers anything")
        try await snapshot(2)
        try await snapshot(4)
        acknowledge(one, 6)
        acknowledge(TestReplica(2), 3)
        #expect(try await purge() == 2, "replica 2 has come to 3")
        acknowledge(TestReplica(2), 6)
        #expect(try await purge() == 4)
        #expect(try await runs() == 2)
        #expect(try await log.describe(.shop).horizon == Position(4))
        #expect(try await log.pull(from: .shop, after: Position(4)).frames.count == 2)
        await #expect { _ = try await log.pull(from: .shop, after: Position(3)) } throws: {
            if case .expired(Position(4))? = $0 as? RelayLogError { true } else { false }
        }
        #expect(try TestStorage.database(directory.path).snapshots.names().count == 1)
        #expect(try await purge() == 4)
    }

    @Test func `law 10: only live replicas hold the log, and what is young stays`() async throws {
        var one = TestReplica(1)
        _ = try await fill(4, by: &one)
        try await snapshot(4)
        acknowledge(one, 4)
        let lagging = TestReplica(2)
        acknowledge(lagging, 1)
        #expect(try await purge() == 0)
        var rules = rules
        rules.silence = 10_000
        clock.advance(milliseconds: 20_000)
        acknowledge(lagging, 1)
        #expect(try await purge(rules) == 0, "it was seen just now")
        #expect(try await log.retire(lagging.id, of: .shop))
        acknowledge(one, 4)
        rules.keep = 60_000
        #expect(try await purge(rules) == 0, "all of it is younger than a minute")
        rules.keep = -1
        #expect(try await purge(rules) == 4)

        _ = try await fill(2, by: &one)
        try await snapshot(6)
        acknowledge(one, 6)
        acknowledge(lagging, 4)
        #expect(try await purge(rules) == 4, "a retired replica counts again once it is seen")
        clock.advance(milliseconds: 20_000)
        acknowledge(one, 6)
        #expect(try await purge(rules) == 6, "one that was not seen for long does not")

        _ = try await fill(2, by: &one)
        try await snapshot(8)
        acknowledge(one, 8)
        acknowledge(lagging, 6)
        #expect(try await purge(rules) == 6)
        rules.retention = 5_000
        clock.advance(milliseconds: 6_000)
        acknowledge(lagging, 6)
        #expect(try await purge(rules) == 8, "nor is anything kept for longer than the retention")

        _ = try await fill(2, by: &one)
        try await snapshot(10)
        acknowledge(lagging, 8)
        rules.retention = .max / 2
        rules.isForced = true
        #expect(try await purge(rules) == 10)
    }

    @Test func `law 7: a push whose entry is gone is known by its digest, in a batch and in parts`() async throws {
        var one = TestReplica(1)
        let batch = one.batch(lineage, base: .zero, footprints: [.writing(1), .writing(2), .writing(3)])
        #expect(try await log.push(batch).outcome == .accepted)
        var two = TestReplica(2)
        let parts = two.parts(lineage, base: .zero, .writing(9), count: 3)
        for part in parts { #expect(try await log.push(part).outcome == .accepted) }
        try await snapshot(6)
        var forced = rules
        forced.isForced = true
        #expect(try await purge(forced) == 6)
        #expect(try await runs() == 0)
        for isReopened in [false, true] {
            let log = isReopened ? try await reopened() : log
            let answer = try await log.push(batch)
            #expect(answer.outcome == .accepted && answer.positions == [1, 2, 3].map { Position($0) })
            #expect(try await log.push(parts[0]).positions == [Position(4)])
            #expect(try await log.push(parts[2]).positions == [Position(6)])
            #expect(try await log.describe(.shop).head == Position(6))
            // Other content with the same counters comes from a copy.
            var other = parts[2]
            other.transactions[0].digest = .test(77)
            #expect(try await log.push(other).outcome == .identityConflict)
            var copy = batch
            copy.transactions[2].digest = .test(78)
            #expect(try await log.push(copy).outcome == .identityConflict)
            if isReopened { await log.close() }
        }
    }

    @Test func `law 7: the first of a batch are known though the rest of it was refused`() async throws {
        var one = TestReplica(1)
        var two = TestReplica(2)
        _ = try await log.push(two.batch(lineage, base: .zero, .writing(2)))
        let batch = one.batch(lineage, base: .zero, footprints: [.writing(1), .writing(2)])
        let first = try await log.push(batch)
        #expect(first.positions == [Position(2)] && first.outcome == .stale(at: Position(1)))
        try await snapshot(2)
        var forced = rules
        forced.isForced = true
        #expect(try await purge(forced) == 2)
        let again = try await log.push(batch)
        #expect(again.positions == [Position(2)] && again.outcome == .stale(at: nil) && again.page == nil)
    }

    private func reopened() async throws -> RelayLog {
        await log.close()
        return try TestStorage.log(directory.path, clock: clock.clock)
    }

    @Test func `the running digest goes on from the horizon, and an older base is stale`() async throws {
        var one = TestReplica(1)
        let batch = one.batch(lineage, base: .zero, footprints: (0..<4).map { .writing($0) })
        #expect(try await log.push(batch).outcome == .accepted)
        one.accept(batch)
        _ = try await fill(2, by: &one)
        // Within one batch: its run stays complete.
        try await snapshot(3)
        acknowledge(one, 6)
        #expect(try await purge() == 3)
        #expect(try await runs() == 3)
        let digests = batch.transactions.map(\.digest)
        func mark(_ count: Int) -> LogMark {
            LogMark(
                lineage: lineage, position: Position(Int64(count)), digest: digests.prefix(count).reduce(.zero) { $0.following($1) })
        }
        for count in [3, 4] { #expect(try await log.pull(from: .shop, after: Position(Int64(count)), seen: mark(count)).isLast) }
        try await snapshot(6)
        #expect(try await purge() == 6)
        #expect(try await runs() == 0)
        let log = try await reopened()
        let horizon = try #require(try await log.describe(.shop).snapshot?.logDigest.flatMap { Digest($0) })
        let seen = LogMark(lineage: lineage, position: Position(6), digest: horizon)
        #expect(try await log.pull(from: .shop, after: Position(6), seen: seen).frames.isEmpty)
        await #expect(throws: RelayLogError.self) {
            _ = try await log.pull(
                from: .shop, after: Position(6), seen: LogMark(lineage: lineage, position: Position(6), digest: .test(1)))
        }
        var two = TestReplica(2)
        let old = two.batch(lineage, base: Position(5), .writing(500))
        let answer = try await log.push(old)
        #expect(answer.outcome == .stale(at: nil) && answer.page == nil)
        let new = one.batch(lineage, base: Position(6), .writing(501))
        #expect(try await log.push(new).positions == [Position(7)])
        let next = LogMark(lineage: lineage, position: Position(7), digest: horizon.following(new.transactions[0].digest))
        #expect(try await log.pull(from: .shop, after: Position(7), seen: next).isLast)
        await log.close()
    }

    @Test func `a purge goes in slices, one that was interrupted is finished, and a rehearsal changes nothing`() async throws {
        var one = TestReplica(1)
        _ = try await fill(5, by: &one)
        try await snapshot(5)
        acknowledge(one, 5)
        _ = try await log.replicas(of: .shop)
        let rehearsed = try await log.database.purge(.shop, rules, now: clock.now, commits: false)
        #expect(rehearsed.horizon == Position(5) && rehearsed.bytes > 0)
        #expect(try await runs() == 5)
        var limits = RelayLogLimits()
        limits.purgeSliceRuns = 2
        let space = try await log.database.storage.read { try LogStorage.space(.shop, in: $0)?.id ?? 0 }
        let digest = try await log.database.storage.read { try RunningDigests.at(Position(5), of: space, in: $0) ?? .zero }
        try await log.database.storage.write { [limits] db in
            try PurgeStorage.setHorizon(Position(5), digest, of: space, in: db)
            _ = try PurgeStorage.dropRuns(of: space, limits: limits, in: db)
        }
        #expect(try await runs() == 3)
        #expect(try await purge() == 5)
        #expect(try await runs() == 0)
    }

    @Test(.filesOnly) func `law 9: what a purge frees is used again`() async throws {
        var one = TestReplica(1)
        func pages() async throws -> Int {
            try await log.database.storage.read { Int(try $0.integer("PRAGMA page_count", []) ?? 0) }
        }
        func fill() async throws {
            for _ in 0..<20 {
                let head = try await log.describe(.shop).head
                let batch = one.batch(lineage, base: head, .writing(1), payload: [UInt8](repeating: 7, count: 50_000))
                #expect(try await log.push(batch).outcome == .accepted)
                one.accept(batch)
            }
            let head = try await log.describe(.shop).head
            try await snapshot(head.rawValue)
            acknowledge(one, head.rawValue)
        }
        try await fill()
        let size = try await pages()
        for _ in 0..<3 {
            #expect(try await purge() == log.describe(.shop).head.rawValue)
            try await fill()
            #expect(try await pages() <= size + 10)
        }
    }

    @Test func `of many snapshots the newest, the oldest and some between are kept, and each position has one`() async throws {
        var one = TestReplica(1)
        _ = try await fill(40, by: &one)
        for position in stride(from: 1, through: 40, by: 2) { try await snapshot(Int64(position)) }
        #expect(try TestStorage.database(directory.path).snapshots.names().count == RelayLogLimits().snapshotsKept)
        for position in 1...40 {
            let found = try await log.snapshots.open(.shop, atOrBefore: Position(Int64(position))).record.position
            #expect(found <= Position(Int64(position)))
        }
        #expect(try await log.snapshots.open(.shop, atOrBefore: Position(1)).record.position == Position(1))
        #expect(try await log.snapshots.open(.shop).record.position == Position(39))
        await #expect { _ = try await log.snapshots.open(.shop, atOrBefore: .zero) } throws: {
            if case .noSnapshot? = $0 as? RelayLogError { true } else { false }
        }
    }

    @Test func `one replica is asked for a snapshot, and another one when it does not come`() async throws {
        await log.close()
        var limits = RelayLogLimits()
        limits.snapshotLogPositions = 3
        let log = try TestStorage.log(directory.path, limits: limits, clock: clock.clock)
        var one = TestReplica(1)
        func isAsked(_ replica: TestReplica) async throws -> Bool {
            let seen = LogMark(lineage: lineage, replica: replica.id)
            return try await log.pull(from: .shop, after: try await log.describe(.shop).head, seen: seen).isSnapshotDue
        }
        func push() async throws -> PushAnswer {
            let batch = one.batch(lineage, base: try await log.describe(.shop).head, .writing(1))
            let answer = try await log.push(
                batch.bytes, header: try batch.header(), to: .shop, seen: LogMark(lineage: lineage, replica: one.id))
            one.accept(batch)
            return answer
        }
        func snapshot(_ position: Int64) async throws {
            let upload = try await log.snapshots.begin(.shop, position: Position(position))
            try await upload.complete()
        }
        #expect(try await !push().isSnapshotDue)
        try await snapshot(1)
        for _ in 0..<2 { #expect(try await !push().isSnapshotDue) }
        #expect(try await !isAsked(TestReplica(2)))
        #expect(try await push().isSnapshotDue)
        #expect(try await !isAsked(TestReplica(2)))
        #expect(try await isAsked(one))
        clock.advance(milliseconds: limits.snapshotLeaseMilliseconds)
        #expect(try await isAsked(TestReplica(2)))
        #expect(try await !isAsked(one))
        try await snapshot(4)
        #expect(try await !isAsked(TestReplica(2)))
        await log.close()
    }

    @Test func `a restarted relay also asks a replica that only pushes`() async throws {
        try await snapshot(0)
        await log.close()
        var limits = RelayLogLimits()
        limits.snapshotLogPositions = 2
        let log = try TestStorage.log(directory.path, limits: limits, clock: clock.clock)
        var one = TestReplica(1)
        for number in 0..<2 {
            let batch = one.batch(lineage, base: Position(Int64(number)), .writing(1))
            let seen = LogMark(lineage: lineage, replica: one.id)
            #expect(try await log.push(batch.bytes, header: try batch.header(), to: .shop, seen: seen).isSnapshotDue == (number == 1))
            one.accept(batch)
        }
        await log.close()
    }

    @Test(.filesOnly) func `a directory of the format before is taken over`() async throws {
        var one = TestReplica(1)
        let batches = try await fill(3, by: &one)
        await log.close()
        let queue = try DatabaseQueue(path: directory.path + "/relay.db")
        try await queue.write { db in try db.execute(sql: FormatThree.sql) }
        try queue.close()
        let log = try TestStorage.log(directory.path, clock: clock.clock)
        let upload = try await log.snapshots.begin(.shop, position: Position(3))
        try await upload.complete()
        log.note(one.id, named: nil, at: Position(3), in: .shop)
        #expect(try await log.purge(.shop, rules).horizon == Position(3))
        #expect(try await log.push(batches[2]).positions == [Position(3)])
        await log.close()
    }
}
