import AnnalsCore
import Foundation
import GRDB
import Testing

@testable import AnnalsReplica
@testable import AnnalsSchema
@testable import AnnalsStore

/// A snapshot comes from another replica. Nothing of it is used before SQLite has checked the whole file.
struct UntrustedSnapshotTests {
    private let path = FileManager.default.temporaryDirectory.path + "/annals-untrusted-\(UUID()).db"
    private let membership: Membership

    init() throws {
        let space = try #require(SpaceName("shop"))
        membership = Membership(name: "laptop", relay: "http://127.0.0.1:1", space: space, lineage: Lineage(high: 1, low: 2))
        let file = try DatabaseQueue(path: path)
        try file.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE t (k TEXT PRIMARY KEY, v);
                    WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 2000)
                    INSERT INTO t SELECT hex(randomblob(16)), x FROM c;
                    """)
        }
        try file.close()
    }

    private func refusal() async throws -> AnnalsError? {
        defer { try? FileManager.default.removeItem(atPath: path) }
        return await #expect(throws: AnnalsError.self) { _ = try await Store.fromSnapshot(at: path, membership: membership) }
    }

    @Test func `an index that lacks rows is damage, though every page can be read`() async throws {
        let file = try DatabaseQueue(path: path)
        try await file.writeWithoutTransaction { db in
            // The rows are deleted, and stay in the index.
            try db.execute(sql: "PRAGMA writable_schema = ON")
            let root = try Int.fetchOne(db, sql: "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_t_1'") ?? 0
            try db.execute(sql: "UPDATE sqlite_master SET rootpage = \(root) WHERE name = 't'")
        }
        try file.close()
        let error = try await refusal()
        #expect(error?.code == .corruptBatch)
        #expect(error?.message.contains("corrupt") ?? false, "\(error?.message ?? "")")
    }

    @Test func `a file that is whole and no snapshot is told as such`() async throws {
        #expect(try await refusal()?.message.contains("not a snapshot") ?? false)
    }

    @Test func `a snapshot of an older version is refused by its version`() async throws {
        let file = try DatabaseQueue(path: path)
        try await file.write { db in
            try db.execute(
                sql: "CREATE TABLE annals_snapshot (name TEXT PRIMARY KEY, value); INSERT INTO annals_snapshot VALUES ('format', 2)")
        }
        try file.close()
        let error = try await refusal()
        #expect(error?.code == .corruptBatch && error?.message.contains("format 2") == true, "\(String(describing: error))")
    }

    @Test(
        "values of other kinds in what it says of itself are no snapshot's",
        arguments: [
            "", "UPDATE annals_snapshot SET value = x'01ff' WHERE name = 'time'",
            "UPDATE annals_snapshot SET value = -1 WHERE name = 'position'",
            "UPDATE annals_snapshot SET value = x'01ff' WHERE name = 'lineage'",
            "UPDATE annals_snapshot SET value = 'x' WHERE name = 'table:t'",
            "UPDATE annals_snapshot SET name = x'01ff' WHERE name = 'table:t'", "INSERT INTO annals_snapshot VALUES ('first:t', 'x')",
            "INSERT INTO annals_snapshot VALUES ('names', 'x')", "INSERT INTO annals_snapshot_policies VALUES (x'01ff', '', 0, 'mine')",
            "INSERT INTO annals_snapshot_policies VALUES ('t', 'v', 'x', x'01ff')",
            "INSERT INTO annals_snapshot_authors VALUES (x'01', 1, zeroblob(32))",
            "INSERT INTO annals_snapshot_authors VALUES (zeroblob(16), 1, x'01')",
            "INSERT INTO annals_snapshot_authors VALUES (zeroblob(16), 'x', zeroblob(32))",
        ])
    func kinds(damage: String) async throws {
        let file = try DatabaseQueue(path: path)
        try await file.write { [membership] db in
            try db.execute(
                sql: """
                    CREATE TABLE annals_snapshot (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
                    INSERT INTO annals_snapshot VALUES ('format', 5), ('position', 1), ('time', 5), ('time_counter', 0), ('table:t', 0);
                    CREATE TABLE annals_snapshot_policies (name, column_name, aspect, policy);
                    CREATE TABLE annals_snapshot_authors (replica, counter, digest);
                    """)
            try db.execute(sql: "INSERT INTO annals_snapshot VALUES ('lineage', ?)", arguments: [membership.lineage.description])
            let rows = try StoreDigest.rows(db, schema: "main", tables: [#require(try SchemaReader(db).table("t"))])
            try db.execute(sql: "INSERT INTO annals_snapshot VALUES ('rows', ?)", arguments: [Data(rows.bytes)])
            try db.execute(sql: damage)
        }
        try file.close()
        if damage.isEmpty {
            defer { try? FileManager.default.removeItem(atPath: path) }
            #expect(try await Store.fromSnapshot(at: path, membership: membership).verify().isEmpty)
        } else {
            let error = try await refusal()
            #expect(
                error?.code == .corruptBatch && error?.message.contains("not a snapshot") == true, "\(damage): \(String(describing: error))"
            )
        }
    }

    @Test func `its schema calls only what can do no harm`() async throws {
        defer { try? FileManager.default.removeItem(atPath: path) }
        var configuration = Store.Configuration()
        for isUntrusted in [false, true] {
            configuration.isUntrusted = isUntrusted
            let store = try Store(path: path, configuration: configuration)
            let isTrusted = try await store.read { db in try Bool.fetchOne(db, sql: "PRAGMA trusted_schema") }
            #expect(isTrusted == !isUntrusted)
        }
    }

    @Test(
        "it is trusted where it names nothing that the program has added to SQLite",
        arguments: [
            ("CREATE VIEW w AS SELECT upper(v) FROM t", true), ("CREATE VIRTUAL TABLE f USING fts5(v)", true),
            ("CREATE VIEW w AS SELECT shout(v) FROM t", false), ("CREATE VIEW w AS SELECT lower(v) FROM t", false),
            ("CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT \"SHOUT\"(NEW.v); END", false),
        ])
    func reach(schema: String, isWithin: Bool) throws {
        defer { try? FileManager.default.removeItem(atPath: path) }
        let file = try DatabaseQueue(path: path)
        try file.writeWithoutTransaction { db in
            #expect(try SchemaReach.isWithinSQLite(db))
            // One additional function, and one that replaces a function of SQLite.
            for name in ["shout", "lower"] { db.add(function: DatabaseFunction(name, argumentCount: 1) { $0[0] }) }
            #expect(try SchemaReach.isWithinSQLite(db))
            try db.execute(sql: schema)
            #expect(try SchemaReach.isWithinSQLite(db) == isWithin)
        }
        try file.close()
    }
}
