import AnnalsCore
import AnnalsWire
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsReplica
@testable import AnnalsSchema
@testable import AnnalsStore

/// The statements that a schema entry of the log may have. None of them runs without a check.
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
            "CREATE TABLE evil (x INTEGER PRIMARY KEY, y DEFAULT (printf('%.*c', 20000, 'x')))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY, y DEFAULT (printf('%020000d', 1)))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY, y DEFAULT (sqlite_compileoption_get(1)))",
            "ALTER TABLE todo ADD COLUMN evil DEFAULT (zeroblob(1))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY, a DEFAULT (hex(randomblob(7000))), b AS (a || a) STORED)",
            "CREATE TABLE evil (x TEXT PRIMARY KEY COLLATE unicase)",
            "CREATE TABLE evil (x TEXT PRIMARY KEY, y TEXT COLLATE swiftCompare CHECK (length(zeroblob(1000000000)) > y))",
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

    /// A default of 10 KiB. Two of them are longer than a value may be.
    private static let large = "DEFAULT (hex(randomblob(5120)))"

    @Test func `no check is computed, since it depends on rows`() throws {
        #expect(try SchemaTrial.refusal(of: ["CREATE TABLE some (id INTEGER PRIMARY KEY, x \(Self.large), y AS (x || x) STORED)"]) != nil)
        let definition = "x \(Self.large) CHECK (length(x || x) > 0)"
        #expect(try SchemaTrial.refusal(of: ["CREATE TABLE some (id INTEGER PRIMARY KEY, \(definition))"]) == nil)
        #expect(try SchemaTrial.refusal(of: ["ALTER TABLE todo ADD COLUMN \(definition)"]) == nil)
    }

    @Test func `a constant default of a new column must satisfy its check`() throws {
        let refused = try #require(try SchemaTrial.refusal(of: ["ALTER TABLE todo ADD COLUMN x INTEGER NOT NULL DEFAULT 0 CHECK (x >= 1)"]))
        #expect(refused.reason == "its default does not satisfy its CHECK constraint")
        #expect(try SchemaTrial.refusal(of: ["ALTER TABLE todo ADD COLUMN x INTEGER NOT NULL DEFAULT 1 CHECK (x >= 1)"]) == nil)
        #expect(try SchemaTrial.refusal(of: ["ALTER TABLE todo ADD COLUMN x TEXT CHECK (json_valid(x) OR x IS NULL)"]) == nil)
        #expect(try SchemaTrial.refusal(of: ["CREATE TABLE some (id INTEGER PRIMARY KEY, x INTEGER DEFAULT 0 CHECK (x >= 1))"]) == nil)
    }

    @Test(
        "functions that are slow for two long values are not computed",
        arguments: [
            // Each expression is the empty text. It is too large only if another function replaces the slow one.
            "iif(instr('a', 'b'), x || x, '')", "iif('a' LIKE 'b', x || x, '')", "iif('a' LIKE 'b' ESCAPE '!', x || x, '')",
            "iif('a' GLOB 'b', x || x, '')", "trim(x, x) || x", "ltrim(x, x) || x", "rtrim(x, x) || x", "replace(x, x, '') || x",
        ])
    func replaced(expression: String) throws {
        let isAllowed = !expression.hasPrefix("replace")
        let sql = "CREATE TABLE some (id INTEGER PRIMARY KEY, x \(Self.large), y AS (\(expression)) STORED)"
        let reason = try #require(try SchemaTrial.refusal(of: [sql])).reason
        #expect(reason == (isAllowed ? "a value of it is larger than 16 KiB" : "it calls the function replace()"))
    }

    @Test func `an entry calls so many functions, and a statement is so long`() throws {
        let some = String(repeating: "abs(1) + ", count: 150) + "1"
        func table(_ name: String, _ columns: Int) -> String {
            let defaults = (0..<columns).map { "c\($0) DEFAULT (\(some))" }
            return "CREATE TABLE \(name) (id INTEGER PRIMARY KEY, \(defaults.joined(separator: ", ")))"
        }
        #expect(try SchemaTrial.refusal(of: [table("one", 20)]) == nil)
        let both = try #require(try SchemaTrial.refusal(of: [table("one", 20), table("two", 20)]))
        #expect(both.statement == "CREATE TABLE two" && both.reason.contains("calls more than 4000 functions"), "\(both)")
        let long = try #require(
            try SchemaTrial.refusal(of: ["CREATE TABLE long (id INTEGER PRIMARY KEY, x DEFAULT '\(String(repeating: "x", count: 70_000))')"]
            ))
        #expect(long.reason == "it is longer than 64 KiB")
        // As many columns as a table may have.
        let wide = (0..<1_900).map { "column_\($0) TEXT NOT NULL" }
        #expect(try SchemaTrial.refusal(of: ["CREATE TABLE wide (\(wide.joined(separator: ", ")), PRIMARY KEY (column_0))"]) == nil)
    }

    @Test(
        "what apps declare is taken",
        arguments: [
            "CREATE TABLE evil (x INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, \"a b\" VARCHAR(10) COLLATE NOCASE DEFAULT 'it''s' UNIQUE)",
            "CREATE TABLE \"evil\" (x TEXT PRIMARY KEY, y REAL DEFAULT -1.5e-3, z BLOB DEFAULT x'00ff', w DEFAULT CURRENT_TIMESTAMP) WITHOUT ROWID",
            "CREATE TABLE evil (x ANY, n INT, CONSTRAINT k PRIMARY KEY (x COLLATE NOCASE DESC), CHECK (n > 0 OR n IS NOT NULL)) STRICT, WITHOUT ROWID",
            "CREATE TABLE evil(x INTEGER PRIMARY KEY, [n] DOUBLE PRECISION GENERATED ALWAYS AS (x * 2.0) STORED, `m` AS (coalesce(n, .5)))",
            "CREATE TABLE evil (x TEXT PRIMARY KEY COLLATE swiftCompare, y TEXT COLLATE swiftCaseInsensitiveCompare UNIQUE CHECK (y > x))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY, p INTEGER REFERENCES todo(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED)",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY, p, q, FOREIGN KEY (p) REFERENCES todo ON DELETE SET DEFAULT, UNIQUE (p, q))",
            "CREATE TABLE evil (x TEXT PRIMARY KEY DEFAULT (lower(hex(randomblob(16)))), at TEXT DEFAULT (datetime('now')))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY, t TEXT CHECK (t LIKE '%@%' ESCAPE '!' AND length(t) < 100 AND CAST(t AS VARCHAR(10)) NOTNULL))",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY, kind TEXT NOT NULL CHECK (kind IN ('a', 'b')), j TEXT CHECK (json_valid(j)), f DEFAULT TRUE)",
            "CREATE TABLE evil (x INTEGER PRIMARY KEY, a DEFAULT (printf('%02d-%s', 1, 'x')), b DEFAULT bare, c DEFAULT \"quoted (\", d DEFAULT ')')",
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
