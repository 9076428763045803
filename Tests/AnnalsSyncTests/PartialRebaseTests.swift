import AnnalsCore
import AnnalsMerge
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import Foundation
import GRDB
import SeededRandom
import Testing

/// A rebase repeats only transactions that conflict, and those that build on them; see `RebaseSet`.
@Suite struct PartialRebaseTests {
    private static let schema = """
        CREATE TABLE team(id TEXT PRIMARY KEY NOT NULL, name TEXT UNIQUE);
        CREATE TABLE person(id TEXT PRIMARY KEY NOT NULL, team TEXT REFERENCES team(id), age INT, UNIQUE(team, age));
        INSERT INTO team VALUES('t1', 'red'), ('t2', 'green'), ('t3', 'blue'), ('t4', 'white'), ('t5', 'black');
        INSERT INTO person SELECT 'p' || value, 't' || (value % 4 + 1), value FROM json_each('[1,2,3,4,5,6,7,8,9,10,11,12]');
        """

    private func outbox(_ world: SyncedStores, _ index: Int) async throws -> [Int64: [UInt8]] {
        try await world.stores[index].read { db in
            let rows = try Row.fetchAll(db, sql: "SELECT sequence, body FROM annals_outbox ORDER BY sequence")
            return Dictionary(uniqueKeysWithValues: rows.map { ($0["sequence"], [UInt8]($0["body"] as Data)) })
        }
    }

    /// Replica 1 does `other` and syncs. Replica 0 does each of `own` as a transaction, and pulls. Returns the outbox before and after.
    private func rebase(
        _ other: [String], _ own: [String], schema: String = schema
    ) async throws -> (world: SyncedStores, before: [[UInt8]], after: [[UInt8]?]) {
        let world = try await SyncedStores(replicas: 2, schema: schema)
        for sql in other { try world.outside(1, sql) }
        try await world.sync(1)
        for sql in own {
            try world.outside(0, sql)
            _ = try await world.stores[0].prepareOutbox()
            world.clock.advance(.seconds(1))
        }
        let before = try await outbox(world, 0)
        try await world.sync(0, .pullOnly)
        let after = try await outbox(world, 0)
        let sequences = before.keys.sorted()
        return (world, sequences.compactMap { before[$0] }, sequences.map { after[$0] })
    }

    private func expectAgreement(_ world: SyncedStores, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        #expect(try await world.stores[0].verify() == [], sourceLocation: sourceLocation)
        try await world.settle()
        for store in world.stores { #expect(try await store.verify() == [], sourceLocation: sourceLocation) }
        #expect(Set(try await world.stores.asyncMap { try await $0.digest() }).count == 1, sourceLocation: sourceLocation)
    }

    @Test func `what meets nothing stays as it is, also after what met something`() async throws {
        let (world, before, after) = try await rebase(
            ["UPDATE person SET age = 100 WHERE id = 'p1'"],
            ["UPDATE person SET age = 201 WHERE id = 'p1'"] + (2...9).map { "UPDATE person SET age = 20\($0) WHERE id = 'p\($0)'" })
        #expect(before[0] != after[0])
        #expect(before[1...] == ArraySlice(after[1...].compactMap { $0 }))
        // History has a record of the repeated transactions, and of no others.
        let rebased = try await world.rows(
            0, "SELECT count(*) FROM annals_spans JOIN annals_transactions USING (number) WHERE origin = 4")
        #expect(rebased == [[2.databaseValue]])
        try await expectAgreement(world)
    }

    @Test func `what builds on something that is laid anew is laid anew after it`() async throws {
        let (world, before, after) = try await rebase(
            ["UPDATE person SET age = 100 WHERE id = 'p1'"],
            [
                "UPDATE person SET age = 201 WHERE id = 'p1'", "UPDATE person SET age = 202 WHERE id = 'p2'",
                "UPDATE person SET age = 203 WHERE id = 'p1'", "UPDATE person SET age = 204 WHERE id = 'p4'",
                "UPDATE person SET age = 205 WHERE id = 'p5'",
            ])
        #expect(before[0] != after[0])
        #expect(before[1] == after[1])
        #expect(before[3] == after[3] && before[4] == after[4])
        #expect(try await world.rows(0, "SELECT age FROM person WHERE id = 'p1'") == [[203.databaseValue]])
        try await expectAgreement(world)
        #expect(
            try await world.rows(1, "SELECT age FROM person WHERE id IN ('p1', 'p2') ORDER BY id") == [
                [203.databaseValue], [202.databaseValue],
            ])
    }

    /// No footprint shows that a child had to be removed before its parent.
    @Test func `a parent that went after its child comes back with it where the child's delete is refused`() async throws {
        let quiet = (5...8).map { "UPDATE person SET age = 20\($0) WHERE id = 'p\($0)'" }
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        try world.outside(0, "DELETE FROM person WHERE team = 't2' AND id <> 'p1'")
        try await world.settle()
        for sql in ["DELETE FROM person WHERE id = 'p1'", "DELETE FROM team WHERE id = 't2'"] + quiet {
            try world.outside(0, sql)
            _ = try await world.stores[0].prepareOutbox()
        }
        world.clock.advance(.seconds(5))
        try world.outside(1, "UPDATE person SET age = 100 WHERE id = 'p1'")
        try await world.sync(1)
        try await world.sync(0, .pullOnly)
        #expect(try await world.rows(0, "SELECT age FROM person WHERE id = 'p1'") == [[100.databaseValue]])
        #expect(try await world.rows(0, "SELECT name FROM team WHERE id = 't2'") == [["green".databaseValue]])
        try await expectAgreement(world)
    }

    /// The row that would be set aside has a child in the log until a later transaction, although the rows have none.
    @Test func `a row is not set aside because its child goes later`() async throws {
        var policies = MergePolicies()
        policies["team"].unique = .keepLast
        let world = try await SyncedStores(replicas: 2, schema: Self.schema, policies: policies)
        try world.outside(0, "DELETE FROM person WHERE team = 't2' AND id <> 'p1'")
        try await world.settle()
        let own = ["INSERT INTO team VALUES('t9', 'orange')", "DELETE FROM person WHERE id = 'p1'"]
        for sql in own + (5...8).map({ "UPDATE person SET age = 20\($0) WHERE id = 'p\($0)'" }) {
            try world.outside(0, sql)
            _ = try await world.stores[0].prepareOutbox()
        }
        try world.outside(1, "UPDATE team SET name = 'orange' WHERE id = 't2'")
        try await world.sync(1)
        try await world.sync(0, .pullOnly)
        #expect(try await world.rows(0, "SELECT id FROM team WHERE name = 'orange'") == [["t2".databaseValue]])
        try await expectAgreement(world)
    }

    @Test func `a key that is taken gets another number, which no transaction that stays has`() async throws {
        let schema = "CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT); INSERT INTO note VALUES(1, 'a'), (2, 'b'), (3, 'c')"
        let (world, _, _) = try await rebase(
            ["INSERT INTO note VALUES(4, 'theirs')"],
            ["INSERT INTO note VALUES(4, 'mine')"] + (5...9).map { "INSERT INTO note VALUES(\($0), 'mine \($0)')" }, schema: schema)
        #expect(
            try await world.rows(0, "SELECT id, text FROM note WHERE text IN ('mine', 'theirs') ORDER BY id")
                == [[4.databaseValue, "theirs".databaseValue], [10.databaseValue, "mine".databaseValue]])
        try await expectAgreement(world)
    }

    @Test("what random work comes to is verified by every replica", arguments: 0..<16)
    func random(_ seed: UInt64) async throws {
        var generator = SeededGenerator(seed: seed)
        let world = try await SyncedStores(replicas: 2, schema: Self.schema)
        func step(_ replica: Int) -> String {
            let (p, t) = ("p\(Int.random(in: 1...14, using: &generator))", "t\(Int.random(in: 1...6, using: &generator))")
            let age = Int.random(in: 1...9, using: &generator)
            return switch Int.random(in: 0..<8, using: &generator) {
            case 0: "INSERT OR IGNORE INTO person VALUES('\(p)', (SELECT id FROM team WHERE id = '\(t)'), \(age))"
            case 1: "DELETE FROM person WHERE id = '\(p)'"
            case 2: "INSERT OR IGNORE INTO team VALUES('\(t)', 'name \(age)')"
            case 3: "UPDATE person SET team = NULL WHERE team = '\(t)'; DELETE FROM team WHERE id = '\(t)'"
            case 4: "UPDATE OR IGNORE team SET name = 'name \(age)' WHERE id = '\(t)'"
            case 5: "UPDATE OR IGNORE person SET id = '\(p)' WHERE id = 'p\(age)'"
            default: "UPDATE OR IGNORE person SET age = \(age) WHERE id = '\(p)'"
            }
        }
        for _ in 0..<4 {
            for replica in 0..<2 {
                for _ in 0..<(replica == 0 ? 12 : 2) {
                    try world.outside(replica, step(replica))
                    _ = try await world.stores[replica].prepareOutbox()
                    world.clock.advance(.seconds(1))
                }
            }
            try await world.sync(1)
            try await world.sync(0, .pullOnly)
            #expect(try await world.stores[0].verify() == [], "seed \(seed)")
            try await world.settle()
            for store in world.stores { #expect(try await store.verify() == [], "seed \(seed)") }
            #expect(Set(try await world.stores.asyncMap { try await $0.digest() }).count == 1, "seed \(seed)")
        }
    }
}
