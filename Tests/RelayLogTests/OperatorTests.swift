import AnnalsCore
import AnnalsWire
import GRDB
import RelayTestSupport
import Testing

@testable import RelayLog

/// A relay's storage before the tables of operators were added.
enum BeforeOperators {
    static let statements = [
        "DROP TABLE annals_days", "DROP TABLE annals_audit", "ALTER TABLE annals_replicas DROP COLUMN program",
        "ALTER TABLE annals_spaces DROP COLUMN dropped_bytes",
        // And later additions: the owners of replicas.
        "ALTER TABLE annals_spaces DROP COLUMN owner_changes", "ALTER TABLE annals_replicas DROP COLUMN owner",
        "DROP TABLE annals_reports", "DROP TABLE annals_quarantines", "DROP INDEX annals_replicas_sighted",
        "ALTER TABLE annals_replicas DROP COLUMN sighted_by",
        "ALTER TABLE annals_replicas DROP COLUMN holds", "DROP INDEX annals_spaces_creator",
        "ALTER TABLE annals_spaces DROP COLUMN creator",
        "DROP TABLE annals_snapshot_checks", "ALTER TABLE annals_snapshots DROP COLUMN owner",
        "DROP INDEX annals_tokens_holder", "ALTER TABLE annals_tokens DROP COLUMN holder",
    ]
    static let sql = statements.joined(separator: ";\n") + ";\n"
}

/// The data of operators about a relay, and the records of their operations.
@Suite struct OperatorTests {
    let directory: TemporaryDirectory
    let clock = TestClock()
    let log: RelayLog
    let lineage: Lineage

    init() async throws {
        directory = try TemporaryDirectory()
        log = try TestStorage.log(directory.path, clock: clock.clock)
        lineage = try await log.createSpace(.shop).lineage
    }

    @discardableResult
    func push(_ replica: inout TestReplica, _ count: Int = 1) async throws -> TestBatch {
        let batch = replica.batch(
            lineage, base: try await log.describe(.shop).head, footprints: (0..<count).map { .writing(UInt64($0)) })
        #expect(try await log.push(batch).outcome == .accepted)
        replica.accept(batch)
        return batch
    }

    func snapshot(_ position: Int64) async throws {
        let upload = try await log.snapshots.begin(.shop, position: Position(position))
        try await upload.complete(Array("rows at \(position)".utf8))
    }

    func summary() async throws -> SpaceSummary {
        try #require(try await log.summaries(limit: 10).spaces.first)
    }

    @Test func `growth is told per day, and stays when the log is purged`() async throws {
        var replica = TestReplica(1)
        let day = clock.now / DayOfGrowth.milliseconds
        var sizes: [Int64] = []
        for step in 0..<3 {
            sizes.append(Int64(try await push(&replica, step + 1).bytes.count))
            if step > 0 { clock.advance(milliseconds: DayOfGrowth.milliseconds) }
        }
        let before = try await summary()
        #expect(
            before.days == [
                DayOfGrowth(day: day, bytes: sizes[0] + sizes[1], positions: 3), DayOfGrowth(day: day + 1, bytes: sizes[2], positions: 3),
            ])
        #expect(before.logBytes == sizes.reduce(0, +) && before.replicas == 1 && before.description.head == Position(6))
        try await snapshot(3)
        _ = try await log.purge(.shop, .asked(keep: 0, isForced: true))
        let after = try await summary()
        #expect(after.logBytes == sizes[2] && after.days == before.days && after.snapshots == 1)
        #expect(after.snapshotBytes == Int64(TestSnapshot.bytes("rows at 3").count))
        clock.advance(milliseconds: DayOfGrowth.milliseconds * 28)
        #expect(try await summary().days.map(\.day) == [day + 1])
    }

    @Test func `spaces are listed some at a time, or one alone`() async throws {
        _ = try await log.createSpace(.other)
        let (first, isLast) = try await log.summaries(limit: 1)
        #expect(first.map(\.description.space) == ["other"] && !isLast)
        let (rest, isEnd) = try await log.summaries(after: .other, limit: 5)
        #expect(rest.map(\.description.space) == ["shop"] && isEnd)
        #expect(try await log.summaries(only: .shop, limit: 5).spaces.map(\.description.space) == ["shop"])
        #expect(try await log.summaries(only: SpaceName("none"), limit: 5).spaces.isEmpty)
    }

    @Test func `the newest pushes come first, between two positions`() async throws {
        var replica = TestReplica(1)
        for count in 1...3 { try await push(&replica, count) }
        let all = try await log.pushes(of: .shop, limit: 10)
        #expect(all.map(\.position.rawValue) == [4, 2, 1] && all.map(\.count) == [3, 2, 1])
        #expect(all.allSatisfy { $0.replica == replica.id && $0.received == clock.now && $0.bytes > 0 })
        #expect(try await log.pushes(of: .shop, after: Position(1), limit: 1).map(\.position.rawValue) == [4])
        #expect(try await log.pushes(of: .shop, before: Position(4), limit: 1).map(\.position.rawValue) == [2])
        await #expect(throws: RelayLogError.self) { try await log.pushes(of: .other, limit: 1) }
    }

    @Test func `a replica has what it pushed right on top of what it had, and is known with its program`() async throws {
        var (one, two) = (TestReplica(1), TestReplica(2))
        try await push(&one)
        try await push(&two, 2)
        log.note(two.id, named: "two", program: "annals/9.9.9", at: Position(1), in: .shop)
        log.note(two.id, named: nil, at: Position(1), in: .shop)
        let records = try await log.replicas(of: .shop)
        #expect(records.map(\.reached.rawValue) == [1, 3] && records.map(\.position.rawValue) == [0, 1])
        #expect(records.map(\.program) == ["", "annals/9.9.9"])
        let usage = try await log.usage(spaces: 1, replicas: 9, silence: 1000)
        #expect(usage.replicas.map(\.lag) == [2, 0], "metrics tell what the page does")
    }

    @Test func `what operators do leaves a line each, by whom and with what came of it`() async throws {
        var replica = TestReplica(1)
        try await push(&replica, 3)
        clock.advance(milliseconds: 1)
        log.note(replica.id, named: "till", at: Position(3), in: .shop)
        let (secret, token) = try await log.tokens.create(label: "laptop", space: .shop, scope: .admin, by: .commandLine(user: "ann"))
        let boss = Operator.token(token.id)
        #expect(try await log.retire(replica.id, of: .shop, by: boss))
        #expect(try await log.retire(ReplicaID(high: 1, low: 2), of: .shop, by: boss) == false)
        _ = try await log.purge(.shop, .asked(keep: 0, isForced: true), by: .anyone)
        try await snapshot(3)
        _ = try await log.purge(.shop, .asked(keep: 0, isForced: true), commits: false, by: boss)
        _ = try await log.purge(.shop, .asked(keep: 0, isForced: true), by: boss)
        #expect(try await log.tokens.revoke(99, by: .commandLine(user: "ann")) == false)
        #expect(try await log.tokens.revoke(token.id, by: .commandLine(user: "ann")))
        let lines = try await log.audit(limit: 100).reversed()
        let name = "token 1 (laptop)"
        #expect(lines.map(\.actor) == ["cli (ann)", name, name, "anyone", name, "cli (ann)", "cli (ann)"])
        #expect(
            lines.map(\.action) == [
                "token-create", "replica-retire", "replica-retire", "space-purge", "space-purge", "token-revoke", "token-revoke",
            ])
        #expect(lines.map(\.outcome) == ["done", "done", "no such replica", "nothing could be dropped", "done", "no such token", "done"])
        #expect(lines.map(\.space) == [.shop, .shop, .shop, .shop, .shop, nil, .shop])
        #expect(lines.map(\.subject)[1] == "\(replica.id) (till)" && lines.map(\.subject)[4].hasPrefix("positions 1 to 3, "))
        #expect(lines.allSatisfy { $0.time == clock.now } && !"\(lines)".contains(secret))
        // A part of it: of one space, or before a line, with a limit.
        #expect(try await log.audit(of: .shop, limit: 100).count == 6)
        #expect(try await log.audit(before: 3, limit: 1).map(\.number) == [2])
    }

    @Test func `what nobody asked for leaves no line`() async throws {
        var replica = TestReplica(1)
        try await push(&replica)
        try await snapshot(1)
        _ = try await log.purge(.shop, .asked(keep: 0, isForced: true))
        _ = try await log.tokens.create(scope: .read)
        #expect(try await log.audit(limit: 100).isEmpty)
    }

    @Test func `a transaction that is run again, since its connection was lost, leaves one line`() async throws {
        let entry = AuditEntry(.spacePurge, by: .commandLine(user: "ann"), space: .shop, at: 1)
        for _ in 0..<2 {
            try await log.database.storage.write { db in try AuditStorage.add(entry, subject: "it", outcome: "done", in: db) }
        }
        #expect(try await log.audit(limit: 100).count == 1)
    }

    @Test func `an administrator of one space cannot revoke a token of another`() async throws {
        let (_, token) = try await log.tokens.create(space: .shop, scope: .read)
        let (_, all) = try await log.tokens.create(scope: .read)
        #expect(try await log.tokens.revoke(token.id, of: .other) == false)
        #expect(try await log.tokens.revoke(all.id, of: .shop) == false)
        #expect(try await log.tokens.list(of: .shop).map(\.id) == [token.id])
        #expect(try await log.tokens.revoke(token.id, of: .shop))
    }

    @Test func `storage of the version before is taken over`() async throws {
        var replica = TestReplica(1)
        let sizes = [Int64(try await push(&replica, 2).bytes.count), Int64(try await push(&replica).bytes.count)]
        try await snapshot(2)
        clock.advance(milliseconds: 1)
        _ = try await log.purge(.shop, .asked(keep: 0, isForced: true))
        try await log.database.storage.write { db in
            for statement in BeforeOperators.statements { try db.execute(statement, []) }
            if TestStorage.postgres != nil { try db.execute("UPDATE annals_relay SET version = 1", []) }
        }
        await log.close()
        if TestStorage.postgres == nil {
            try await DatabaseQueue(path: directory.path + "/relay.db").write { try $0.execute(sql: "PRAGMA user_version = 5") }
        }
        let again = try TestStorage.log(directory.path, clock: clock.clock)
        let summary = try #require(try await again.summaries(limit: 1).spaces.first)
        #expect(summary.logBytes == sizes[1])
        #expect(summary.days == [DayOfGrowth(day: clock.now / DayOfGrowth.milliseconds, bytes: sizes[1], positions: 1)])
        #expect(try await again.audit(limit: 1).isEmpty)
        await again.close()
    }
}
