import AnnalsCore
import AnnalsWire
import Foundation
import Logging
import RelayTestSupport
import Synchronization
import Testing

@testable import RelayLog

@Suite struct SnapshotStoreTests {
    let directory: TemporaryDirectory
    let log: RelayLog
    let lineage: Lineage

    init() async throws {
        directory = try TemporaryDirectory()
        log = try TestStorage.log(directory.path)
        lineage = try await log.createSpace(.shop).lineage
        var replica = TestReplica(1)
        for _ in 0..<3 {
            let batch = replica.batch(lineage, base: .zero, .writing(1))
            _ = try await log.push(batch)
            replica.accept(batch)
        }
    }

    func upload(_ content: String, position: Int64, digest: Digest? = nil) async throws -> SnapshotRecord {
        let upload = try await log.snapshots.begin(.shop, position: Position(position))
        let bytes = TestSnapshot.bytes(content)
        for start in stride(from: 0, to: bytes.count, by: 5) { try await upload.write(Array(bytes[start..<min(start + 5, bytes.count)])) }
        return try await upload.finish(digest: digest ?? .sha256(bytes[...]))
    }

    func content() async throws -> [UInt8] {
        let file = try await log.snapshots.open(.shop)
        return try await file.read(at: 0, count: 10_000)
    }

    func fails(_ isExpected: @escaping (RelayLogError) -> Bool, _ body: () async throws -> Void) async {
        await #expect { try await body() } throws: { ($0 as? RelayLogError).map(isExpected) ?? false }
    }

    @Test func `a snapshot is served as it came, with its position and digest`() async throws {
        let record = try await upload("all the rows", position: 2)
        let bytes = TestSnapshot.bytes("all the rows")
        #expect(record.position == Position(2) && record.byteCount == Int64(bytes.count))
        #expect(try await content() == TestSnapshot.bytes("all the rows"))
        let described = try #require(try await log.describe(.shop).snapshot)
        #expect(described.position == Position(2) && described.bytes == record.byteCount && described.logDigest != nil)
        #expect(described.digest == Digest.sha256(bytes[...]).description)
        let file = try await log.snapshots.open(.shop)
        #expect(try await file.read(at: 4, count: 3) == Array(bytes[4..<7]))
        #expect(try await file.read(at: Int64(bytes.count) - 2, count: 100) == bytes.suffix(2))
        #expect(try await file.read(at: Int64(bytes.count) + 90, count: 10).isEmpty)
    }

    @Test func `a newer one replaces it, and a reader of the older one continues`() async throws {
        _ = try await upload("old", position: 1)
        let old = try await log.snapshots.open(.shop)
        _ = try await upload("new", position: 3)
        #expect(try await content() == TestSnapshot.bytes("new"))
        #expect(try await old.read(at: 0, count: 1_000) == TestSnapshot.bytes("old"))
        #expect(try TestStorage.database(directory.path).snapshots.names().count == 2)
        await fails({ if case .snapshotSuperseded(Position(3)) = $0 { true } else { false } }) { _ = try await upload("late", position: 2) }
    }

    @Test func `the same bytes again are taken, others of the same position are not`() async throws {
        _ = try await upload("one", position: 2)
        _ = try await upload("one", position: 2)
        #expect(try await content() == TestSnapshot.bytes("one"))
        await fails({ if case .snapshotSuperseded(Position(2)) = $0 { true } else { false } }) { _ = try await upload("two", position: 2) }
        #expect(try await content() == TestSnapshot.bytes("one"))
        #expect(try TestStorage.database(directory.path).snapshots.names().count == 1)
    }

    @Test func `an upload overtaken by a newer one is refused at its end`() async throws {
        let slow = try await log.snapshots.begin(.shop, position: Position(1))
        _ = try await upload("quick", position: 3)
        await fails({ if case .snapshotSuperseded = $0 { true } else { false } }) {
            try await slow.complete()
        }
        #expect(try await content() == TestSnapshot.bytes("quick"))
        #expect(try TestStorage.database(directory.path).snapshots.names().count == 1)
    }

    @Test func `bytes that do not match their digest leave nothing`() async throws {
        await fails({ if case .snapshotDigestMismatch = $0 { true } else { false } }) {
            _ = try await upload("damaged", position: 1, digest: .zero)
        }
        #expect(try TestStorage.database(directory.path).snapshots.names().isEmpty)
        await fails({ if case .noSnapshot = $0 { true } else { false } }) { _ = try await content() }
    }

    @Test func `an abandoned upload leaves nothing, and can be abandoned twice`() async throws {
        let upload = try await log.snapshots.begin(.shop, position: .zero)
        try await upload.write([1, 2, 3])
        await upload.abandon()
        await upload.abandon()
        #expect(try TestStorage.database(directory.path).snapshots.names().isEmpty)
    }

    @Test func `a position beyond the head, another lineage and an unknown space are refused before the first byte`() async throws {
        await fails({ if case .beyondHead(Position(3)) = $0 { true } else { false } }) { _ = try await upload("x", position: 4) }
        await fails({ if case .logRolledBack = $0 { true } else { false } }) {
            _ = try await log.snapshots.begin(.shop, position: .zero, lineage: .random())
        }
        await fails({ if case .spaceNotFound = $0 { true } else { false } }) {
            _ = try await log.snapshots.begin(.other, position: .zero)
        }
        await fails({ if case .spaceNotFound = $0 { true } else { false } }) { _ = try await log.snapshots.open(.other) }
    }

    @Test func `size and number of uploads are limited`() async throws {
        await log.close()
        var limits = RelayLogLimits()
        limits.snapshotBytes = 10
        limits.snapshotUploads = 1
        let log = try TestStorage.log(directory.path, limits: limits)
        let upload = try await log.snapshots.begin(.shop, position: .zero)
        await fails({ if case .quota(.snapshotUploads, .relay, _) = $0 { true } else { false } }) {
            _ = try await log.snapshots.begin(.shop, position: .zero)
        }
        await fails({ if case .snapshotTooLarge(10) = $0 { true } else { false } }) {
            try await upload.write([UInt8](repeating: 0, count: 11))
        }
        await upload.abandon()
        await (try await log.snapshots.begin(.shop, position: .zero)).abandon()
        await log.close()
    }

    @Test(.filesOnly) func `what a killed relay left unfinished is removed at the next start, what is recorded stays`() async throws {
        _ = try await upload("kept", position: 1)
        let unfinished = try await log.snapshots.begin(.shop, position: Position(2))
        try await unfinished.write([1])
        try Data("renamed, not recorded".utf8).write(to: URL(fileURLWithPath: directory.path + "/snapshots/1-2-abc.zst"))
        await log.close()
        let reopened = try TestStorage.log(directory.path)
        #expect(try TestStorage.database(directory.path).snapshots.names().count == 1)
        let file = try await reopened.snapshots.open(.shop)
        #expect(try await file.read(at: 0, count: 1_000) == TestSnapshot.bytes("kept"))
        await reopened.close()
    }

    // MARK: Lost files

    private func path(_ record: SnapshotRecord) -> String { directory.path + "/snapshots/" + record.file }

    private func lose(_ record: SnapshotRecord, cutOff: Bool) throws {
        if cutOff {
            let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path(record)))
            try file.truncate(atOffset: 2)
            try file.close()
        } else {
            try FileManager.default.removeItem(atPath: path(record))
        }
    }

    /// Whether an up-to-date replica is asked for a snapshot.
    private func isAsked(_ log: RelayLog) async throws -> Bool {
        let seen = LogMark(lineage: lineage, position: Position(3), digest: nil, replica: TestReplica(7).id)
        return try await log.pull(from: .shop, after: Position(3), seen: seen).isSnapshotDue
    }

    @Test(.filesOnly, arguments: [true, false])
    func `one whose file is lost or cut off counts as none, and the next replica is asked for another`(cutOff: Bool) async throws {
        let record = try await upload("all the rows", position: 3)
        #expect(try await !isAsked(log))
        try lose(record, cutOff: cutOff)
        await fails({ if case .noSnapshot = $0 { true } else { false } }) { _ = try await log.snapshots.open(.shop) }
        #expect(try await log.describe(.shop).snapshot == nil)
        #expect(try await isAsked(log))
        // A new snapshot has other bytes.
        _ = try await upload("all the rows again", position: 3)
        #expect(try await content() == TestSnapshot.bytes("all the rows again"))
        #expect(try await !isAsked(log))
        #expect(try TestStorage.database(directory.path).snapshots.names().count == 1)
    }

    @Test(.filesOnly) func `an older one serves where the newest is lost, and a file that comes back counts again`() async throws {
        _ = try await upload("old", position: 1)
        let newest = try await upload("new", position: 3)
        let aside = directory.path + "/aside"
        try FileManager.default.moveItem(atPath: path(newest), toPath: aside)
        #expect(try await content() == TestSnapshot.bytes("old"))
        #expect(try await log.describe(.shop).snapshot?.position == Position(1))
        try FileManager.default.moveItem(atPath: aside, toPath: path(newest))
        #expect(try await content() == TestSnapshot.bytes("new"))
    }

    @Test(.filesOnly) func `a relay that starts tells what it lost, and asks for another at once`() async throws {
        try lose(try await upload("rows", position: 3), cutOff: false)
        await log.close()
        let lines = LogLines()
        let reopened = try RelayLog(
            database: TestStorage.database(directory.path), limits: RelayLogLimits(), clock: .system, logger: lines.logger)
        #expect(lines.all.count { $0.contains("a snapshot's file is missing") && $0.contains("shop") } == 1)
        #expect(try await isAsked(reopened))
        await fails({ if case .noSnapshot = $0 { true } else { false } }) { _ = try await reopened.snapshots.open(.shop) }
        #expect(lines.all.count == 1, "once")
        await reopened.close()
    }

    @Test(.filesOnly) func `no log is dropped that rests on a lost one`() async throws {
        let rules = PurgeRules.asked(keep: 0, isForced: true)
        _ = try await upload("old", position: 1)
        let newest = try await upload("new", position: 3)
        try lose(newest, cutOff: true)
        #expect(try await log.purge(.shop, rules).horizon == Position(1))
        try lose(try await log.snapshots.open(.shop).record, cutOff: false)
        #expect(try await log.purge(.shop, rules).newestSnapshot == nil)
        #expect(try await log.describe(.shop).horizon == Position(1))
    }
}

/// The log lines.
private final class LogLines: Sendable {
    private let lines = Mutex<[String]>([])

    var all: [String] { lines.withLock { $0 } }

    var logger: Logger { Logger(label: "test") { _ in Handler(lines: self) } }

    private struct Handler: LogHandler {
        let lines: LogLines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.warning

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) { lines.lines.withLock { $0.append("\(event.message) \(event.metadata ?? [:])") } }
    }
}
