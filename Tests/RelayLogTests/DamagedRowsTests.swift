import AnnalsCore
import AnnalsWire
import RelayTestSupport
import Testing

@testable import RelayLog

/// Values in the relay's tables that no relay writes. Reading them is an error, and the process continues.
@Suite struct DamagedRowsTests {
    static let numbers: [Int64] = [.min, -1, 0, 1 << 61, .max]

    /// Columns that hold numbers, by table.
    static let columns = [
        "annals_spaces": ["head", "horizon", "floor", "log_bytes", "dropped_bytes", "part_changes", "owner_changes", "created"],
        "annals_replicas": ["counter", "position", "seen", "last_position", "retired", "holds"],
        "annals_runs": ["position", "count", "first_index", "counter", "received"],
        "annals_parts": ["part", "counter", "received"],
        "annals_snapshots": ["position", "bytes", "log_bytes", "created"],
        "annals_days": ["day", "bytes", "positions"],
        "annals_tokens": ["created", "expires", "revoked"],
    ]

    @Test(arguments: columns.keys.sorted()) func `a number that cannot be is an error, and ends nothing`(table: String) async throws {
        for column in Self.columns[table] ?? [] {
            for number in Self.numbers { try await look("UPDATE \(table) SET \(column) = \(number)") }
        }
    }

    @Test func `bytes that are no batch, digest or id are errors, too`() async throws {
        for set in [
            "annals_runs SET batch = x'00'", "annals_runs SET log_digest = x'00'", "annals_parts SET batch = x''",
            "annals_parts SET digest = x'00'", "annals_parts SET replica = x'00'", "annals_replicas SET replica = x'00' WHERE id = 1",
            "annals_replicas SET digest = x'00'", "annals_spaces SET lineage = x'00'", "annals_spaces SET horizon_digest = x'00'",
            "annals_snapshots SET digest = x'00'", "annals_snapshots SET file = ''", "annals_tokens SET scope = ''",
            "annals_spaces SET name = 'no name'", "annals_replicas SET owner = 'token x'",
        ] {
            try await look("UPDATE \(set)")
        }
    }

    @Test func `runs that lie over one another are an error, too`() async throws {
        for (from, to) in [(3, 2), (1, 2), (3, 1 << 40)] {
            try await look("UPDATE annals_runs SET position = \(to) WHERE position = \(from)")
        }
        try await look("UPDATE annals_runs SET position = position + 1 WHERE position = 3")
        try await look("UPDATE annals_runs SET first_index = 1, count = 1 WHERE position = 1")
    }

    @Test(arguments: [1, 2, 3, 5, 9] as [Int64]) func `a head or a floor that no run ends at is an error, too`(position: Int64) async throws
    {
        for column in ["head", "floor", "horizon"] { try await look("UPDATE annals_spaces SET \(column) = \(position)") }
    }

    /// Damages a log and runs all operations on it.
    private func look(_ damage: String) async throws {
        let clock = TestClock()
        let directory = try TemporaryDirectory()
        var log = try TestStorage.log(directory.path, clock: clock.clock)
        let lineage = try await log.createSpace(.shop).lineage
        var replica = TestReplica(1)
        func push() async throws {
            let batch = replica.batch(lineage, base: Position(replica.counter.rawValue), .writing(1), .writing(2))
            _ = try await log.push(batch.bytes, header: batch.header(), to: .shop, by: .token(1))
            replica.accept(batch)
        }
        try await push()
        try await push()
        let upload = try await log.snapshots.begin(.shop, position: Position(2))
        try await upload.complete([1, 2, 3])
        var other = TestReplica(2)
        _ = try await log.push(other.parts(lineage, base: Position(4), .writing(3), count: 3)[0])
        let secret = try await log.tokens.create(scope: .admin, lifetimeMilliseconds: 1_000_000).secret
        // In PostgreSQL a change that a key refuses has no effect.
        let value = damage.replacing("x''", with: TestStorage.postgres == nil ? "x''" : "''::bytea")
            .replacing("x'00'", with: TestStorage.postgres == nil ? "x'00'" : "'\\x00'::bytea")
        try? await log.database.storage.write { try $0.execute(value, []) }
        for isReopened in [false, true] {
            if isReopened {
                await log.close()
                guard let again = try? TestStorage.log(directory.path, clock: clock.clock) else { return }
                log = again
            }
            try? await push()
            _ = try? await log.push(other.parts(lineage, base: Position(4), .writing(3), count: 3)[0])
            for after: Int64 in [0, 1, 2, 3, 4, .max] { _ = try? await log.pull(from: .shop, after: Position(after)) }
            let mark = LogMark(lineage: lineage, position: Position(3), digest: .zero)
            _ = try? await log.pull(from: .shop, after: Position(1), seen: mark)
            _ = try? await log.describe(.shop)
            _ = try? await log.summaries(limit: 10)
            _ = try? await log.pushes(of: .shop, limit: 10)
            _ = try? await log.replicas(of: .shop)
            _ = try? await log.usage(spaces: 10, replicas: 10, silence: 1)
            _ = try? await log.snapshots.open(.shop)
            _ = try? await log.tokens.list()
            _ = try? await log.tokens.verify(secret)
            _ = try? await log.void(Position(4), of: .shop, withLater: true)
            try? await log.upkeep()
            var rules = PurgeRules()
            rules.keep = 0
            _ = try? await log.purge(.shop, rules)
        }
        _ = try? RelayCopy.makeFolder(directory.path + "/copy", from: log.database)
        _ = try? await log.deleteSpace(.shop)
        await log.close()
    }
}
