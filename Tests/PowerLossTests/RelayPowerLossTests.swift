import AnnalsCore
import AnnalsWire
import Foundation
import GRDB
import Logging
import RelayLog
import RelayTestSupport
import SeededRandom
import Testing

/// The relay's folder after a loss of power. `ANNALS_SEED=n` replays one.
@Suite("A relay's folder after a loss of power", .filesOnly, .serialized, .timeLimit(.minutes(20)))
struct RelayPowerLossTests {
    /// Losses of power in one run of the relay.
    private static let losses = 150

    @Test("has every push and snapshot that was acknowledged, and is served on", arguments: Seeds.givenOrNew(2))
    func acknowledged(seed: UInt64) async throws {
        let run = try await RelayRun(seed: seed)
        defer { run.disk.remove() }
        var random = SeededGenerator(seed: seed)
        for _ in 0..<Self.losses {
            let (calls, loss) = (Int.random(in: 0...run.disk.callCount, using: &random), random.next())
            let complaint = try await run.complaint(after: calls, seed: loss)
            #expect(complaint == nil, "seed \(seed): power lost after call \(calls) of \(run.disk.callCount)")
        }
    }

    @Test(
        "does not have them where syncs are left out, and the test sees it",
        arguments: [PowerLossDisk.Defect.noFileSync, .noFolderSync])
    func broken(defect: PowerLossDisk.Defect) async throws {
        let run = try await RelayRun(seed: 1)
        defer { run.disk.remove() }
        var complaints = 0
        for loss in 0..<UInt64(20) {
            if try await run.complaint(after: run.disk.callCount, seed: loss, defect) != nil { complaints += 1 }
        }
        #expect(complaints > 0)
    }
}

/// A relay at work on a disk, and what it acknowledged when.
private final class RelayRun {
    let disk: PowerLossDisk
    private let seed: UInt64
    private let clock = TestClock()
    private var limits = RelayLogLimits()
    private var random: SeededGenerator
    private var replicas = (1...3).map { TestReplica(UInt64($0)) }
    private var rows: UInt64 = 0

    /// Calls of the disk after which something was acknowledged.
    private var created = Int.max
    private var heads: [(calls: Int, head: Position)] = []
    private var snapshots: [(calls: Int, position: Position)] = []
    private var frames: [LogFrame] = []
    private var lineage = Lineage(high: 0, low: 0)

    init(seed: UInt64) async throws {
        self.seed = seed
        random = SeededGenerator(seed: seed)
        limits.snapshotsKept = 2
        disk = try PowerLossDisk()
        var log = try open(disk.path)
        lineage = try await log.createSpace(.shop).lineage
        created = disk.callCount
        for step in 1...40 {
            clock.advance(milliseconds: 100)
            try await push(to: log)
            if step % 8 == 0 { try await upload(to: log) }
            if step == 26 {
                var rules = PurgeRules()
                (rules.keep, rules.isForced) = (-1, true)
                _ = try await log.purge(.shop, rules)
            }
            // Folds the write-ahead log back.
            if step == 20 {
                await log.close()
                log = try open(disk.path)
            }
        }
        let calls = disk.callCount
        await log.close()
        heads.append((calls, heads.last?.head ?? .zero))
    }

    private func open(_ folder: String) throws -> RelayLog {
        try RelayLog(directory: folder + "/relay", limits: limits, clock: clock.clock, logger: .silent)
    }

    private func push(to log: RelayLog) async throws {
        let number = Int.random(in: 0..<replicas.count, using: &random)
        let head = heads.last?.head ?? .zero
        func footprint() -> Footprint {
            rows += 1
            return .writing(rows)
        }
        let payload = [UInt8](repeating: UInt8(rows % 251), count: random.one(of: [100, 700, 3_000, 20_000]))
        if random.chance(20) {
            let parts = replicas[number].parts(lineage, base: head, footprint(), count: Int.random(in: 2...4, using: &random))
            for part in parts { try await note(try await log.push(part), log) }
            replicas[number].accept(parts)
        } else {
            let footprints = (0..<Int.random(in: 1...3, using: &random)).map { _ in footprint() }
            let batch = replicas[number].batch(lineage, base: head, footprints: footprints, payload: payload)
            let answer = try await log.push(batch)
            try #require(answer.positions.count == footprints.count)
            try await note(answer, log)
            replicas[number].accept(batch, count: footprints.count)
        }
    }

    private func note(_ answer: PushAnswer, _ log: RelayLog) async throws {
        heads.append((disk.callCount, answer.head))
        let last = frames.last?.lastPosition ?? .zero
        guard answer.head > last else { return }
        frames += try await log.pull(from: .shop, after: last, byteLimit: .max).frames
    }

    private func upload(to log: RelayLog) async throws {
        let position = heads.last?.head ?? .zero
        let bytes = TestSnapshot.bytes(
            (0..<Int.random(in: 1...30_000, using: &random)).map { _ in UInt8.random(in: 0 ... .max, using: &random) })
        let upload = try await log.snapshots.begin(.shop, position: position)
        try await upload.write(bytes)
        _ = try await upload.finish(digest: Digest.sha256(bytes[...]))
        snapshots.append((disk.callCount, position))
    }

    // MARK: After the loss

    /// What is wrong with the folder after a loss of power; nil where nothing is.
    func complaint(after calls: Int, seed: UInt64, _ defect: PowerLossDisk.Defect = .none) async throws -> String? {
        let image = try disk.image(after: calls, seed: seed, defect)
        defer { try? FileManager.default.removeItem(atPath: image) }
        do {
            let log = try open(image)
            let complaint = try await complaint(log, calls)
            await log.close()
            return try complaint ?? Self.damage(image)
        } catch {
            return "\(error)"
        }
    }

    private func complaint(_ log: RelayLog, _ calls: Int) async throws -> String? {
        guard try await log.spaces() == [.shop] else {
            guard created > calls else { return "the space is gone" }
            _ = try await log.createSpace(.shop)
            return nil
        }
        let space = try await log.describe(.shop)
        let acknowledged = heads.last { $0.calls <= calls }?.head ?? .zero
        guard space.head >= acknowledged else { return "the log ends at \(space.head), and \(acknowledged) was acknowledged" }
        let known = frames.filter { $0.lastPosition > space.horizon && $0.firstPosition <= space.head }
        let found = try await log.pull(from: .shop, after: space.horizon, byteLimit: .max).frames
        guard found == known else { return "the log has other entries than were pushed" }
        if let snapshot = snapshots.last(where: { $0.calls <= calls })?.position {
            let file = try await log.snapshots.open(.shop)
            guard file.record.position >= snapshot else { return "the snapshot of \(snapshot) is gone" }
            let bytes = try await file.read(at: 0, count: Int(file.record.byteCount) + 1)
            guard Digest.sha256(bytes[...]) == file.record.digest else { return "the snapshot of \(file.record.position) is damaged" }
        }
        var newcomer = TestReplica(9)
        let answer = try await log.push(newcomer.batch(space.lineage, base: space.head, .writing(1)))
        return answer.positions == [space.head.next] ? nil : "a push is answered with \(answer.outcome)"
    }

    private static func damage(_ image: String) throws -> String? {
        try DatabaseQueue(path: image + "/relay/relay.db").read { db in
            let found = try String.fetchAll(db, sql: "PRAGMA integrity_check")
            return found == ["ok"] ? nil : "the database is damaged: \(found)"
        }
    }
}
