import AnnalsCore
import AnnalsWire
import Foundation
import GRDB
import Logging
import RelayTestSupport
import Testing

@testable import RelayLog

/// The operations of the log: push, pull, wait, reopen.
@Suite struct RelayLogTests {
    let directory: TemporaryDirectory
    let clock = TestClock()

    init() throws {
        directory = try TemporaryDirectory()
    }

    func open(limits: RelayLogLimits = RelayLogLimits()) throws -> RelayLog {
        try TestStorage.log(directory.path, limits: limits, clock: clock.clock)
    }

    @Test func `a new space is empty and has a lineage of its own`() async throws {
        let log = try open()
        let shop = try await log.createSpace(.shop)
        let other = try await log.createSpace(.other)
        #expect(shop.head == .zero && shop.horizon == .zero && shop.snapshot == nil)
        #expect(shop.lineage != other.lineage)
        #expect(try await log.describe(.shop) == shop)
        #expect(try await log.spaces() == [.other, .shop])
        await #expect { try await log.createSpace(.shop) } throws: { if case RelayLogError.spaceExists = $0 { true } else { false } }
    }

    @Test func `an unknown space is an error for push and pull`() async throws {
        let log = try open()
        var replica = TestReplica(1)
        let batch = replica.batch(.random(), base: .zero, .writing(1))
        await #expect { try await log.push(batch) } throws: { if case RelayLogError.spaceNotFound = $0 { true } else { false } }
        await #expect { try await log.pull(from: .shop, after: .zero) } throws: {
            if case RelayLogError.spaceNotFound = $0 { true } else { false }
        }
    }

    @Test func `what is pushed is pulled, the bytes as they were sent`() async throws {
        let log = try open()
        let lineage = try await log.createSpace(.shop).lineage
        var replica = TestReplica(1)
        let batch = replica.batch(lineage, base: .zero, .writing(1), .writing(2))
        let answer = try await log.push(batch)
        #expect(answer.outcome == .accepted)
        #expect(answer.positions == [Position(1), Position(2)])
        #expect(answer.head == Position(2) && answer.lineage == lineage && answer.receivedAt == clock.now && answer.page == nil)
        var page = try await log.pull(from: .shop, after: .zero)
        let frame = LogFrame(firstPosition: Position(1), acceptedCount: 2, receivedAt: clock.now, batch: batch.bytes)
        #expect(page.relayTime == clock.now)
        page.relayTime = nil
        #expect(page == Page(lineage: lineage, head: Position(2), horizon: .zero, after: .zero, frames: [frame], isLast: true))
        #expect(try Page.decode(page.encode()) == page)
    }

    @Test func `a retry gets the same positions and stores nothing`() async throws {
        let log = try open()
        let lineage = try await log.createSpace(.shop).lineage
        var replica = TestReplica(1)
        let batch = replica.batch(lineage, base: .zero, .writing(1))
        let first = try await log.push(batch)
        clock.advance(milliseconds: 500)
        let second = try await log.push(batch)
        #expect(first.positions == second.positions && second.outcome == .accepted)
        #expect(try await log.pull(from: .shop, after: .zero).frames.count == 1)
    }

    @Test func `merge rules 11 and 12: a prefix is stored, and the answer carries what the author lacks`() async throws {
        let log = try open()
        let lineage = try await log.createSpace(.shop).lineage
        var (one, two) = (TestReplica(1), TestReplica(2))
        let theirs = one.batch(lineage, base: .zero, .writing(7))
        _ = try await log.push(theirs)
        let mine = two.batch(lineage, base: .zero, .writing(1), .writing(7), .writing(2))
        let answer = try await log.push(mine)
        #expect(answer.outcome == .stale(at: Position(1)))
        #expect(answer.positions == [Position(2)])
        let page = try #require(answer.page)
        #expect(page.after == .zero && page.isLast)
        #expect(page.frames.map(\.batch) == [theirs.bytes, mine.bytes])
        #expect(page.frames[1].acceptedCount == 1)
        #expect(try PushAnswer.decode(answer.encode()) == answer)
    }

    @Test func `an identity conflict and a gap carry the log too, a wait and a rolled back log do not`() async throws {
        let log = try open()
        let lineage = try await log.createSpace(.shop).lineage
        var replica = TestReplica(1)
        _ = try await log.push(replica.batch(lineage, base: .zero, .writing(1)))
        let conflict = try await log.push(replica.batch(lineage, base: .zero, .writing(2)))
        #expect(conflict.outcome == .identityConflict && conflict.page?.frames.count == 1)
        var gap = replica.batch(lineage, base: .zero, .writing(2))
        gap.firstCounter = Counter(5)
        let gapAnswer = try await log.push(gap)
        #expect(gapAnswer.outcome == .gap && gapAnswer.page?.frames.count == 1)
        let logRolledBack = try await log.push(replica.batch(.random(), base: .zero, .writing(2)))
        #expect(logRolledBack.outcome == .logRolledBack && logRolledBack.page == nil && logRolledBack.lineage == lineage)
    }

    @Test func `the inline log is cut at its size, with at least one frame`() async throws {
        let log = try open()
        let lineage = try await log.createSpace(.shop).lineage
        var one = TestReplica(1)
        for _ in 0..<4 {
            let batch = one.batch(lineage, base: .zero, .writing(1), payload: [UInt8](repeating: 1, count: 600_000))
            _ = try await log.push(batch)
            one.accept(batch)
        }
        var two = TestReplica(2)
        let page = try #require(try await log.push(two.batch(lineage, base: .zero, .writing(1))).page)
        #expect(page.frames.count == 1 && !page.isLast && page.head == Position(4))
    }

    @Test func `pages follow one another without gaps, from any position`() async throws {
        let log = try open()
        let lineage = try await log.createSpace(.shop).lineage
        var replica = TestReplica(1)
        for size in 1...20 {
            let batch = replica.batch(lineage, base: .zero, footprints: (0..<size % 4 + 1).map { _ in .writing(1) })
            _ = try await log.push(batch)
            replica.accept(batch)
        }
        let head = try await log.describe(.shop).head
        for start in 0...head.rawValue {
            var after = Position(start)
            while true {
                var page = try await log.pull(from: .shop, after: after, byteLimit: 1000)
                page.relayTime = nil
                #expect(try Page.decode(page.encode()) == page)
                if after == head { #expect(page.frames.isEmpty && page.isLast) }
                after = page.lastPosition
                if page.isLast { break }
                #expect(!page.frames.isEmpty)
            }
            #expect(after == head)
        }
    }

    @Test func `mixed batches hand out only their new part again`() async throws {
        let log = try open()
        let lineage = try await log.createSpace(.shop).lineage
        var (one, two) = (TestReplica(1), TestReplica(2))
        var batch = one.batch(lineage, base: .zero, .writing(1))
        _ = try await log.push(batch)
        _ = try await log.push(two.batch(lineage, base: .zero, .writing(2)))
        batch.transactions.append(.init(base: .zero, digest: .test(77), footprint: .writing(3)))
        let answer = try await log.push(batch)
        #expect(answer.positions == [Position(1), Position(3)])
        let frame = try #require(try await log.pull(from: .shop, after: Position(2)).frames.first)
        #expect(frame.firstIndex == 1 && frame.acceptedCount == 1 && frame.firstPosition == Position(3))
        #expect(try await log.push(batch).positions == [Position(1), Position(3)])
    }

    @Test func `a pull beyond the head or of another lineage finds the log rolled back`() async throws {
        let log = try open()
        _ = try await log.createSpace(.shop)
        await #expect { try await log.pull(from: .shop, after: Position(1)) } throws: {
            if case RelayLogError.beyondHead(.zero) = $0 { true } else { false }
        }
        await #expect { try await log.pull(from: .shop, after: .zero, seen: LogMark(lineage: Lineage(high: 1, low: 1))) } throws: {
            if case RelayLogError.logRolledBack = $0 { true } else { false }
        }
    }

    @Test func `who saw another log is told so, wherever it stands`() async throws {
        let log = try open()
        let lineage = try await log.createSpace(.shop).lineage
        var one = TestReplica(1)
        var batches: [TestBatch] = []
        for footprints in [[Footprint.writing(1)], [.writing(2), .writing(3), .writing(4)]] {
            let batch = one.batch(lineage, base: .zero, footprints: footprints)
            #expect(try await log.push(batch).outcome == .accepted)
            one.accept(batch)
            batches.append(batch)
        }
        let parts = one.parts(lineage, base: .zero, .writing(5), count: 2)
        for part in parts { _ = try await log.push(part) }
        let entries = (batches + parts).flatMap { $0.transactions.map(\.digest) }
        var digest = Digest.zero
        for position in 0...entries.count {
            if position > 0 { digest = digest.following(entries[position - 1]) }
            let place = Position(Int64(position))
            try await log.require(.shop, seen: LogMark(lineage: lineage, position: place, digest: digest))
            let other = LogMark(lineage: lineage, position: place, digest: .test(9))
            await #expect(throws: RelayLogError.self) { _ = try await log.pull(from: .shop, after: place, seen: other) }
            var two = TestReplica(2)
            let batch = two.batch(lineage, base: .zero, .writing(9))
            await #expect(throws: RelayLogError.self) {
                _ = try await log.push(batch.bytes, header: BatchHeader.parse(batch.bytes), to: .shop, seen: other)
            }
        }
        #expect(try await log.describe(.shop).head == Position(6))
    }

    @Test func `before the horizon the log is gone: a pull says so, and a stale answer comes without it`() async throws {
        let log = try open()
        let lineage = try await log.createSpace(.shop).lineage
        var (one, two) = (TestReplica(1), TestReplica(2))
        for _ in 0..<3 {
            let batch = one.batch(lineage, base: .zero, .writing(1))
            _ = try await log.push(batch)
            one.accept(batch)
        }
        let database = try TestStorage.database(directory.path)
        try await database.storage.write { db in
            try db.execute("UPDATE annals_spaces SET horizon = 2", [])
            try db.execute("DELETE FROM annals_runs WHERE position <= 2", [])
        }
        await #expect { try await log.pull(from: .shop, after: Position(1)) } throws: {
            if case RelayLogError.expired(horizon: Position(2)) = $0 { true } else { false }
        }
        #expect(try await log.pull(from: .shop, after: Position(2)).frames.count == 1)
        let answer = try await log.push(two.batch(lineage, base: Position(1), .writing(1)))
        #expect(answer.outcome == .stale(at: Position(3)) && answer.page == nil)
    }

    @Test func `a waiting pull is woken by a commit`() async throws {
        let log = try open()
        let lineage = try await log.createSpace(.shop).lineage
        async let page = log.pull(from: .shop, after: .zero, wait: .seconds(3600))
        while log.waiterCount == 0 { await Task.yield() }
        var replica = TestReplica(1)
        _ = try await log.push(replica.batch(lineage, base: .zero, .writing(1)))
        #expect(try await page.frames.count == 1)
        #expect(log.waiterCount == 0)
    }

    @Test func `a wait ends at its time, at a cancellation, and when the relay stops`() async throws {
        let log = try open()
        _ = try await log.createSpace(.shop)
        #expect(try await log.pull(from: .shop, after: .zero, wait: .milliseconds(1)).frames.isEmpty)
        let cancelled = Task { try await log.pull(from: .shop, after: .zero, wait: .seconds(3600)) }
        while log.waiterCount == 0 { await Task.yield() }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        async let page = log.pull(from: .shop, after: .zero, wait: .seconds(3600))
        while log.waiterCount == 0 { await Task.yield() }
        log.endWaits()
        #expect(try await page.frames.isEmpty)
        #expect(log.waiterCount == 0)
    }

    @Test func `too many waiters are refused`() async throws {
        var limits = RelayLogLimits()
        limits.waiters = 1
        let log = try open(limits: limits)
        _ = try await log.createSpace(.shop)
        let first = Task { try await log.pull(from: .shop, after: .zero, wait: .seconds(3600)) }
        while log.waiterCount == 0 { await Task.yield() }
        await #expect { try await log.pull(from: .shop, after: .zero, wait: .seconds(3600)) } throws: {
            if case RelayLogError.overloaded = $0 { true } else { false }
        }
        first.cancel()
    }

    @Test func `replicas are known by their pushes and pulls, and positions only rise`() async throws {
        let log = try open()
        let lineage = try await log.createSpace(.shop).lineage
        var replica = TestReplica(1)
        let bytes = replica.batch(lineage, base: .zero, .writing(1)).bytes
        _ = try await log.push(bytes, header: try BatchHeader.parse(bytes), to: .shop, as: "kiosk")
        let reader = TestReplica(2).id
        log.note(reader, named: "laptop", at: Position(1), in: .shop)
        clock.advance(milliseconds: 5)
        log.note(reader, named: nil, at: .zero, in: .shop)
        let replicas = try await log.replicas(of: .shop)
        #expect(
            replicas == [
                ReplicaRecord(
                    replica: replica.id, name: "kiosk", counter: Counter(1), position: .zero, lastSeen: clock.now - 5, reached: Position(1)),
                ReplicaRecord(replica: reader, name: "laptop", counter: .zero, position: Position(1), lastSeen: clock.now),
            ])
    }

    @Test(.filesOnly) func `the database is written through to the disk`() async throws {
        let database = try TestStorage.database(directory.path)
        let settings = try await database.storage.write { db in
            try ["synchronous", "journal_mode", "foreign_keys"].compactMap { try db.row("PRAGMA \($0)", [])?.values }
        }
        #expect(settings == [[.integer(2)], [.text("wal")], [.integer(1)]])
    }

    @Test(.filesOnly) func `one relay at a time serves a directory`() async throws {
        let log = try open()
        #expect { try open() } throws: { ($0 as? AnnalsError)?.code == .busy }
        await log.close()
    }

    @Test(.filesOnly) func `a newer format, a foreign file and an impossible place are refused by name`() async throws {
        let first = try open()
        await first.close()
        let path = directory.path + "/relay.db"
        try await DatabaseQueue(path: path).write { try $0.execute(sql: "PRAGMA user_version = 99") }
        #expect { try open() } throws: { ($0 as? AnnalsError)?.code == .newerFormat }
        try FileManager.default.removeItem(atPath: path)
        try Data("This is not a database, and it is longer than a header.".utf8).write(to: URL(fileURLWithPath: path))
        #expect { try open() } throws: { ($0 as? AnnalsError)?.code == .notADatabase }
        #expect { try RelayLog(directory: path + "/below", logger: .silent) } throws: { ($0 as? AnnalsError)?.code == .cannotCreate }
    }
}
