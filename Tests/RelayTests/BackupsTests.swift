import AnnalsCore
import AnnalsWire
import Foundation
import RelayLog
import RelayTestSupport
import Synchronization
import Testing

@testable import Relay

/// The backups that a serving relay makes by itself.
@Suite struct BackupsTests {
    private let directory: TemporaryDirectory
    private let data: String
    private let folder: String
    private let clock = TestClock()

    init() throws {
        directory = try TemporaryDirectory()
        (data, folder) = (directory.path + "/data", directory.path + "/backups")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    }

    private func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: folder).sorted() }

    /// Runs the schedule for a number of pauses. Returns the pauses in seconds.
    private func run(
        _ rules: BackupRules, pauses count: Int, reserveBytes: Int64 = 0, metrics: RelayMetrics = RelayMetrics(),
        between: @escaping @Sendable (_ pause: Int) throws -> Void = { _ in }
    ) async throws -> [Int64] {
        let pauses = Mutex<[Int64]>([])
        let backups = Backups(
            rules: rules, bytesOfData: { 0 }, open: { [data] in try RelayDatabase(directory: data, readers: 1) },
            reserveBytes: reserveBytes, logger: .silent,
            metrics: metrics, now: clock.clock.wall
        ) { [clock] milliseconds in
            let number = pauses.withLock { pauses in
                pauses.append(milliseconds / 1000)
                return pauses.count
            }
            if number == count { throw CancellationError() }
            try between(number)
            clock.advance(milliseconds: milliseconds)
        }
        await #expect(throws: CancellationError.self) { try await backups.run() }
        return pauses.withLock { $0 }
    }

    @Test func `a backup is made when one is due, also after a restart, and old ones are deleted`() async throws {
        let log = try RelayLog(directory: data, clock: clock.clock, logger: .silent)
        let lineage = try await log.createSpace(.shop).lineage
        var replica = TestReplica(1)
        _ = try await log.push(replica.batch(lineage, base: .zero, .writing(1)), to: .shop)
        let rules = BackupRules(folder: folder, every: 7_200_000, keep: 2)
        #expect(try await run(rules, pauses: 2) == [3600, 3600])
        let first = try #require(try names().first)
        #expect(try names().count == 1 && first.hasPrefix("annals-relay-") && first.hasSuffix("Z"))
        let kept = try RelayLog(directory: "\(folder)/\(first)", logger: .silent)
        #expect(try await kept.describe(.shop).head == Position(1))
        await kept.close()
        #expect(try await log.lastBackup().map { $0 / 1000 } == (clock.clock.wall() - 3_600_000) / 1000)
        #expect(try await log.audit(limit: 1).first?.actor == "automatic")
        // The relay restarts one hour after the backup. A file and a folder of the user are not backups.
        try FileManager.default.createDirectory(atPath: "\(folder)/annals-relay-2020-01-01", withIntermediateDirectories: true)
        let (dead, ahead) = ("\(folder)/annals-relay-2020-01-01T000000Z.partial-x", "\(folder)/annals-relay-2199-01-01T000000Z")
        try FileManager.default.createDirectory(atPath: ahead, withIntermediateDirectories: true)
        try FileManager.default.createDirectory(atPath: dead, withIntermediateDirectories: true)
        let pauses = try await run(rules, pauses: 6)
        #expect(pauses.allSatisfy { (1...3600).contains($0) }, "\(pauses)")
        let all = try names()
        #expect(all.count == 4 && all.contains("annals-relay-2020-01-01") && !all.contains(first), "\(all)")
        #expect(FileManager.default.fileExists(atPath: ahead))
        await log.close()
    }

    @Test func `a backup that fails is counted, leaves nothing and is tried again`() async throws {
        let log = try RelayLog(directory: data, clock: clock.clock, logger: .silent)
        _ = try await log.createSpace(.shop)
        let rules = BackupRules(folder: folder)
        // There is never that much free.
        #expect(try await run(rules, pauses: 2, reserveBytes: .max) == [900, 900])
        #expect(try names() == [])
        let parent = folder
        #expect(
            try await run(rules, pauses: 3) { pause in
                if pause == 1 { try FileManager.default.moveItem(atPath: parent, toPath: parent + "-away") }
                if pause == 2 { try FileManager.default.moveItem(atPath: parent + "-away", toPath: parent) }
            } == [3600, 900, 3600])
        #expect(try names().count == 1)
        await log.close()
    }

    @Test func `a schedule that cannot work is refused`() throws {
        func refusal(_ change: (inout BackupRules) -> Void) -> String? {
            var configuration = RelayConfiguration(storage: .directory(data))
            configuration.backup.folder = folder
            change(&configuration.backup)
            do {
                try configuration.validate()
                return nil
            } catch { return (error as? AnnalsError)?.message }
        }
        #expect(refusal { _ in } == nil)
        #expect(refusal { $0.every = 1_000 } == "backup.every is 1s")
        #expect(refusal { $0.keep = 0 } == "backup.keep is 0")
        #expect(refusal { $0.folder += "/missing" } == "the folder \(folder)/missing for backups cannot be written")
        try FileManager.default.createDirectory(atPath: data + "/inside", withIntermediateDirectories: true)
        #expect(refusal { $0.folder = data + "/inside" } == "the folder \(data)/inside for backups is inside the relay's data")
    }
}
