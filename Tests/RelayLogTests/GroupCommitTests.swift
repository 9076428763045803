import AnnalsCore
import AnnalsWire
import Dispatch
import GRDB
import Logging
import RelayTestSupport
import Testing

@testable import RelayLog

/// Many writers at once: one commit for many pushes, nothing lost or doubled, and a limited queue.
@Suite struct GroupCommitTests {
    let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
    }

    /// Blocks the writer until `release` is called, so that pushes wait in its queue.
    func hold(_ database: RelayDatabase) async -> @Sendable () -> Void {
        let (started, announce) = AsyncStream<Void>.makeStream()
        let semaphore = DispatchSemaphore(value: 0)
        database.storage.schedule { _ in
            announce.finish()
            semaphore.wait()
        }
        for await _ in started {}
        return { semaphore.signal() }
    }

    @Test func `ten replicas push disjoint rows at once: all accepted, positions without gaps`() async throws {
        let log = try TestStorage.log(directory.path)
        let lineage = try await log.createSpace(.shop).lineage
        let pushes = 40
        let positions = try await withThrowingTaskGroup(of: [Position].self) { group in
            for number in 1...UInt64(10) {
                group.addTask {
                    var replica = TestReplica(number)
                    var positions: [Position] = []
                    for push in 0..<pushes {
                        let batch = replica.batch(lineage, base: .zero, .writing(number * 1000 + UInt64(push)))
                        let answer = try await log.push(batch)
                        #expect(answer.outcome == .accepted)
                        replica.accept(batch)
                        positions += answer.positions
                    }
                    #expect(positions == positions.sorted())
                    return positions
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(positions.sorted() == (1...Int64(10 * pushes)).map { Position($0) })
        #expect(log.commitCount <= 10 * pushes)
    }

    @Test func `ten replicas write one row: everyone gets through`() async throws {
        let log = try TestStorage.log(directory.path)
        let lineage = try await log.createSpace(.shop).lineage
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...UInt64(10) {
                group.addTask {
                    var replica = TestReplica(number)
                    var base = Position.zero
                    var accepted = 0
                    while accepted < 10 {
                        let batch = replica.batch(lineage, base: base, .writing(1))
                        let answer = try await log.push(batch)
                        base = answer.head
                        if answer.outcome == .accepted {
                            replica.accept(batch)
                            accepted += 1
                        } else if case .wait = answer.outcome {
                            await Task.yield()
                        } else if case .stale = answer.outcome {
                            continue
                        } else {
                            Issue.record("unexpected answer \(answer.outcome)")
                            return
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try await log.describe(.shop).head == Position(100))
    }

    @Test func `pushes that wait share one commit, across spaces`() async throws {
        let database = try TestStorage.database(directory.path)
        let (writer, watch) = try await writer(database)
        let lineages = try await lineages(database)
        let release = await hold(database)
        let batches = 60
        try await withThrowingTaskGroup(of: LogWriter.Committed.self) { group in
            for number in 0..<batches {
                let space: SpaceName = number.isMultiple(of: 2) ? .shop : .other
                let lineage = lineages[number % 2]
                group.addTask {
                    var replica = TestReplica(UInt64(number))
                    let bytes = replica.batch(lineage, base: .zero, .writing(UInt64(number))).bytes
                    return try await writer.push(.init(space: space, header: try BatchHeader.parse(bytes), batch: bytes))
                }
            }
            while writer.pendingCount < batches { await Task.yield() }
            release()
            for try await committed in group { #expect(committed.verdict.outcome == .accepted) }
        }
        #expect(writer.commitCount == 1)
        #expect(watch.count == 0)
    }

    @Test func `a queue that is full answers overloaded at once`() async throws {
        let database = try TestStorage.database(directory.path)
        var limits = RelayLogLimits()
        (limits.pendingPushes, limits.shares.space) = (3, 100)
        let (writer, _) = try await writer(database, limits: limits)
        let lineage = try await lineages(database)[0]
        let release = await hold(database)
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<3 {
                group.addTask { try await Self.push(number, to: writer, lineage) }
            }
            while writer.pendingCount < 3 { await Task.yield() }
            await #expect { try await Self.push(9, to: writer, lineage) } throws: {
                if case RelayLogError.quota(.pendingPushes, .relay, retryAfterSeconds: 1) = $0 { true } else { false }
            }
            release()
            for try await isAccepted in group { #expect(isAccepted) }
        }
    }

    @Test func `a space that fills its half of the queue leaves the other half`() async throws {
        let database = try TestStorage.database(directory.path)
        var limits = RelayLogLimits()
        limits.pendingPushes = 6
        let (writer, _) = try await writer(database, limits: limits)
        let lineages = try await lineages(database)
        let release = await hold(database)
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<3 { group.addTask { try await Self.push(number, to: writer, lineages[0]) } }
            while writer.pendingCount < 3 { await Task.yield() }
            await #expect { try await Self.push(9, to: writer, lineages[0]) } throws: {
                if case RelayLogError.quota(.pendingPushes, .space, retryAfterSeconds: 1) = $0 { true } else { false }
            }
            for number in 3..<6 { group.addTask { try await Self.push(number, to: writer, lineages[1], space: .other) } }
            while writer.pendingCount < 6 { await Task.yield() }
            release()
            for try await isAccepted in group { #expect(isAccepted) }
        }
    }

    @Test(.filesOnly) func `a push that cannot be stored fails alone, and the log goes on`() async throws {
        let database = try TestStorage.database(directory.path)
        let (writer, _) = try await writer(database)
        let lineage = try await lineages(database)[0]
        try await database.storage.write { db in
            try db.execute(
                """
                CREATE TRIGGER poison BEFORE INSERT ON annals_runs WHEN length(NEW.batch) > 5000
                BEGIN SELECT raise(ABORT, 'poison'); END
                """, [])
        }
        let release = await hold(database)
        let outcomes = await withTaskGroup(of: (Int, Bool).self) { group in
            for number in 0..<5 {
                group.addTask {
                    let size = number == 2 ? 6000 : 10
                    return (number, (try? await Self.push(number, to: writer, lineage, size: size)) ?? false)
                }
            }
            while writer.pendingCount < 5 { await Task.yield() }
            release()
            return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        #expect(outcomes == [0: true, 1: true, 2: false, 3: true, 4: true])
        // The decisions of the failed commit in memory are discarded: the head is that of the log.
        #expect(try await Self.push(7, to: writer, lineage))
        let head = try await database.storage.read { try LogStorage.space(.shop, in: $0)?.head }
        #expect(head == Position(5))
    }

    static func push(
        _ number: Int, to writer: LogWriter, _ lineage: Lineage, size: Int = 10, space: SpaceName = .shop
    ) async throws -> Bool {
        var replica = TestReplica(UInt64(number))
        let payload = [UInt8](repeating: 0, count: size)
        let bytes = replica.batch(lineage, base: .zero, .writing(UInt64(number)), payload: payload).bytes
        return try await writer.push(.init(space: space, header: try BatchHeader.parse(bytes), batch: bytes)).verdict.outcome == .accepted
    }

    func writer(_ database: RelayDatabase, limits: RelayLogLimits = RelayLogLimits()) async throws -> (LogWriter, HeadWatch) {
        let watch = HeadWatch(limits: limits)
        let reserve = DiskReserve(limits: limits, clock: .system) { nil }
        let writer = LogWriter(
            database: database, watch: watch, reserve: reserve, limits: limits, clock: .system, logger: .silent)
        return (writer, watch)
    }

    func lineages(_ database: RelayDatabase) async throws -> [Lineage] {
        let lineages = [Lineage.random(), .random()]
        try await database.storage.write { db in
            _ = try LogStorage.createSpace(.shop, lineage: lineages[0], at: 0, in: db)
            _ = try LogStorage.createSpace(.other, lineage: lineages[1], at: 0, in: db)
        }
        return lineages
    }
}
