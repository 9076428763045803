import AnnalsCore
import GRDB
import Testing

@testable import AnnalsSQLite
@testable import AnnalsSchema
@testable import AnnalsStore

@Suite("What a table's schema says")
struct TableDefinitionTests {
    private func definition(_ sql: String, of name: String = "t") throws -> DeclaredTable {
        try DatabaseQueue().write { (db: Database) -> DeclaredTable in
            try db.execute(sql: sql)
            let table = try SchemaReader(db).table(name)
            return try #require(table)
        }
    }

    @Test func columnsKeepTheirOrderAndGeneratedOnesAreApart() throws {
        let table = try definition(
            """
            CREATE TABLE t(a TEXT COLLATE NOCASE NOT NULL, g1 AS (a || b), b INT DEFAULT 5, "c d" , g2 TEXT AS (b + 1) STORED,
                           PRIMARY KEY(b, a))
            """)
        #expect(table.columns.map(\.name) == ["a", "b", "c d"])
        #expect(table.columns.map(\.affinity) == [.text, .integer, .blob])
        #expect(table.columns.map(\.collation) == ["NOCASE", "BINARY", "BINARY"])
        #expect(table.columns.map(\.isNotNull) == [true, false, false])
        #expect(table.columns.map(\.hasDefault) == [false, true, false])
        #expect(table.generatedColumns.map(\.name) == ["g1", "g2"])
        #expect(table.generatedColumns.map(\.kind) == [.virtual, .stored])
        #expect(table.primaryKey == [1, 0])
        #expect(table.primaryKeyCollations == ["BINARY", "NOCASE"])
        #expect(table.rowidAlias == nil)
        #expect(table.keyMayBeNull)
    }

    @Test(
        arguments: [
            ("CREATE TABLE t(a, id INTEGER PRIMARY KEY)", 1, false, false),
            ("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a)", 0, true, false),
            ("CREATE TABLE t(id INTEGER PRIMARY KEY DESC, a)", nil, false, true),
            ("CREATE TABLE t(id INT PRIMARY KEY, a)", nil, false, true),
            ("CREATE TABLE t(id INTEGER PRIMARY KEY, a) WITHOUT ROWID", nil, false, false),
            ("CREATE TABLE t(id TEXT PRIMARY KEY NOT NULL, a)", nil, false, false),
            ("CREATE TABLE t(id TEXT, a, PRIMARY KEY(id, a))", nil, false, true),
        ] as [(String, Int?, Bool, Bool)])
    func rowidAliasAndNullableKeys(sql: String, alias: Int?, isAutoincrement: Bool, keyMayBeNull: Bool) throws {
        let table = try definition(sql)
        #expect(table.rowidAlias == alias)
        #expect(table.isAutoincrement == isAutoincrement)
        #expect(table.keyMayBeNull == keyMayBeNull)
        #expect(!table.primaryKey.isEmpty)
    }

    @Test func uniqueIndexesTellWhatIsCoarse() throws {
        let table = try definition(
            """
            CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE UNIQUE, b, g AS (b || a), UNIQUE(b, a));
            CREATE UNIQUE INDEX u1 ON t(b) WHERE a > 1;
            CREATE UNIQUE INDEX u2 ON t(lower(a), b COLLATE RTRIM);
            CREATE UNIQUE INDEX u3 ON t(g);
            CREATE INDEX plain ON t(a);
            """)
        #expect(table.uniqueIndexes.map(\.name) == ["sqlite_autoindex_t_1", "sqlite_autoindex_t_2", "u1", "u2", "u3"])
        #expect(table.uniqueIndexes.map(\.isCoarse) == [false, false, true, true, false])
        #expect(table.uniqueIndexes.map(\.columnIndexes) == [[1], [2, 1], [2], nil, nil])
        #expect(table.uniqueIndexes[0].columns[0].collation == "NOCASE")
        #expect(table.uniqueIndexes[3].columns.map(\.name) == [nil, "b"])
        #expect(table.uniqueIndexes[3].columns[1].collation == "RTRIM")
        #expect(table.uniqueIndexes[4].columns == [.init(name: "g", columnIndex: nil, collation: "BINARY")])
    }

    @Test func foreignKeysAreResolved() throws {
        let table = try definition(
            """
            CREATE TABLE Parent(x, y, PRIMARY KEY(y, x));
            CREATE TABLE t(id INTEGER PRIMARY KEY, A, b, c REFERENCES gone(z), up REFERENCES t ON DELETE SET NULL,
                           FOREIGN KEY(a, B) REFERENCES parent ON UPDATE CASCADE ON DELETE RESTRICT);
            """)
        let keys = table.foreignKeys.sorted { $0.columns[0] < $1.columns[0] }
        #expect(keys.map(\.columns) == [["A", "b"], ["c"], ["up"]])
        #expect(keys.map(\.columnIndexes) == [[1, 2], [3], [4]])
        #expect(keys.map(\.parentTable) == ["Parent", "gone", "t"])
        #expect(keys.map(\.parentColumns) == [["y", "x"], ["z"], ["id"]])
        #expect(keys.map(\.parentExists) == [true, false, true])
        #expect(keys.map(\.onDelete) == [.restrict, .noAction, .setNull])
        #expect(keys.map(\.onUpdate) == [.cascade, .noAction, .noAction])
    }

    @Test func theShapeFollowsEveryDeclarationButNotTheNameNorTheLayoutOfTheText() throws {
        let shape = try definition("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT CHECK(a <> ''))").shape
        #expect(try definition("CREATE TABLE u  (id INTEGER PRIMARY KEY,\n a TEXT CHECK (a <> '')) -- note", of: "u").shape == shape)
        #expect(try definition("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT CHECK(a <> ' '))").shape != shape)
        #expect(try definition("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT CHECK(a <> '')) STRICT").shape != shape)
        #expect(
            try definition("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT CHECK(a <> '')); CREATE UNIQUE INDEX u ON t(a)").shape != shape)
    }

    @Test func viewsVirtualTablesAndShadowsAreTold() throws {
        try DatabaseQueue().write { (db: Database) in
            try db.execute(sql: "CREATE VIRTUAL TABLE f USING fts5(x); CREATE VIEW v AS SELECT 1; CREATE TABLE f_mine(x PRIMARY KEY)")
            let kinds = try SchemaReader(db).tables().reduce(into: [:]) { $0[$1.name] = $1.kind }
            #expect(kinds["f"] == .virtual)
            #expect(kinds["v"] == .view)
            #expect(kinds["f_content"] == .shadow)
            #expect(kinds["f_mine"] == .table)
        }
    }

    @Test func oddNamesAreReadAndQuoted() throws {
        let name = "odd \"name\" ' [x] ` select ü\u{301} 🙂"
        let table = try definition("CREATE TABLE \(SQL.quote(name))(\(SQL.quote(name)) TEXT PRIMARY KEY NOT NULL)", of: name)
        #expect(table.name == name)
        #expect(table.columns.map(\.name) == [name])
    }
}
