import AnnalsCore
import AnnalsStore
import AnnalsSync
import AnnalsTesting
import GRDB
import SeededRandom
import Testing

/// Random writes to tables with rare declarations: collations of keys, values of other types than their column's, unique indexes over
/// expressions and parts of a table, references to columns that are no key. Keys never hold NULL here. No honest entry is refused, and
/// all replicas have the same rows.
///
/// `ANNALS_SEED=n swift test --filter OddTablesTests` replays one seed.
@Suite struct OddTablesTests {
    static let schema = """
        CREATE TABLE label (id TEXT COLLATE NOCASE NOT NULL PRIMARY KEY, n REAL UNIQUE, t TEXT COLLATE RTRIM, u, UNIQUE (t, u));
        CREATE TABLE point (x NUMERIC, y BLOB, z, PRIMARY KEY (y DESC, x)) WITHOUT ROWID;
        CREATE TABLE item (
            id INTEGER PRIMARY KEY, label TEXT REFERENCES label ON DELETE CASCADE ON UPDATE CASCADE, s TEXT, r,
            UNIQUE (s COLLATE NOCASE, r));
        CREATE UNIQUE INDEX item_lower ON item (lower(s)) WHERE r > 1;
        CREATE UNIQUE INDEX item_part ON item (label) WHERE s IS NULL;
        CREATE TABLE size (
            k REAL NOT NULL PRIMARY KEY, item INTEGER REFERENCES item ON DELETE SET NULL, n REFERENCES label (n) ON UPDATE CASCADE,
            x, y, FOREIGN KEY (x, y) REFERENCES point (x, y) ON DELETE SET NULL ON UPDATE CASCADE);
        CREATE TABLE entry (id INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB, up INTEGER REFERENCES entry DEFERRABLE INITIALLY DEFERRED);
        CREATE TABLE fact (a ANY, b INT UNIQUE, c TEXT NOT NULL DEFAULT 'c', PRIMARY KEY (a, c)) STRICT;
        CREATE TRIGGER item_counts AFTER INSERT ON item BEGIN
            INSERT OR IGNORE INTO fact (a, b) VALUES (new.s, new.r);
            UPDATE label SET u = coalesce(u, 0) + 1 WHERE id = new.label;
        END;
        """

    static let columns: [String: [String]] = [
        "label": ["id", "n", "t", "u"], "point": ["x", "y", "z"], "item": ["id", "label", "s", "r"],
        "size": ["k", "item", "n", "x", "y"], "entry": ["id", "body", "up"], "fact": ["a", "b", "c"],
    ]

    static let values = [
        "NULL", "-1", "0", "1", "2", "3", "1.0", "2.5", "'1'", "'1.0'", "' 2 '", "'a'", "'A'", "'a '", "'b'", "'É'", "'é'", "''", "x'61'",
        "x'00ff'", "zeroblob(3000)", "9007199254740993", "9007199254740992.0", "'9007199254740993'", "1e300", "-0.0", "9223372036854775807",
        "'0x10'", "'1e2'", "100", "char(97, 0, 98)",
    ]

    static func statement(_ random: inout SeededGenerator) -> String {
        let table = random.one(of: columns.keys.sorted())
        let names = columns[table] ?? []
        func value(_ name: String) -> String {
            if name == "id", table != "label", random.chance(90) {
                return random.chance(30) ? "NULL" : "\(Int.random(in: 1...9, using: &random))"
            }
            return random.one(of: values)
        }
        let name = random.one(of: names)
        let condition =
            random.chance(15)
            ? "1" : "\(random.one(of: names)) IS \(value(names[0])) OR rowid_of = \(Int.random(in: 0...5, using: &random))"
        let place = "(SELECT count(*) FROM \(table) AS other WHERE other.\(names[0]) < \(table).\(names[0]))"
        let filter = condition.replacing("rowid_of", with: place)
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<5:
            let rows = (0..<Int.random(in: 1...3, using: &random)).map { _ in "(\(names.map(value).joined(separator: ", ")))" }
            return "INSERT OR \(random.one(of: ["IGNORE", "REPLACE", "IGNORE"])) INTO \(table) VALUES \(rows.joined(separator: ", "))"
        case 5..<8: return "UPDATE OR \(random.one(of: ["IGNORE", "REPLACE"])) \(table) SET \(name) = \(value(name)) WHERE \(filter)"
        case 8: return "DELETE FROM \(table) WHERE \(filter)"
        default: return "UPDATE OR IGNORE \(table) SET \(name) = \(random.one(of: names)) WHERE \(filter)"
        }
    }

    /// The migrations of an application's new version, on one replica before the others.
    static let migrations = [
        "ALTER TABLE label ADD COLUMN extra TEXT COLLATE NOCASE DEFAULT 'x'",
        "ALTER TABLE item ADD COLUMN other REFERENCES label (id) ON DELETE SET NULL",
        "CREATE TABLE added (id INTEGER PRIMARY KEY, k TEXT COLLATE NOCASE UNIQUE, item REFERENCES item ON DELETE CASCADE)",
    ]

    static let afterMigration = [
        "UPDATE OR IGNORE label SET extra = 'X' || u", "UPDATE item SET other = (SELECT max(id) FROM label)",
        "INSERT OR IGNORE INTO added (k, item) SELECT s, id FROM item",
        "INSERT OR REPLACE INTO added (k, item) SELECT upper(s), id FROM item WHERE s IS NOT NULL",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT OR IGNORE INTO added (k) SELECT 'many ' || i FROM n",
    ]

    private func migrate(_ store: Store) async throws {
        try await store.migrate(label: "version 2", tracking: .all) { db in
            for migration in Self.migrations { try db.execute(sql: migration) }
        }
    }

    @Test(arguments: Seeds.given ?? Array(1...3))
    func `no honest entry is refused`(seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let keys = random.chance(25) ? SpaceKeyRing(.random()) : nil
        let world = try await SyncedStores(replicas: 3, schema: Self.schema, spaceKeys: keys)
        var migrated: Set<Int> = []
        for _ in 0..<80 {
            let index = Int.random(in: 0..<3, using: &random)
            world.clock.advance(.milliseconds(Int.random(in: 0...500, using: &random)))
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<22:
                try await world.sync(index, random.chance(20) ? .pullOnly : .both)
            case 22..<24 where !migrated.contains(index):
                migrated.insert(index)
                try await migrate(world.stores[index])
            case 24..<32 where migrated.contains(index):
                try? world.outside(index, random.one(of: Self.afterMigration), foreignKeys: random.chance(80))
            default:
                let count = random.chance(20) ? 6 : 1
                let sql = (0..<count).map { _ in Self.statement(&random) }.joined(separator: ";\n")
                // Constraints refuse some of the writes.
                try? world.outside(index, sql, foreignKeys: random.chance(90))
            }
        }
        try await world.settle()
        try await world.addClone("fresh")
        for index in world.stores.indices where !migrated.isEmpty && index < 3 && !migrated.contains(index) {
            try await migrate(world.stores[index])
        }
        try await world.settle()
        let digests = try await world.stores.asyncMap { try await $0.digest() }
        #expect(Set(digests).count == 1, "seed \(seed)")
        for index in world.stores.indices {
            #expect(try await world.rows(index, "PRAGMA foreign_key_check").isEmpty, "seed \(seed), replica \(index)")
            #expect(try await world.stores[index].verify().isEmpty, "seed \(seed), replica \(index)")
        }
    }
}
