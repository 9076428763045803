import AnnalsCore
import AnnalsWire
import Foundation
import GRDB
import RelayTestSupport
import Testing

@testable import RelayLog

/// A relay's folder is made of a backup only if the backup is whole, and says what it lacks.
@Suite(.timeLimit(.minutes(20))) struct RelayRestoreTests {
    let folder: TemporaryDirectory
    let clock = TestClock()

    init() throws { folder = try TemporaryDirectory() }

    private var data: String { folder.path + "/data" }
    private var backup: String { folder.path + "/backup" }

    private func push(_ count: Int, by replica: inout TestReplica, to log: RelayLog, _ lineage: Lineage) async throws {
        for _ in 0..<count {
            let head = try await log.describe(.shop).head
            let batch = replica.batch(lineage, base: head, .writing(UInt64(head.rawValue)), payload: [UInt8](repeating: 7, count: 500))
            #expect(try await log.push(batch).outcome == .accepted)
            replica.accept(batch)
        }
    }

    /// A folder with six entries, of which its backup has four, two spaces, a token, and a snapshot at position 3.
    private func prepare(purged: Bool = false) async throws -> (replica: TestReplica, lineage: Lineage) {
        let log = try RelayLog(directory: data, clock: clock.clock, logger: .silent)
        let lineage = try await log.createSpace(.shop).lineage
        _ = try await log.tokens.create(scope: .write)
        var replica = TestReplica(1)
        try await push(4, by: &replica, to: log, lineage)
        try await log.snapshots.begin(.shop, position: Position(3)).complete(Array("rows".utf8))
        if purged {
            var rules = PurgeRules()
            (rules.keep, rules.isForced) = (0, true)
            clock.advance(milliseconds: 10_000)
            #expect(try await log.purge(.shop, rules).horizon == Position(3))
        }
        _ = try RelayCopy.makeFolder(backup, from: log.database)
        try await push(2, by: &replica, to: log, lineage)
        _ = try await log.createSpace(.other)
        await log.close()
        return (replica, lineage)
    }

    private func restore(replaces: Bool = true, to target: String? = nil) throws -> RelayRestore.Report {
        try RelayRestore(backup: backup, target: target ?? data, replaces: replaces).run(now: clock.now, by: .commandLine(user: "ann"))
    }

    /// Changes the database of the backup.
    private func change(_ sql: String) throws {
        let queue = try DatabaseQueue(path: backup + "/relay.db")
        try queue.write { try $0.execute(sql: sql) }
        try queue.close()
    }

    private func expectRefused(_ code: AnnalsError.Code, _ words: String, location: SourceLocation = #_sourceLocation) throws {
        let before = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        let error = #expect(throws: AnnalsError.self, sourceLocation: location) { try restore() }
        #expect(error?.code == code && error?.message.contains(words) == true, "\(String(describing: error))", sourceLocation: location)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == before, sourceLocation: location)
    }

    @Test(.filesOnly, arguments: [false, true])
    func `the folder has what the backup has, the report what is missing, and a replica that saw more is refused`(purged: Bool) async throws
    {
        let (replica, lineage) = try await prepare(purged: purged)
        let report = try restore()
        let space = try #require(report.spaces.first)
        #expect(report.spaces.count == 1 && space.name == .shop && space.lineage == lineage)
        #expect(space.head == Position(4) && space.missing == 2 && space.newest != nil)
        #expect(space.horizon == Position(purged ? 3 : 0) && space.snapshots == 1 && space.lostSnapshots.isEmpty)
        #expect(report.missingSpaces == [.other] && report.tokens == 1 && !report.belongsToRoot)
        let replaced = try #require(report.replaced)
        #expect(try FileManager.default.contentsOfDirectory(atPath: replaced).contains("relay.db"))

        let log = try RelayLog(directory: data, clock: clock.clock, logger: .silent)
        #expect(try await log.describe(.shop).head == Position(4))
        #expect(try await log.snapshots.open(.shop).record.position == Position(3))
        let line = try #require(try await log.audit(limit: 1).first)
        #expect(line.action == "relay-restore" && line.space == .shop && line.subject.hasPrefix("head 4 from "))
        for position in [Position(4), Position(6)] {
            let seen = LogMark(lineage: lineage, position: position, digest: .test(1), replica: replica.id)
            await #expect {
                try await log.pull(from: .shop, after: Position(4), seen: seen)
            } throws: {
                if case .logRolledBack? = $0 as? RelayLogError { true } else { false }
            }
        }
        await log.close()
    }

    @Test(.filesOnly) func `it goes into a new or an empty folder, and never over something without being asked`() async throws {
        _ = try await prepare()
        let error = #expect(throws: AnnalsError.self) { try restore(replaces: false) }
        #expect(error?.code == .cannotCreate && error?.commandHint?.contains("--force") == true)
        let (new, empty, full) = (folder.path + "/new", folder.path + "/empty", folder.path + "/full")
        try FileManager.default.createDirectory(atPath: empty, withIntermediateDirectories: false)
        try FileManager.default.createDirectory(atPath: full + "/photos", withIntermediateDirectories: true)
        for place in [new, empty] {
            let report = try restore(replaces: false, to: place)
            #expect(report.replaced == nil && report.spaces.first?.missing == nil && report.missingSpaces.isEmpty)
            try RelayDatabase(directory: place).close()
        }
        let other = #expect(throws: AnnalsError.self) { try restore(to: full) }
        #expect(other?.code == .cannotCreate && other?.message.contains("is not a relay's folder") == true)
        let same = #expect(throws: AnnalsError.self) { try restore(to: backup) }
        #expect(same?.code == .usage)
        let none = #expect(throws: AnnalsError.self) {
            try RelayRestore(backup: full, target: new).run(now: 0, by: .commandLine(user: "ann"))
        }
        #expect(none?.code == .fileNotFound)

        let log = try RelayLog(directory: data, clock: clock.clock, logger: .silent)
        try expectRefused(.busy, "another relay serves")
        await log.close()
    }

    @Test(
        .filesOnly,
        arguments: [
            ("UPDATE annals_runs SET batch = zeroblob(length(batch)) WHERE position = 2", "at position 2 cannot be read"),
            ("UPDATE annals_runs SET log_digest = zeroblob(32) WHERE position = 2", "has another digest at position 2"),
            ("DELETE FROM annals_runs WHERE position = 2", "are missing before position 3"),
            ("DELETE FROM annals_runs WHERE position = 4", "are missing after position 3"),
            ("UPDATE annals_spaces SET head = 5", "are missing after position 4"),
            ("PRAGMA foreign_keys = OFF; DELETE FROM annals_replicas", "refer to rows that do not exist"),
            ("PRAGMA foreign_keys = OFF; DROP TABLE annals_spaces", "is not a relay's database"),
        ])
    func `a backup that is not whole is refused, and nothing is changed`(sql: String, words: String) async throws {
        _ = try await prepare()
        let queue = try DatabaseQueue(path: backup + "/relay.db")
        try await queue.writeWithoutTransaction { try $0.execute(sql: sql) }
        try queue.close()
        try expectRefused(words.contains("database") ? .notADatabase : .corruptBatch, words)
    }

    @Test(.filesOnly) func `bytes that are no database are refused, and so is a newer format`() async throws {
        _ = try await prepare()
        try change("PRAGMA user_version = 99")
        try expectRefused(.newerFormat, "has format 99")
        try Data("no database, but some text that is long enough to be read as one, perhaps".utf8).write(
            to: URL(fileURLWithPath: backup + "/relay.db"))
        try expectRefused(.corruptBatch, "relay.db cannot be read")
    }

    @Test(.filesOnly) func `a snapshot whose bytes are wrong is named, and the restored relay does without it`() async throws {
        _ = try await prepare()
        let name = try #require(try FileManager.default.contentsOfDirectory(atPath: backup + "/snapshots").first)
        let path = backup + "/snapshots/" + name
        var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        bytes[bytes.count - 1] ^= 1
        try bytes.write(to: URL(fileURLWithPath: path))
        let report = try restore()
        #expect(report.spaces.first?.lostSnapshots == [Position(3)] && report.spaces.first?.snapshots == 0)
        #expect(try FileManager.default.contentsOfDirectory(atPath: data + "/snapshots").isEmpty)
        // The backup is as it was.
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == bytes)
    }
}
