import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import SeededRandom
import Testing

/// Worlds whose replicas add constraints at different times. Some wait for their migration, others take their schema from the log. With
/// random writes, of which some violate the new constraints, lost answers, restarts, new replicas, snapshots and purges.
/// `ANNALS_SEED=n swift test --filter TightenedWorldTests` replays one seed.
@Suite struct TightenedWorldTests {
    static let seeds = Seeds.given ?? [1, 2, 8]

    /// A table, the correction of its rows, its columns, and its declaration in each version.
    private static let versions = [
        (
            "person", "UPDATE person SET name = 'none' WHERE name IS NULL", "id, team, email, name, age",
            "(id INTEGER PRIMARY KEY, team INTEGER REFERENCES team (id), email TEXT, name TEXT NOT NULL, age REAL)"
        ),
        (
            "tag", "UPDATE tag SET note = NULL WHERE length(note) > 4", "person, label, note",
            """
            (person INTEGER NOT NULL REFERENCES person (id), label TEXT NOT NULL, note BLOB CHECK (length(note) < 5),
             PRIMARY KEY (person, label)) WITHOUT ROWID
            """
        ),
        (
            "person", "UPDATE person SET email = NULL WHERE id <> (SELECT min(id) FROM person AS p WHERE p.email = person.email)",
            "id, team, email, name, age",
            """
            (id INTEGER PRIMARY KEY, team INTEGER REFERENCES team (id), email TEXT UNIQUE, name TEXT NOT NULL ON CONFLICT ABORT, age REAL)
            """
        ),
        (
            "note", "UPDATE note SET body = 'empty' WHERE body IS NULL", "uuid, body, person",
            "(uuid TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL, person INTEGER REFERENCES person (id), CHECK (body <> ''))"
        ),
    ]

    private static func schema(_ seed: UInt64) -> String {
        """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT UNIQUE COLLATE NOCASE, budget INTEGER CHECK (budget >= 0));
        CREATE TABLE person (id INTEGER PRIMARY KEY, team INTEGER REFERENCES team (id), email TEXT, name TEXT, age REAL);
        CREATE TABLE tag (
            person INTEGER NOT NULL REFERENCES person (id), label TEXT NOT NULL, note BLOB, PRIMARY KEY (person, label)) WITHOUT ROWID;
        CREATE TABLE note (uuid TEXT PRIMARY KEY NOT NULL, body TEXT, person INTEGER REFERENCES person (id));
        INSERT INTO team VALUES (1, 'ops', 10), (2, 'dev', 20);
        INSERT INTO person VALUES (1, 1, 'a@x', 'Ann', 1.5), (2, 1, 'a@x', NULL, 2), (3, 2, NULL, 'Cy', NULL);
        INSERT INTO tag VALUES (1, 'red', 'long text'), (2, 'red', 'text');
        INSERT INTO note VALUES ('n1', 'one', 1), ('n2', NULL, 2);
        """
    }

    private static func statement(_ random: inout SeededGenerator) -> String {
        let number = Int.random(in: 1...9, using: &random)
        switch Int.random(in: 0..<12, using: &random) {
        case 0: return "INSERT INTO person (team, email, name) VALUES (1, 'a@x', NULL)"
        case 1: return "UPDATE person SET name = NULL, email = 'b@x' WHERE id = \(number)"
        case 2: return "INSERT INTO tag VALUES (\(number), 'blue', 'much too long')"
        case 3: return "INSERT INTO team (name, budget) VALUES ('OPS', -\(number))"
        case 4: return "INSERT OR REPLACE INTO note (uuid, body) VALUES ('n\(number)', NULL)"
        case 5: return "DELETE FROM person WHERE id = \(number)"
        default: return ConvergenceTests.statement(&random)
        }
    }

    @Test("Laws 2 and 3: replicas that add constraints at different times agree", arguments: seeds)
    func worlds(seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let world = try await SyncedStores(replicas: 4, schema: Self.schema(seed))
        try world.reopen(3, newSchemas: .take)
        var versions = [0, 0, 0, 0]
        for _ in 0..<70 {
            let index = Int.random(in: 0..<4, using: &random)
            world.clock.advance(.milliseconds(Int.random(in: 0...500, using: &random)))
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<6 where index < 3: try await migrate(world, index, &versions)
            case 6..<40:
                do {
                    try await world.sync(index, by: &random)
                } catch let error as AnnalsError where error.code == .waitingForMigration && index < 3 {
                    if random.chance(50) { try await migrate(world, index, &versions) }
                }
            case 40..<43: try world.reopen(index, newSchemas: index == 3 ? .take : .wait)
            case 43..<47:
                do {
                    try await world.snapshot(index, by: &random)
                } catch let error as AnnalsError where error.code == .waitingForMigration {}
            default: await world.write(index, (0..<3).map { _ in Self.statement(&random) }, by: &random)
            }
        }
        // A store without a migration must correct its rows too, if they reached the log before the constraints.
        for index in 0..<3 {
            while versions[index] < Self.versions.count {
                try await migrate(world, index, &versions)
                if random.chance(30) { await world.write(index, [Self.statement(&random)], by: &random) }
            }
        }
        for _ in 0..<6 {
            for (_, correction, _, _) in Self.versions { try? world.outside(3, correction) }
            for index in 0..<4 {
                do { try await world.sync(index) } catch let error as AnnalsError where error.code == .waitingForMigration {}
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
        }
    }

    /// Migrates to the next version, as migration tools do: the table is rebuilt.
    private func migrate(_ world: SyncedStores, _ index: Int, _ versions: inout [Int]) async throws {
        guard versions[index] < Self.versions.count else { return }
        let (table, correction, columns, declaration) = Self.versions[versions[index]]
        let rebuild = """
            CREATE TABLE new__\(table) \(declaration); INSERT INTO new__\(table) SELECT \(columns) FROM \(table);
            DROP TABLE \(table); ALTER TABLE new__\(table) RENAME TO \(table)
            """
        try await world.stores[index].migrate(label: "version \(versions[index])", sql: correction + ";" + rebuild)
        versions[index] += 1
    }
}
