import AnnalsCore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import RelayLog
import RelayTestSupport
import SeededRandom
import Testing

/// The log has the same answers over SQLite's tables in memory as over those of a file or of PostgreSQL. Both get the same requests, and
/// all answers must be equal, including the bytes. `ANNALS_SEED=n swift test --filter RelayConformanceTests` replays one walk.
@Suite struct RelayConformanceTests {
    /// The possible answers.
    private enum Answer: Equatable {
        case pushed(PushAnswer)
        case page(Page)
        case problem(String)
    }

    private struct Pair {
        let log: RelayLog
        let memory: MemoryRelay
        let lineage: Lineage

        func push(_ batch: TestBatch, _ seen: LogMark) async throws -> (Answer, Answer) {
            let header = try batch.header()
            let real: Answer
            do {
                real = .pushed(try await log.push(batch.bytes, header: header, to: .shop, seen: seen))
            } catch let error as RelayLogError {
                real = Self.problem(error)
            }
            do {
                return (real, .pushed(try await memory.push(batch.bytes, seen: seen)))
            } catch {
                return (real, Self.problem(error))
            }
        }

        func pull(after position: Position, _ seen: LogMark, _ limit: Int) async throws -> (Answer, Answer) {
            let real: Answer
            do {
                real = .page(try await log.pull(from: .shop, after: position, byteLimit: limit, seen: seen))
            } catch let error as RelayLogError {
                real = Self.problem(error)
            }
            do {
                return (real, .page(try await memory.pull(after: position, seen: seen, byteLimit: limit, wait: nil)))
            } catch {
                return (real, Self.problem(error))
            }
        }

        func upload(_ position: Position, _ folder: String) async throws -> (Answer, Answer) {
            let bytes = TestSnapshot.bytes("rows at \(position)")
            let digest = Digest.sha256(bytes[...])
            let real: Answer
            do {
                let upload = try await log.snapshots.begin(.shop, position: position)
                try await upload.write(bytes)
                _ = try await upload.finish(digest: digest)
                real = .problem("none")
            } catch let error as RelayLogError {
                real = Self.problem(error)
            }
            try Data(bytes).write(to: URL(fileURLWithPath: folder + "/snapshot"))
            do {
                try await memory.uploadSnapshot(
                    at: folder + "/snapshot", seen: LogMark(lineage: memory.describe().lineage, position: position), digest: digest
                ) { _ in }
                return (real, .problem("none"))
            } catch {
                return (real, Self.problem(error))
            }
        }

        private static func problem(_ error: RelayLogError) -> Answer {
            switch error {
            case .logRolledBack, .beyondHead: .problem("log-rolled-back")
            case .expired: .problem("expired")
            case .snapshotSuperseded: .problem("snapshot-superseded")
            default: .problem("\(error)")
            }
        }

        private static func problem(_ error: TransportError) -> Answer {
            if case .problem(let problem, _) = error { .problem(problem.code) } else { .problem("\(error)") }
        }
    }

    @Test(arguments: Seeds.given ?? Array(1...6)) func `both answer alike`(seed: UInt64) async throws {
        let directory = try TemporaryDirectory()
        let clock = TestClock()
        var limits = RelayLogLimits()
        (limits.snapshotLogPositions, limits.snapshotsKept) = (3, 3)
        let log = try TestStorage.log(directory.path, limits: limits, clock: clock.clock)
        let lineage = try await log.createSpace(.shop).lineage
        let memory = try MemoryRelay(space: .shop, clock: clock.clock, limits: limits, lineage: { lineage })
        _ = try await memory.create()
        let pair = Pair(log: log, memory: memory, lineage: lineage)
        var random = SeededGenerator(seed: seed)
        var replicas = (1...3).map { TestReplica(UInt64($0)) }
        var sent: [TestBatch] = []
        var marks = [LogMark(lineage: lineage, digest: .zero)]
        var outcomes: Set<String> = []
        var (purges, jobs) = (0, 0)
        for step in 0..<250 {
            clock.advance(milliseconds: Int64.random(in: 0...400, using: &random))
            let head = try await log.describe(.shop).head
            let base = Position(max(0, head.rawValue - Int64.random(in: 0...4, using: &random)))
            let number = Int.random(in: 0..<replicas.count, using: &random)
            func footprint() -> Footprint { .writing(UInt64.random(in: 1...12, using: &random)) }
            var batches: [TestBatch] = []
            switch Int.random(in: 0..<11, using: &random) {
            case 10 where random.chance(40):
                let (real, other) = try await pair.upload(base, directory.path)
                try #require(real == other, "seed \(seed), step \(step): a snapshot of \(base)")
            case 10:
                var rules = PurgeRules()
                rules.keep = Int64.random(in: 0...6_000, using: &random)
                rules.retention = Int64.random(in: 0...40_000, using: &random)
                rules.silence = Int64.random(in: 0...20_000, using: &random)
                rules.isForced = random.chance(30)
                let horizon = try await log.purge(.shop, rules).horizon
                try #require(try await memory.relay.purge(rules) == horizon, "seed \(seed), step \(step): a purge")
                let (one, two) = (try await log.describe(.shop), try await memory.describe())
                try #require(one == two, "seed \(seed), step \(step)")
                if horizon > .zero { purges += 1 }
            case 0...3:
                let footprints = (0..<Int.random(in: 1...3, using: &random)).map { _ in footprint() }
                batches = [replicas[number].batch(lineage, base: base, footprints: footprints)]
            case 4, 5:
                batches = replicas[number].parts(lineage, base: base, footprint(), count: Int.random(in: 2...4, using: &random))
                if random.chance(20) { batches.remove(at: Int.random(in: batches.indices, using: &random)) }
            case 6 where !sent.isEmpty:
                batches = [random.one(of: sent)]
            case 7:
                var odd = replicas[number].batch(lineage, base: random.chance(50) ? base : head.next, footprint())
                if random.chance(50) { odd.firstCounter = Counter(Int64.random(in: 1...9, using: &random)) }
                if random.chance(30) { odd.previousDigest = .test(5) }
                batches = [odd]
            default:
                var seen = random.one(of: marks)
                if random.chance(70) { seen.replica = replicas[number].id }
                if random.chance(10) { seen.digest = .test(3) }
                let after = Position(Int64.random(in: 0...(head.rawValue + 1), using: &random))
                let (real, other) = try await pair.pull(after: after, seen, Int.random(in: 1...2_000, using: &random))
                try #require(real == other, "seed \(seed), step \(step): a pull after \(after)")
                if case .page(let page) = real {
                    if page.isSnapshotDue { jobs += 1 }
                    // As the routes do.
                    if let replica = seen.replica { log.note(replica, named: nil, at: after, in: .shop) }
                }
            }
            for batch in batches {
                var seen = random.one(of: marks)
                if random.chance(3) { seen.digest = .test(3) }
                let (real, other) = try await pair.push(batch, seen)
                try #require(real == other, "seed \(seed), step \(step): a push of \(batch.replica)")
                sent.append(batch)
                guard case .pushed(let answer) = real else { continue }
                outcomes.insert("\(answer.outcome)".prefix { $0.isLetter }.description)
                guard batch.replica == replicas[number].id, batch.firstCounter == replicas[number].counter.next || batch.partCount > 1
                else { continue }
                if batch.partCount > 1, !answer.positions.isEmpty { replicas[number].accept(batches) }
                if batch.partCount == 1 { replicas[number].accept(batch, count: answer.positions.count) }
            }
            let last = marks[marks.count - 1]
            let horizon = try await log.describe(.shop).horizon
            guard last.position >= horizon, let before = marks.last(where: { $0.digest != nil }) else { continue }
            var running = before
            for frame in try await log.pull(from: .shop, after: before.position, byteLimit: .max).frames {
                let certificates = try BatchHeader.parse(frame.batch).certificates[frame.firstIndex...].prefix(frame.acceptedCount)
                for (offset, certificate) in certificates.enumerated() where frame.firstPosition.advanced(by: offset) > running.position {
                    running.position = running.position.next
                    running.digest = running.digest?.following(certificate.digest)
                }
            }
            marks.append(running)
        }
        #expect(outcomes.isSuperset(of: ["accepted", "stale", "partsMissing"]), "\(outcomes)")
        #expect(purges > 0 && jobs > 0, "\(purges) purges, \(jobs) jobs")
        await log.close()
    }
}
