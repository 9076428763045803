import AnnalsCore
import AnnalsReplica
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import AnnalsWire
import Foundation
import GRDB
import SeededRandom
import Testing

/// Laws 2, 3, 4 and 7 under random writes. `ANNALS_SEED=n swift test --filter ConvergenceTests` replays one seed.
@Suite struct ConvergenceTests {
    static let seeds = Seeds.given ?? Array(1...3)

    static let actions = ["SET NULL", "CASCADE", "NO ACTION", "RESTRICT"]

    static func schema(_ seed: UInt64) -> String {
        let person = actions[Int(seed % 4)]
        let tag = actions[Int(seed / 4 % 4)]
        let tagAction = tag == "SET NULL" ? "CASCADE" : tag
        return """
            CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT UNIQUE COLLATE NOCASE, budget INTEGER CHECK (budget >= 0));
            CREATE TABLE person (
                id INTEGER PRIMARY KEY, team INTEGER REFERENCES team (id) ON DELETE \(person) ON UPDATE CASCADE,
                email TEXT UNIQUE, name TEXT NOT NULL, age REAL);
            CREATE TABLE tag (
                person INTEGER NOT NULL REFERENCES person (id) ON DELETE \(tagAction) ON UPDATE CASCADE, label TEXT NOT NULL, note BLOB,
                PRIMARY KEY (person, label)) WITHOUT ROWID;
            CREATE TABLE note (uuid TEXT PRIMARY KEY NOT NULL, body TEXT, person INTEGER REFERENCES person (id) ON DELETE SET NULL);
            INSERT INTO team VALUES (1, 'ops', 10), (2, 'dev', 20), (3, 'art', 30);
            INSERT INTO person VALUES (1, 1, 'a@x', 'Ann', 1.5), (2, 1, 'b@x', 'Bob', 2), (3, 2, NULL, 'Cy', NULL), (4, NULL, 'd@x', 'Di', 4);
            INSERT INTO tag VALUES (1, 'red', NULL), (1, 'blue', x'00ff'), (2, 'red', 'text');
            INSERT INTO note VALUES ('n1', 'one', 1), ('n2', 'two', NULL);
            """
    }

    @Test("Law 2: replicas that have seen everything hold the same rows", arguments: seeds)
    func convergence(seed: UInt64) async throws {
        try await run(seed, rebuilding: false)
    }

    @Test("Law 2 holds also where programs rebuild tables and write to them unseen", arguments: seeds)
    func convergenceWithRebuiltTables(seed: UInt64) async throws {
        try await run(seed, rebuilding: true)
    }

    private func run(_ seed: UInt64, rebuilding: Bool) async throws {
        var random = SeededGenerator(seed: seed)
        let world = try await SyncedStores(replicas: 3, schema: Self.schema(seed))
        for _ in 0..<60 {
            let index = Int.random(in: 0..<3, using: &random)
            world.clock.advance(.milliseconds(Int.random(in: 0...500, using: &random)))
            if Int.random(in: 0..<4, using: &random) == 0 {
                let pullOnly = Int.random(in: 0..<4, using: &random) == 0
                try await world.sync(index, pullOnly ? .pullOnly : .both)
                try await checkLogState(world, index, seed)
            } else {
                if rebuilding, random.chance(20) { try await rebuild(world, index, random.one(of: ["team", "person", "tag", "note"])) }
                await write(world, index, &random)
            }
        }
        try await world.settle()
        try await world.addClone("fresh")
        let digests = try await world.stores.asyncMap { try await $0.digest() }
        #expect(Set(digests).count == 1, "seed \(seed): replicas differ; ANNALS_SEED=\(seed) replays it")
        for index in world.stores.indices {
            let broken = try await world.rows(index, "PRAGMA foreign_key_check")
            #expect(broken.isEmpty, "seed \(seed): foreign keys are broken on replica \(index)")
            #expect(try await world.stores[index].verify().isEmpty, "seed \(seed): replica \(index)")
        }
        let journals = try await world.stores.prefix(3).asyncMap { store in
            try await store.conflicts().sorted { $0.position < $1.position }.map(\.entry)
        }
        #expect(Set(journals).count == 1, "seed \(seed): journals differ: \(journals.map(\.count))")
    }

    /// Law 3: without the outbox, the rows are those of a fresh clone, if the position is the head.
    private func checkLogState(_ world: SyncedStores, _ index: Int, _ seed: UInt64) async throws {
        let state = try #require(try await world.stores[index].replicaState())
        let head = try await world.relay.describe().head
        guard state.position == head else { return }
        let path = world.folder.file("check-\(ReplicaID.random()).db")
        _ = try await world.joining("check").clone(to: path)
        let clone = try Store(path: path)
        let expected = try await clone.digest()
        let actual = try await world.stores[index].digestOfLog()
        #expect(actual == expected, "seed \(seed): replica \(index) at \(head) is not the log")
        try clone.close()
    }

    /// As in a migration: a new table with the same declaration replaces the old one, and the triggers are gone.
    private func rebuild(_ world: SyncedStores, _ index: Int, _ table: String) async throws {
        let rows = try await world.rows(index, "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = '\(table)'")
        let sql = try #require(rows.first.flatMap { String.fromDatabaseValue($0[0]) })
        let name = try #require(sql.range(of: table))
        try world.outside(
            index,
            """
            \(sql.replacingCharacters(in: name, with: "new_\(table)"));
            INSERT INTO new_\(table) SELECT * FROM \(table);
            DROP TABLE \(table);
            ALTER TABLE new_\(table) RENAME TO \(table);
            """, foreignKeys: false)
    }

    /// One random write. Constraints refuse some of them, which is intended.
    private func write(_ world: SyncedStores, _ index: Int, _ random: inout SeededGenerator) async {
        let sql = (0..<Int.random(in: 1...3, using: &random)).map { _ in Self.statement(&random) }
        if Bool.random(using: &random) {
            try? world.outside(index, sql.joined(separator: ";"))
        } else {
            _ = try? await world.stores[index].write(author: "test") { db in
                for statement in sql { try db.execute(sql: statement) }
            }
        }
    }

    static func statement(_ random: inout SeededGenerator) -> String {
        func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &random) }
        func maybe(_ text: String) -> String { number(0...5) == 0 ? "NULL" : text }
        let letters = ["a", "b", "c", "d", "e"]
        let letter = letters[number(0...4)]
        switch number(0...19) {
        case 0: return "INSERT INTO team (name, budget) VALUES ('t\(number(0...6))', \(number(0...50)))"
        case 1: return "UPDATE team SET budget = budget + \(number(-9...9)) WHERE id = \(number(1...6))"
        case 2: return "UPDATE team SET name = 'T\(number(0...6))' WHERE id = \(number(1...6))"
        case 3: return "DELETE FROM team WHERE id = \(number(1...7))"
        case 4: return "UPDATE team SET id = \(number(1...12)) WHERE id = \(number(1...6))"
        case 5, 6: return "INSERT INTO person (team, email, name) VALUES (\(maybe("\(number(1...6))")), \(maybe("'\(letter)@x'")), 'p')"
        case 7: return "UPDATE person SET team = \(maybe("\(number(1...6))")) WHERE id = \(number(1...8))"
        case 8: return "UPDATE person SET email = '\(letter)@x' WHERE id = \(number(1...8))"
        case 9: return "UPDATE person SET name = 'n\(number(0...99))', age = \(number(0...9)).5 WHERE id = \(number(1...8))"
        case 10: return "DELETE FROM person WHERE id = \(number(1...9))"
        case 11: return "INSERT OR REPLACE INTO person VALUES (\(number(1...9)), \(number(1...4)), '\(letter)@x', 'r', \(number(0...9)))"
        case 12: return "INSERT INTO tag VALUES (\(number(1...9)), '\(letter)', \(number(0...9)))"
        case 13: return "UPDATE tag SET note = \(number(0...99)), label = '\(letter)' WHERE person = \(number(1...9))"
        case 14: return "DELETE FROM tag WHERE label = '\(letter)'"
        case 15: return "INSERT OR REPLACE INTO note VALUES ('n\(number(0...6))', 'b\(number(0...99))', \(maybe("\(number(1...9))")))"
        case 16: return "UPDATE note SET body = 'u\(number(0...99))' WHERE uuid = 'n\(number(0...6))'"
        case 17: return "DELETE FROM note WHERE uuid = 'n\(number(0...6))'"
        case 18: return "UPDATE person SET id = \(number(1...30)) WHERE id = \(number(1...9))"
        default: return "UPDATE note SET uuid = 'n\(number(0...9))', person = \(maybe("\(number(1...9))")) WHERE uuid = 'n\(number(0...6))'"
        }
    }
}

extension Sequence {
    func asyncMap<T>(_ transform: (Element) async throws -> T) async rethrows -> [T] {
        var results: [T] = []
        for element in self { results.append(try await transform(element)) }
        return results
    }
}
