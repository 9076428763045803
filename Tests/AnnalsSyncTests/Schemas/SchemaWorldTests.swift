import AnnalsCore
import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import SeededRandom
import Testing

/// Worlds with three versions of one schema at the same time, with random writes, migrations, lost answers, restarts, new replicas,
/// snapshots and purges. `ANNALS_SEED=n swift test --filter SchemaWorldTests` replays one seed.
@Suite struct SchemaWorldTests {
    static let seeds = Seeds.given ?? [1, 24, 29]

    /// The additions of each version.
    static let versions: [[String]] = [
        [],
        [
            "ALTER TABLE person ADD COLUMN score INTEGER NOT NULL DEFAULT '7'",
            "CREATE TABLE badge (id TEXT PRIMARY KEY NOT NULL, person INTEGER REFERENCES person (id) ON DELETE CASCADE ON UPDATE CASCADE, label TEXT UNIQUE)",
        ],
        [
            "ALTER TABLE team ADD COLUMN color TEXT DEFAULT 1e2",
            "ALTER TABLE badge ADD COLUMN note TEXT DEFAULT `none`",
            "ALTER TABLE tag ADD COLUMN owner INTEGER REFERENCES team (id) ON DELETE SET NULL ON UPDATE CASCADE",
        ],
    ]

    @Test("Laws 2 and 3: every replica has what it knows of, and all of it once it has migrated", arguments: seeds)
    func threeVersions(seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let world = try await SyncedStores(replicas: 4, schema: ConvergenceTests.schema(seed))
        // Some worlds are in sync first, so that rebases mix old and new schemas. In others all changes begin at once.
        for _ in 0..<70 {
            let index = Int.random(in: world.stores.indices, using: &random)
            world.clock.advance(.milliseconds(Int.random(in: 0...500, using: &random)))
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<8: try await migrate(world, index, &random)
            case 8..<36: try await world.sync(index, by: &random)
            case 36..<39: try world.reopen(index)
            case 39..<42 where world.stores.count < 6: try await world.addClone("r\(world.stores.count)")
            case 42..<46: try await world.snapshot(index, by: &random)
            default: await write(world, index, &random)
            }
        }
        try await world.settle()
        try await expectAgreement(world, seed)
        try await migrateAll(world, seed, &random)
    }

    /// Migrates the newest replica first. After that the others migrate independently.
    private func migrateAll(_ world: SyncedStores, _ seed: UInt64, _ random: inout SeededGenerator) async throws {
        while try await version(world, 0) < 3 { try await migrate(world, 0, &random) }
        for _ in 0..<3 { try await world.settle() }
        for index in world.stores.indices.dropFirst() {
            while try await version(world, index) < 3 {
                // Also while an exchange is under way.
                if random.chance(30) { await write(world, index, &random) }
                try await migrate(world, index, &random)
            }
        }
        try await world.settle()
        try await world.addClone("fresh")
        let digests = try await world.stores.asyncMap { try await $0.digest() }
        #expect(Set(digests).count == 1, "seed \(seed): replicas differ; ANNALS_SEED=\(seed) replays it")
        for index in world.stores.indices {
            #expect(
                try await world.rows(index, "PRAGMA foreign_key_check").isEmpty, "seed \(seed): foreign keys are broken on replica \(index)"
            )
            #expect(try await world.stores[index].verify().isEmpty, "seed \(seed): replica \(index)")
            let kept = try await world.stores[index].read { db in
                try db.tableExists("annals_kept") ? Int.fetchOne(db, sql: "SELECT count(*) FROM annals_kept") : 0
            }
            #expect(kept == 0, "seed \(seed): replica \(index) still keeps something")
        }
    }

    /// Data that two replicas both have is equal, whatever else one of them has.
    private func expectAgreement(_ world: SyncedStores, _ seed: UInt64) async throws {
        let queries = [
            "SELECT id, name, budget FROM team ORDER BY id", "SELECT id, team, email, name, age FROM person ORDER BY id",
            "SELECT person, label, note FROM tag ORDER BY person, label", "SELECT uuid, body, person FROM note ORDER BY uuid",
        ]
        let waiting = try await world.stores.asyncMap { try await $0.prepareOutbox().outbox > 0 }
        let settled = world.stores.indices.filter { !waiting[$0] }
        guard let first = settled.first else { return }
        for query in queries {
            let rows = try await world.rows(first, query)
            for index in settled { #expect(try await world.rows(index, query) == rows, "seed \(seed): replica \(index): \(query)") }
        }
        let path = world.folder.file("check-\(ReplicaID.random()).db")
        _ = try await world.joining("check").clone(to: path)
        let clone = try Store(path: path)
        defer { try? clone.close() }
        let newest = try await clone.digest()
        for index in settled {
            #expect(try await world.stores[index].verify().isEmpty, "seed \(seed): replica \(index)")
            guard try await !world.stores[index].prepareOutbox().isBehindSchema else { continue }
            #expect(try await world.stores[index].digest() == newest, "seed \(seed): replica \(index) is not the log")
        }
    }

    // MARK: Steps

    private func version(_ world: SyncedStores, _ index: Int) async throws -> Int {
        let text = try await world.rows(
            index, "SELECT group_concat(sql) FROM sqlite_master WHERE type = 'table' AND name IN ('team', 'badge', 'tag')")
        let sql = text.first.flatMap { String.fromDatabaseValue($0[0]) } ?? ""
        return sql.contains("color") && sql.contains("owner") && sql.contains("none") ? 3 : sql.contains("badge") ? 2 : 1
    }

    /// Migrates to the next version, by another program or through the store, with or without rows.
    private func migrate(_ world: SyncedStores, _ index: Int, _ random: inout SeededGenerator) async throws {
        let version = try await version(world, index)
        guard version < 3 else { return }
        // A clone of the space can have a part of a version already, since each statement is sent separately.
        var statements: [String] = []
        for sql in Self.versions[version] where try await !has(world, index, sql) { statements.append(sql) }
        let fill =
            random.chance(50)
            ? [] : version == 1 ? ["UPDATE person SET score = 50 WHERE id % 2 = 0"] : ["UPDATE team SET color = 'c' || id"]
        if random.chance(50) {
            let all = statements + fill
            try await world.stores[index].migrate(label: "version \(version + 1)", tracking: .all) { db in
                for sql in all { try db.execute(sql: sql) }
            }
        } else {
            try world.outside(index, statements.joined(separator: ";"))
            try await world.stores[index].track(.all)
        }
    }

    private func has(_ world: SyncedStores, _ index: Int, _ statement: String) async throws -> Bool {
        let words = statement.split(separator: " ")
        let rows =
            words[0] == "CREATE"
            ? "SELECT count(*) FROM sqlite_master WHERE name = '\(words[2])'"
            : "SELECT count(*) FROM pragma_table_info('\(words[2])') WHERE name = '\(words[5])'"
        return try await world.rows(index, rows)[0][0] != 0.databaseValue
    }

    private func write(_ world: SyncedStores, _ index: Int, _ random: inout SeededGenerator) async {
        guard let version = try? await version(world, index) else { return }
        let sql = (0..<Int.random(in: 1...3, using: &random)).map { _ in
            version > 1 && random.chance(45) ? newStatement(version, &random) : ConvergenceTests.statement(&random)
        }
        await world.write(index, sql, by: &random)
    }

    private func newStatement(_ version: Int, _ random: inout SeededGenerator) -> String {
        func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &random) }
        switch number(0...(version > 2 ? 9 : 6)) {
        case 0, 1: return "UPDATE person SET score = \(number(0...99)) WHERE id = \(number(1...9))"
        case 2, 3: return "INSERT INTO badge (id, person, label) VALUES ('b\(number(0...9))', \(number(1...9)), 'l\(number(0...9))')"
        case 4: return "UPDATE badge SET label = 'l\(number(0...9))', person = \(number(1...9)) WHERE id = 'b\(number(0...9))'"
        case 5: return "UPDATE badge SET id = 'b\(number(0...9))' WHERE id = 'b\(number(0...9))'"
        case 6: return "DELETE FROM badge WHERE id = 'b\(number(0...9))'"
        case 7: return "UPDATE team SET color = 'k\(number(0...9))', budget = \(number(0...50)) WHERE id = \(number(1...6))"
        case 8: return "UPDATE badge SET note = 'm\(number(0...9))' WHERE id = 'b\(number(0...9))'"
        default: return "UPDATE tag SET owner = \(number(1...6)) WHERE person = \(number(1...9))"
        }
    }
}
