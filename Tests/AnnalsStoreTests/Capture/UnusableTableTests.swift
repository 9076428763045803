import AnnalsCore
import Foundation
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsSQLite
@testable import AnnalsSchema
@testable import AnnalsStore

/// A program that adds the function `twice` and the collation `unicase` to its connections.
enum UnusualProgram {
    static func open(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            db.add(collation: DatabaseCollation("unicase") { $0.caseInsensitiveCompare($1) })
            db.add(
                function: DatabaseFunction("twice", argumentCount: 1, pure: true) { values in
                    Int64.fromDatabaseValue(values[0]).map { 2 * $0 }
                })
        }
        return try DatabaseQueue(path: path, configuration: configuration)
    }
}

@Suite("Tables that use what only another program has")
struct UnusableTableTests {
    private static let schema = """
        CREATE TABLE fine(id INTEGER PRIMARY KEY, n VARCHAR(10) CHECK (length(n) IN (1, 2)), d AS (upper(n)));
        CREATE TABLE tag(tag TEXT NOT NULL PRIMARY KEY COLLATE unicase, usn INTEGER) WITHOUT ROWID;
        CREATE TABLE deck(id INTEGER PRIMARY KEY, name TEXT COLLATE unicase UNIQUE, other UNIQUE);
        CREATE TABLE item(id INTEGER PRIMARY KEY, v CHECK (twice(v) < 100), d AS (twice(v)), e AS (d) STORED);
        CREATE TABLE part(id INTEGER PRIMARY KEY, v, w);
        CREATE INDEX part_v ON part(v COLLATE unicase, w);
        CREATE INDEX part_w ON part(w) WHERE twice(w) > 1;
        CREATE TABLE note(id INTEGER PRIMARY KEY, v);
        CREATE TABLE log(x, y);
        CREATE TRIGGER noted AFTER INSERT ON note WHEN (NEW.v NOT IN (1)) BEGIN
            INSERT INTO log(x, y) WITH c(a) AS (SELECT CAST(NEW.v AS VARCHAR(3))) SELECT a, twice(a) FROM c, json_each('[]');
        END;
        CREATE VIEW seen AS SELECT twice(id) FROM note;
        """

    private func fixture() throws -> Fixture {
        let fixture = try Fixture("CREATE TABLE first(id INTEGER PRIMARY KEY)")
        try UnusualProgram.open(fixture.file.path).write { db in try db.execute(sql: Self.schema) }
        return fixture
    }

    @Test func `each is named with what it uses, and a table with SQLite's own functions is not`() throws {
        let fixture = try fixture()
        let found = try fixture.queue.read { db in try UnusableTable.fetchAll(db) }
        #expect(
            found.map { "\($0.table): \($0.message)" } == [
                "deck: its column name uses the collation unicase",
                "item: its generated column d uses the function twice(), a CHECK of it uses the function twice()",
                "note: its trigger noted uses the function twice()",
                "part: its index part_v uses the collation unicase, its index part_w uses the function twice()",
                "tag: its key uses the collation unicase",
            ])
        #expect(found.filter(\.isOnlyInTriggers).map(\.table) == ["note"])
        let program = try UnusualProgram.open(fixture.file.path)
        #expect(try program.read { db in try UnusableTable.fetchAll(db) } == [])
    }

    @Test func `a store lists them, and tracking says it of each table`() async throws {
        let fixture = try fixture()
        let store = try Store(path: fixture.file.path)
        let report = try await store.track(.all)
        let told = report.tables.filter { !$0.missing.isEmpty }.map { "\($0.name) \($0.missing.count)" }
        #expect(told == ["deck 1", "item 2", "note 1", "part 2"])
        #expect(report.tables.first { $0.name == "tag" }?.outcome == .skipped(.unknownCollation("unicase")))
        let unusable = try await store.unusableTables()
        for table in unusable { print(table.table, table.message) }
        #expect(unusable.map(\.table) == ["deck", "item", "note", "part", "tag"])
        #expect(unusable.filter(\.isTracked).map(\.table) == ["deck", "item", "note", "part"])
        withExtendedLifetime(fixture) {}
    }

    @Test func `what SQLite says of such a table is no defect of Annals`() async throws {
        let fixture = try fixture()
        let store = try Store(path: fixture.file.path)
        try await store.track(.all)
        let statements = [
            "INSERT INTO item(v) VALUES(1)", "INSERT INTO deck DEFAULT VALUES", "UPDATE part SET v = 1, w = 1", "SELECT * FROM tag",
        ]
        for sql in statements {
            let error = await #expect(throws: AnnalsError.self) { try await store.write { db in try db.execute(sql: sql) } }
            #expect(error?.code == .schemaRefused, "\(sql): \(error?.message ?? "")")
        }
        withExtendedLifetime(fixture) {}
    }

    private static let expressions: [(String, [String])] = [
        ("twice(v) + \"other\"(w)", ["twice", "other"]), ("v IN (1) AND (w) OR EXISTS (SELECT 1)", []),
        ("CAST(v AS VARCHAR(3)) || 'twice(v)'", []), ("INSERT INTO main.t(a) VALUES(f(1))", ["f"]),
        ("WITH a(x) AS (SELECT 1), b(y) AS MATERIALIZED (SELECT g(1) AS z) SELECT y FROM b", ["g"]),
    ]

    @Test(arguments: expressions)
    func `called functions are told from other names before a parenthesis`(_ sql: String, _ names: [String]) {
        #expect(SQLToken.all(in: sql).calledFunctions == names)
    }
}
