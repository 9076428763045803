import AnnalsCore
import AnnalsWire
import GRDB
import Testing

@testable import AnnalsStore

/// What a schema entry of the log may say: nothing of it runs as it comes.
@Suite struct SchemaTrialTests {
    private static func space() throws -> SpaceSchema {
        try DatabaseQueue().inDatabase { db in
            try db.execute(sql: "CREATE TABLE todo (id INTEGER PRIMARY KEY, title TEXT)")
            guard let table = try SchemaReader(db).table("todo") else { throw MergeError.unknownTable("todo") }
            return SpaceSchema(TrackedTables([(0, table)]))
        }
    }

    private static func entry(_ statements: [String], version: Int64 = 2, _ tracked: [TableLayout] = []) -> SchemaEntry {
        SchemaEntry(version: version, statements: statements, tracked: tracked, isBreaking: false)
    }

    private static let layout = TableLayout(name: "evil", columns: ["x"], key: [0])

    private static func refusal(_ statements: [String], _ tracked: [TableLayout] = []) throws -> AnnalsError? {
        do {
            _ = try SchemaAdditions(entry(statements, tracked), to: space())
            return nil
        } catch let error as AnnalsError {
            return error
        }
    }

    @Test(
        "a statement that would run a query, call an expensive function or leave the database is refused by its kind and table",
        arguments: [
            "CREATE TABLE evil AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 3) SELECT x FROM n",
            "CREATE TABLE evil AS SELECT zeroblob(1000) AS x",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY) AS SELECT 1 AS x",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY CHECK (x IN (SELECT 1)))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY CHECK (x IN todo))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY CHECK (EXISTS (SELECT 1)))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY CHECK (length(zeroblob(1000000000)) > x))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY CHECK (length(printf('%.*c', 1000000000, 'x')) > x))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY CHECK (length(printf('%1000000000d', x)) > 1))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY CHECK (length(randomblob(1000000000)) > x))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY CHECK (length(replace(x, '1', '1111111111')) > 0))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY CHECK (length(hex(hex(hex(x)))) > 0))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY, y DEFAULT (randomblob(1000000000)))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY, y DEFAULT (load_extension('x')))",
            "CREATE TABLE main.evil (x INTEGER PRIMARY KEY)",
            "CREATE TEMP TABLE evil (x INTEGER PRIMARY KEY)",
            "CREATE VIRTUAL TABLE evil USING fts5(x)",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY); ATTACH 'other.db' AS other",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY CHECK (x > ?1))",
            "CREATE TABLE annals_evil (x INTEGER PRIMARY KEY)",
            "CREATE TABLE sqlite_evil (x INTEGER PRIMARY KEY)",
            "CREATE TRIGGER evil AFTER INSERT ON todo BEGIN DELETE FROM todo; END",
            "CREATE VIEW evil AS SELECT 1 AS x",
            "CREATE INDEX evil ON todo (title) WHERE id IN (SELECT 1)",
            "ALTER TABLE todo DROP COLUMN title",
            "ALTER TABLE todo ADD COLUMN evil DEFAULT (SELECT 1)",
            "ATTACH 'other.db' AS other", "PRAGMA writable_schema = ON", "DROP TABLE todo", "",
        ])
    func refused(statement: String) throws {
        let error = try #require(try Self.refusal([statement], [Self.layout]))
        #expect(error.code == .schemaRefused)
        if statement.hasPrefix("CREATE TABLE evil") { #expect(error.message.contains("evil"), "\(error.message)") }
    }

    @Test func `an endless query is refused before it begins`() throws {
        let endless = "CREATE TABLE evil AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
        #expect(throws: SchemaTrial.Refusal.self) { try SchemaTrial().check(endless) }
    }

    @Test(
        "what apps declare is taken",
        arguments: [
            "CREATE TABLE evil (x INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, \"a b\" VARCHAR(10) COLLATE NOCASE DEFAULT 'it''s' UNIQUE)",
            "CREATE TABLE \"evil\" (x TEXT PRIMARY KEY, y REAL DEFAULT -1.5e-3, z BLOB DEFAULT x'00ff', w DEFAULT CURRENT_TIMESTAMP) WITHOUT ROWID",
            "CREATE TABLE evil (x ANY, n INT, CONSTRAINT k PRIMARY KEY (x COLLATE NOCASE DESC), CHECK (n > 0 OR n IS NOT NULL)) STRICT, WITHOUT ROWID",
            "CREATE TABLE evil(x INTEGER PRIMARY KEY, [n] DOUBLE PRECISION GENERATED ALWAYS AS (x * 2.0) STORED, `m` AS (coalesce(n, .5)))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY, p INTEGER REFERENCES todo(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED)",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY, p, q, FOREIGN KEY (p) REFERENCES todo ON DELETE SET DEFAULT, UNIQUE (p, q))",
            "CREATE TABLE evil (x TEXT PRIMARY KEY DEFAULT (lower(hex(randomblob(16)))), at TEXT DEFAULT (datetime('now')))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY, t TEXT CHECK (t LIKE '%@%' ESCAPE '!' AND length(t) < 100 AND CAST(t AS VARCHAR(10)) NOTNULL))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY, kind TEXT NOT NULL CHECK (kind IN ('a', 'b')), j TEXT CHECK (json_valid(j)), f DEFAULT TRUE)",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY, a -- a comment\n /* another */ TEXT, b AS (CASE WHEN a IS NULL THEN - -1 ELSE a || '-' END))",
        ])
    func taken(statement: String) throws {
        let table = try DatabaseQueue().inDatabase { db in
            try db.execute(sql: "CREATE TABLE todo (id INTEGER PRIMARY KEY, title TEXT)")
            try db.execute(sql: statement)
            return try SchemaReader(db).table("evil")
        }
        let one = try #require(table)
        let additions = try SchemaAdditions(
            Self.entry([statement], [TableLayout(name: "evil", columns: one.columns.map(\.name), key: one.primaryKey)]), to: Self.space())
        #expect(additions.tables.map(\.name) == ["evil"])
    }
}
