import AnnalsCore
import AnnalsWire
import Foundation
import GRDB
import RelayTestSupport
import Testing

@testable import RelayLog

/// Transactions in parts: all parts get their positions in one commit, or none does (law 6).
@Suite struct PartTests {
    let directory: TemporaryDirectory
    let log: RelayLog
    let lineage: Lineage

    init() async throws {
        directory = try TemporaryDirectory()
        log = try TestStorage.log(directory.path)
        lineage = try await log.createSpace(.shop).lineage
    }

    private func rows(_ table: String, in directory: TemporaryDirectory? = nil) throws -> Int {
        let database = try TestStorage.database((directory ?? self.directory).path)
        defer { try? database.close() }
        return try database.storage.readNow { db in Int(try db.integer("SELECT count(*) FROM \(table)", []) ?? 0) }
    }

    @Test func `law 6: parts wait until the last, which brings all of them into the log`() async throws {
        var one = TestReplica(1)
        let parts = one.parts(lineage, base: .zero, .writing(1), count: 3)
        for part in parts.dropLast() {
            let answer = try await log.push(part)
            #expect(answer.outcome == .accepted && answer.positions.isEmpty && answer.head == .zero)
            #expect(try await log.pull(from: .shop, after: .zero).frames.isEmpty)
        }
        let answer = try await log.push(parts[2])
        #expect(answer.outcome == .accepted && answer.positions == [Position(3)] && answer.head == Position(3))
        let page = try await log.pull(from: .shop, after: .zero)
        #expect(page.frames.map(\.batch) == parts.map(\.bytes))
        #expect(page.frames.map(\.firstPosition) == [Position(1), Position(2), Position(3)])
        #expect(Set(page.frames.map(\.receivedAt)).count == 1)
        #expect(try rows("annals_parts") == 0)
        one.accept(parts)
        #expect(try await log.push(one.batch(lineage, base: .zero, .writing(1))).positions == [Position(4)])
    }

    @Test func `law 7: parts sent again are known, before and after the last`() async throws {
        var one = TestReplica(1)
        let parts = one.parts(lineage, base: .zero, .writing(1), count: 3)
        for part in [parts[0], parts[0], parts[1], parts[0], parts[1]] {
            let answer = try await log.push(part)
            #expect(answer.outcome == .accepted && answer.positions.isEmpty)
        }
        #expect(try rows("annals_parts") == 2)
        #expect(try await log.push(parts[2]).positions == [Position(3)])
        for (number, part) in parts.enumerated() {
            #expect(try await log.push(part).positions == [Position(Int64(number) + 1)])
        }
        #expect(try await log.describe(.shop).head == Position(3))
        #expect(try rows("annals_parts") == 0)
    }

    @Test func `parts must follow one another`() async throws {
        var one = TestReplica(1)
        let parts = one.parts(lineage, base: .zero, .writing(1), count: 4)
        #expect(try await log.push(parts[1]).outcome == .partsMissing)
        #expect(try await log.push(parts[0]).outcome == .accepted)
        #expect(try await log.push(parts[2]).outcome == .partsMissing)
        #expect(try await log.push(parts[3]).outcome == .partsMissing)
        var other = parts[1]
        other.transactions[0].footprint = .writing(2)
        #expect(try await log.push(other).outcome == .partsMissing)
        other = parts[1]
        other.previousDigest = .test(77)
        #expect(try await log.push(other).outcome == .partsMissing)
        for part in parts[1...] { #expect(try await log.push(part).outcome == .accepted) }
        #expect(try await log.describe(.shop).head == Position(4))
        var gap = one.parts(lineage, base: .zero, .writing(1), count: 2)
        gap[0].firstCounter = Counter(7)
        #expect(try await log.push(gap[0]).outcome == .gap)
        var taken = parts[0]
        taken.transactions[0].digest = .test(78)
        #expect(try await log.push(taken).outcome == .identityConflict)
    }

    @Test func `another push of the replica gives up what waits`() async throws {
        var one = TestReplica(1)
        let parts = one.parts(lineage, base: .zero, .writing(1), count: 3)
        _ = try await log.push(parts[0])
        _ = try await log.push(parts[1])
        let again = one.parts(lineage, base: .zero, .writing(1), count: 3)
        _ = try await log.push(again[0])
        #expect(try await log.push(parts[2]).outcome == .partsMissing)
        #expect(try rows("annals_parts") == 1)
        var two = TestReplica(2)
        let others = two.parts(lineage, base: .zero, .writing(9), count: 2)
        _ = try await log.push(others[0])
        #expect(try rows("annals_parts") == 2)
        let whole = one.batch(lineage, base: .zero, .writing(1))
        #expect(try await log.push(whole).positions == [Position(1)])
        #expect(try rows("annals_parts") == 1)
        #expect(try await log.push(again[1]).outcome != .accepted)
        #expect(try await log.push(others[1]).positions == [Position(3)])
    }

    @Test func `what became stale is refused with the next part, and for ever`() async throws {
        var (one, two) = (TestReplica(1), TestReplica(2))
        let parts = one.parts(lineage, base: .zero, .writing(1), count: 3)
        _ = try await log.push(parts[0])
        #expect(try await log.push(two.batch(lineage, base: .zero, .writing(1))).outcome == .accepted)
        let answer = try await log.push(parts[1])
        #expect(answer.outcome == .stale(at: Position(1)) && answer.page?.frames.count == 1)
        #expect(try rows("annals_parts") == 0)
        #expect(try await log.push(parts[2]).outcome == .partsMissing)
        #expect(try await log.push(parts[0]).outcome == .stale(at: Position(1)))
        let rebased = one.parts(lineage, base: Position(1), .writing(1), count: 2)
        _ = try await log.push(rebased[0])
        #expect(try await log.push(rebased[1]).positions == [Position(3)])
        // Other transactions are compared with the footprint of all parts.
        #expect(try await log.push(two.batch(lineage, base: Position(1), .writing(1))).outcome != .accepted)
    }

    @Test(.filesOnly) func `a killed relay goes on where it was`() async throws {
        var one = TestReplica(1)
        let parts = one.parts(lineage, base: .zero, .writing(1), count: 3)
        for number in 0...2 {
            let copy = try TemporaryDirectory()
            for name in ["relay.db", "relay.db-wal"] {
                try FileManager.default.copyItem(atPath: directory.path + "/" + name, toPath: copy.path + "/" + name)
            }
            let reopened = try TestStorage.log(copy.path)
            for part in parts[number...] { #expect(try await reopened.push(part).outcome == .accepted) }
            #expect(try await reopened.describe(.shop).head == Position(3))
            await reopened.close()
            let again = try TestStorage.log(copy.path)
            var two = TestReplica(2)
            #expect(try await again.push(two.batch(lineage, base: .zero, .writing(1))).outcome == .stale(at: Position(3)))
            #expect(try await again.push(two.batch(lineage, base: .zero, .writing(2))).outcome == .accepted)
            await again.close()
            _ = try await log.push(parts[number])
        }
        await log.close()
    }

    @Test func `what waits is bounded`() async throws {
        await log.close()
        var limits = RelayLogLimits()
        var one = TestReplica(1)
        let parts = one.parts(lineage, base: .zero, .writing(1), count: 4)
        limits.pendingPartBytes = Int64(parts[0].bytes.count * 5 / 2)
        let small = try TestStorage.log(directory.path, limits: limits)
        _ = try await small.push(parts[0])
        _ = try await small.push(parts[1])
        let error = await #expect(throws: RelayLogError.self) { try await small.push(parts[2]) }
        guard case .transactionTooLarge = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(try rows("annals_parts") == 0)
        #expect(try await small.push(one.batch(lineage, base: .zero, .writing(1))).positions == [Position(1)])
        await small.close()
    }

    @Test func `a push lease lasts while its holder sends parts`() async throws {
        await log.close()
        let clock = TestClock()
        let log = try TestStorage.log(directory.path, clock: clock.clock)
        var (one, two) = (TestReplica(1), TestReplica(2))
        for base in 0..<3 {
            let other = two.batch(lineage, base: Position(Int64(base)), .writing(1))
            #expect(try await log.push(other).outcome == .accepted)
            two.accept(other)
            #expect(try await log.push(one.batch(lineage, base: Position(Int64(base)), .writing(1))).outcome != .accepted)
        }
        let parts = one.parts(lineage, base: Position(3), .writing(1), count: 4)
        let other = two.batch(lineage, base: Position(3), .writing(1))
        for part in parts.dropLast() {
            #expect(try await log.push(part).outcome == .accepted)
            clock.advance(milliseconds: 1_500)
            guard case .wait = try await log.push(other).outcome else {
                Issue.record("the push lease is over")
                break
            }
        }
        #expect(try await log.push(parts[3]).outcome == .accepted)
        #expect(try await log.push(other).outcome == .stale(at: Position(7)))
        await log.close()
    }

    @Test(.filesOnly) func `a directory of the format before parts and running digests is taken over`() async throws {
        var zero = TestReplica(9)
        var old: [TestBatch] = []
        for footprints in [[Footprint.writing(7)], [.writing(8), .writing(9)]] {
            let batch = zero.batch(lineage, base: .zero, footprints: footprints)
            #expect(try await log.push(batch).outcome == .accepted)
            zero.accept(batch)
            old.append(batch)
        }
        await log.close()
        let queue = try DatabaseQueue(path: directory.path + "/relay.db")
        try await queue.write { db in
            try db.execute(sql: FormatThree.sql)
            try db.execute(sql: "DROP TABLE annals_parts; ALTER TABLE annals_runs DROP COLUMN log_digest; PRAGMA user_version = 1")
        }
        try queue.close()
        let log = try TestStorage.log(directory.path)
        var one = TestReplica(1)
        for part in one.parts(lineage, base: .zero, .writing(1), count: 2) { #expect(try await log.push(part).outcome == .accepted) }
        #expect(try await log.describe(.shop).head == Position(5))
        let digests = old.flatMap { $0.transactions.map(\.digest) }
        let seen = LogMark(lineage: lineage, position: Position(3), digest: digests.reduce(Digest.zero) { $0.following($1) })
        #expect(try await log.pull(from: .shop, after: Position(3), seen: seen).frames.count == 2)
        await log.close()
    }
}
