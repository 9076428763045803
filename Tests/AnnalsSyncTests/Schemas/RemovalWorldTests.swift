import AnnalsHistory
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import SeededRandom
import Testing

/// Worlds whose replicas drop columns and a table at different times, and add some of them again, with random writes, lost answers,
/// restarts, new replicas, snapshots and purges. `ANNALS_SEED=n swift test --filter RemovalWorldTests` replays one seed.
@Suite struct RemovalWorldTests {
    static let seeds = Seeds.given ?? [1, 2, 25]

    private static let versions = [
        "ALTER TABLE person DROP COLUMN age", "ALTER TABLE team DROP COLUMN budget",
        "ALTER TABLE person ADD COLUMN age REAL DEFAULT 1; UPDATE person SET age = 2 WHERE id % 2 = 0", "ALTER TABLE tag DROP COLUMN note",
        "DROP TABLE note", "CREATE TABLE note (uuid TEXT PRIMARY KEY NOT NULL, body TEXT, person REAL)",
    ]

    @Test("Laws 2 and 3: replicas that drop columns and tables at different times agree on the others", arguments: seeds)
    func worlds(seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let world = try await SyncedStores(replicas: 4, schema: ConvergenceTests.schema(seed))
        for _ in 0..<70 {
            let index = Int.random(in: world.stores.indices, using: &random)
            world.clock.advance(.milliseconds(Int.random(in: 0...500, using: &random)))
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<8: try await migrate(world, index, &random)
            case 8..<36: try await world.sync(index, by: &random)
            case 36..<39: try world.reopen(index)
            case 39..<42 where world.stores.count < 6: try await world.addClone("r\(world.stores.count)")
            case 42..<46: try await world.snapshot(index, by: &random)
            default: await world.write(index, (0..<3).map { _ in ConvergenceTests.statement(&random) }, by: &random)
            }
        }
        try await world.settle()
        try await expectAgreement(world, seed)
        for index in world.stores.indices {
            while try await migrate(world, index, &random) {
                if random.chance(30) { await world.write(index, [ConvergenceTests.statement(&random)], by: &random) }
                if random.chance(30) { try await world.sync(index, by: &random) }
            }
        }
        try await world.settle()
        try await world.addClone("fresh")
        try await world.settle()
        let digests = try await world.stores.asyncMap { try await $0.digest() }
        #expect(Set(digests).count == 1, "seed \(seed): replicas differ; ANNALS_SEED=\(seed) replays it")
        for index in world.stores.indices {
            #expect(try await world.rows(index, "PRAGMA foreign_key_check").isEmpty, "seed \(seed): replica \(index)")
            let findings = try await world.stores[index].verify()
            #expect(findings == [], "seed \(seed): replica \(index)")
            #expect(try await world.stores[index].status().removedColumns == [], "seed \(seed): replica \(index)")
            #expect(try await world.stores[index].status().removedTables == [], "seed \(seed): replica \(index)")
        }
    }

    /// The columns that no replica drops are equal. So is the table that some replicas drop, if none has dropped it.
    private func expectAgreement(_ world: SyncedStores, _ seed: UInt64) async throws {
        var queries = [
            "SELECT id, name FROM team ORDER BY id", "SELECT id, team, email, name FROM person ORDER BY id",
            "SELECT person, label FROM tag ORDER BY person, label",
        ]
        let versions = try await world.stores.indices.asyncMap { try await version(world, $0) }
        if versions.allSatisfy({ $0 < 5 }) { queries.append("SELECT uuid, body, person FROM note ORDER BY uuid") }
        for query in queries {
            let rows = try await world.rows(0, query)
            for index in world.stores.indices {
                #expect(try await world.rows(index, query) == rows, "seed \(seed): replica \(index): \(query)")
                let findings = try await world.stores[index].verify()
                #expect(findings == [], "seed \(seed): replica \(index)")
            }
        }
    }

    private func version(_ world: SyncedStores, _ index: Int) async throws -> Int {
        try await world.stores[index].read { db in
            // GRDB's own look-up does not see what another program changed.
            func has(_ column: String, _ table: String) throws -> Bool {
                let sql = "SELECT EXISTS(SELECT 1 FROM pragma_table_info(?) WHERE name = ?)"
                return try Bool.fetchOne(db, sql: sql, arguments: [table, column]) ?? false
            }
            if try has("budget", "team") { return try has("age", "person") ? 0 : 1 }
            if try !has("age", "person") { return 2 }
            if try has("note", "tag") { return 3 }
            let type = try String.fetchOne(db, sql: "SELECT type FROM pragma_table_info('note') WHERE name = 'person'")
            return type == nil ? 5 : type == "INTEGER" ? 4 : 6
        }
    }

    /// Migrates to the next version, sometimes by a tool that rebuilds the table. Returns false if there is none.
    @discardableResult
    private func migrate(_ world: SyncedStores, _ index: Int, _ random: inout SeededGenerator) async throws -> Bool {
        let version = try await version(world, index)
        guard version < Self.versions.count else { return false }
        let isRebuilt = version == 3 && random.chance(50)
        guard isRebuilt else {
            try await world.stores[index].migrate(label: "version \(version)", sql: Self.versions[version])
            if version == 5 { _ = try await world.stores[index].track(.all) }
            return true
        }
        let sql = try await world.rows(index, "SELECT sql FROM sqlite_master WHERE name = 'tag'")[0][0]
        let declared = try #require(String.fromDatabaseValue(sql)).replacing(" note BLOB,", with: "").replacing(
            "TABLE tag", with: "TABLE n")
        let copy = "INSERT INTO n SELECT person, label FROM tag; DROP TABLE tag; ALTER TABLE n RENAME TO tag"
        try world.outside(index, "\(declared.replacing("\"tag\"", with: "n")); \(copy)", foreignKeys: false)
        return true
    }
}
