import AnnalsCore
import Foundation
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsReplica
@testable import AnnalsSchema
@testable import AnnalsStore

/// History continues through migrations that rebuild a table or drop columns.
@Suite("Migrations that rebuild tables")
struct RebuiltTableTests {
    private static let schema = """
        CREATE TABLE guest(id TEXT PRIMARY KEY, mail TEXT, fax TEXT, city TEXT DEFAULT 'Rome');
        INSERT INTO guest VALUES('a', 'a@x', '1', 'Bonn'), ('b', 'b@x', '2', 'Oslo'), ('c', 'c@x', NULL, 'Wien');
        """

    private func store(_ file: TemporaryFile, _ schema: String = schema) async throws -> Store {
        try outside(file, schema)
        let store = try Store(path: file.path)
        _ = try await store.track(.all)
        return store
    }

    private func outside(_ file: TemporaryFile, _ sql: String) throws {
        let queue = try DatabaseQueue(path: file.path)
        try queue.writeWithoutTransaction { db in try db.execute(sql: sql) }
        try queue.close()
    }

    /// The rows of guest at a point of history, or the current ones, in the current columns.
    private func rows(_ store: Store, _ token: HistoryToken? = nil, of file: TemporaryFile) async throws -> [[String]] {
        let path = token == nil ? file.path : file.folder.appendingPathComponent("then-\(UUID()).db").path
        if let token { _ = try await store.replay(to: token, output: path) }
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try await queue.read { db in
            try Row.fetchAll(db, sql: "SELECT * FROM guest ORDER BY id").map { row in
                row.map { "\($0.0)=\(String.fromDatabaseValue($0.1) ?? "-")" }
            }
        }
    }

    private func changes(_ store: Store, _ label: String) async throws -> [String] {
        var found: [String] = []
        for try await transaction in store.history() where transaction.contextName == label {
            #expect(transaction.origin.name == "migration")
            for change in try await store.changes(in: transaction) {
                let columns = change.columns.map(\.name).joined(separator: ",")
                found.append("\(change.kind) \(change.key.map { "\($0)" }.joined()) \(columns)")
            }
        }
        return found.sorted()
    }

    @Test(arguments: ["TEXT", "TEXT DEFAULT 'later'"])
    func `rows that are older than a column have its first default in history`(declaration: String) async throws {
        let file = try TemporaryFile()
        let store = try await store(file)
        let first = try await store.latestToken()
        try outside(file, "ALTER TABLE guest ADD COLUMN room TEXT DEFAULT 'first'; UPDATE guest SET mail = 'c@y' WHERE id = 'c'")
        _ = try await store.latestToken()
        _ = try await store.migrate(
            label: "default",
            sql: """
                CREATE TABLE new(id TEXT PRIMARY KEY, mail TEXT, fax TEXT, city TEXT DEFAULT 'Rome', room \(declaration));
                INSERT INTO new SELECT * FROM guest; DROP TABLE guest; ALTER TABLE new RENAME TO guest;
                """)
        try outside(file, "DELETE FROM guest WHERE id = 'a'")
        #expect(try await store.verify().isEmpty)
        #expect(try await rows(store, first, of: file).map { $0.last } == ["room=first", "room=first", "room=first"])
    }

    @Test func `a column that goes takes no history with it`() async throws {
        let file = try TemporaryFile()
        let store = try await store(file)
        let first = try await store.latestToken()
        try outside(file, "UPDATE guest SET fax = '9', city = 'Paris' WHERE id = 'a'; UPDATE guest SET fax = '8' WHERE id = 'b'")
        let second = try await store.latestToken()
        #expect(
            try await store.migrate(label: "drop", sql: "ALTER TABLE guest DROP COLUMN fax; UPDATE guest SET city = 'Rom' WHERE id = 'c'")
                .statements == 2)
        try outside(file, "DELETE FROM guest WHERE id = 'b'")
        #expect(try await changes(store, "drop").count == 1)
        #expect(try await rows(store, of: file) == [["id=a", "mail=a@x", "city=Paris"], ["id=c", "mail=c@x", "city=Rom"]])
        let before = [["id=a", "mail=a@x", "city=Paris"], ["id=b", "mail=b@x", "city=Oslo"], ["id=c", "mail=c@x", "city=Wien"]]
        #expect(try await rows(store, second, of: file) == before)
        #expect(try await rows(store, first, of: file).first == ["id=a", "mail=a@x", "city=Bonn"])
        #expect(try await store.verify().isEmpty)
        #expect(!(try await store.status().areRowsUnverified))
    }

    /// Four ways to rebuild a table.
    @Test(
        arguments: [
            """
            CREATE TABLE new_guest(id TEXT PRIMARY KEY, city TEXT DEFAULT 'Rome', mail TEXT CHECK (mail <> ''));
            INSERT INTO new_guest SELECT id, city, upper(mail) FROM guest WHERE id <> 'c';
            DROP TABLE guest;
            ALTER TABLE new_guest RENAME TO guest;
            INSERT INTO guest VALUES('d', 'Prag', 'd@x');
            """,
            """
            ALTER TABLE guest RENAME TO old_guest;
            CREATE TABLE guest(id TEXT PRIMARY KEY, city TEXT DEFAULT 'Rome', mail TEXT);
            INSERT INTO guest SELECT id, city, upper(mail) FROM old_guest;
            DROP TABLE main.old_guest;
            DELETE FROM guest WHERE id = 'c';
            INSERT INTO guest VALUES('d', 'Prag', 'd@x');
            """,
            """
            UPDATE guest SET mail = upper(mail);
            CREATE TEMP TABLE held AS SELECT * FROM guest;
            DROP TABLE IF EXISTS "guest";
            CREATE TABLE guest(id TEXT PRIMARY KEY, city TEXT DEFAULT 'Rome', mail TEXT);
            INSERT INTO guest SELECT id, city, mail FROM held WHERE id <> 'c';
            DROP TABLE held;
            INSERT INTO guest VALUES('d', 'Prag', 'd@x');
            """,
            """
            ALTER TABLE guest DROP fax;
            UPDATE guest SET mail = upper(mail);
            DELETE FROM guest WHERE id = 'c';
            INSERT INTO guest VALUES('d', 'd@x', 'Prag');
            """,
        ])
    func `a table that is made anew goes on, with what the migration did to rows`(sql: String) async throws {
        let file = try TemporaryFile()
        let store = try await store(file)
        try outside(file, "UPDATE guest SET city = 'Paris', fax = 'x' WHERE id = 'a'")
        let before = try await store.latestToken()
        try await store.migrate(label: "v2", sql: sql)
        let after = try await store.latestToken()
        #expect(Set(try await changes(store, "v2").map { $0.prefix(while: { $0 != " " }) }) == ["update", "delete", "insert"])
        #expect(try await changes(store, "v2").count == 4)
        try outside(file, "UPDATE guest SET mail = 'later' WHERE id = 'b'; DELETE FROM guest WHERE id = 'a'")
        func sorted(_ rows: [[String]]) -> [[String]] { rows.map { $0.sorted() } }
        #expect(
            sorted(try await rows(store, before, of: file)) == [
                ["city=Paris", "id=a", "mail=a@x"], ["city=Oslo", "id=b", "mail=b@x"], ["city=Wien", "id=c", "mail=c@x"],
            ])
        #expect(
            sorted(try await rows(store, after, of: file)) == [
                ["city=Paris", "id=a", "mail=A@X"], ["city=Oslo", "id=b", "mail=B@X"], ["city=Prag", "id=d", "mail=d@x"],
            ])
        #expect(try await store.verify().isEmpty)
        let temporary = try await store.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM temp.sqlite_master") }
        #expect(temporary == 0)
    }

    @Test func `code says which tables it rebuilds`() async throws {
        let file = try TemporaryFile()
        let store = try await store(file)
        let first = try await store.latestToken()
        try await store.migrate(label: "v2", rebuilding: ["GUEST", "unknown"]) { db in
            try db.execute(sql: "ALTER TABLE guest DROP COLUMN fax; UPDATE guest SET city = 'Rom' WHERE id = 'c'")
        }
        #expect(try await changes(store, "v2").count == 1)
        #expect(try await rows(store, first, of: file).map(\.last) == ["city=Bonn", "city=Oslo", "city=Wien"])
        await #expect(throws: AnnalsError.self) {
            try await store.migrate(label: "v3") { db in try db.execute(sql: "ALTER TABLE guest DROP COLUMN mail") }
        }
    }

    @Test func `what comes under the name or in the place of a dropped column is another`() async throws {
        let file = try TemporaryFile()
        let store = try await store(file)
        let first = try await store.latestToken()
        try await store.migrate(label: "v2", sql: "ALTER TABLE guest DROP COLUMN city; ALTER TABLE guest DROP COLUMN fax")
        let second = try await store.latestToken()
        #expect(second != first)
        try outside(file, "ALTER TABLE guest ADD COLUMN phone TEXT DEFAULT 'none'; ALTER TABLE guest ADD COLUMN fax TEXT")
        try outside(file, "UPDATE guest SET fax = 'new', phone = '7'")
        let third = try await store.latestToken()
        try outside(file, "ALTER TABLE guest RENAME COLUMN fax TO telefax; ALTER TABLE guest ADD COLUMN fax")
        try outside(file, "UPDATE guest SET fax = 'newest', telefax = 'newer' WHERE id = 'a'")
        for token in [first, second] {
            #expect(try await rows(store, token, of: file).first == ["id=a", "mail=a@x", "phone=none", "telefax=-", "fax=-"])
        }
        #expect(try await rows(store, third, of: file).first == ["id=a", "mail=a@x", "phone=7", "telefax=new", "fax=-"])
        #expect(try await store.verify().isEmpty)
    }

    /// Older rows would not fit. If the table has stricter constraints or another key, its history begins anew, and older tokens expire.
    @Test(
        arguments: [
            "id TEXT PRIMARY KEY, mail TEXT NOT NULL, fax TEXT, city TEXT", "id TEXT PRIMARY KEY, mail TEXT UNIQUE, fax TEXT, city TEXT",
            "id TEXT PRIMARY KEY, mail TEXT, fax INTEGER, city TEXT", "id TEXT, mail TEXT, fax TEXT, city TEXT, PRIMARY KEY(id, mail)",
            "id TEXT COLLATE NOCASE PRIMARY KEY, mail TEXT, fax TEXT, city TEXT",
        ])
    func `a table that does not take what it took begins anew`(columns: String) async throws {
        let file = try TemporaryFile()
        let store = try await store(file)
        let first = try await store.latestToken()
        try await store.migrate(
            label: "v2",
            sql: """
                CREATE TABLE new_guest(\(columns));
                INSERT INTO new_guest SELECT * FROM guest;
                DROP TABLE guest;
                ALTER TABLE new_guest RENAME TO guest;
                """)
        let error = await #expect(throws: AnnalsError.self) { try await rows(store, first, of: file) }
        #expect(error?.code == .tokenExpired)
        try outside(file, "DELETE FROM guest WHERE id = 'a'")
        #expect(try await store.verify().isEmpty)
        #expect(try await rows(store, of: file).count == 2)
    }

    @Test func `rows whose key holds NULL have it begin anew`() async throws {
        let file = try TemporaryFile()
        let store = try await store(file)
        try outside(file, "INSERT INTO guest(mail) VALUES('nobody'); DELETE FROM guest WHERE id IS NULL")
        try outside(file, "INSERT INTO guest(mail) VALUES('nobody')")
        _ = try await store.latestToken()
        try outside(file, "DELETE FROM guest WHERE id IS NULL")
        let last = try await store.latestToken()
        try await store.migrate(label: "v2", sql: "ALTER TABLE guest DROP COLUMN fax")
        #expect(try await rows(store, of: file).count == 3)
        await #expect(throws: AnnalsError.self) { try await rows(store, last, of: file) }
        #expect(try await store.verify().isEmpty)
    }

    @Test func `a migration that fails leaves capture as it was`() async throws {
        let file = try TemporaryFile()
        let store = try await store(file)
        let first = try await store.latestToken()
        let error = await #expect(throws: AnnalsError.self) {
            try await store.migrate(label: "v2", sql: "ALTER TABLE guest DROP COLUMN fax; ALTER TABLE guest DROP COLUMN id")
        }
        #expect(error?.code == .schemaRefused)
        try outside(file, "UPDATE guest SET fax = 'x'")
        #expect(try await rows(store, first, of: file).map { $0[2] } == ["fax=1", "fax=2", "fax=-"])
        #expect(try await store.verify().isEmpty)
    }

    @Test(arguments: [
        "DROP TABLE extra",
        "CREATE TABLE n(id INTEGER PRIMARY KEY, word TEXT); INSERT INTO n SELECT * FROM extra; DROP TABLE extra; ALTER TABLE n RENAME TO extra",
        "ALTER TABLE extra DROP COLUMN word",
    ])
    func `history of a rebuilt table goes on if the same migration changes another table later`(second: String) async throws {
        let file = try TemporaryFile()
        let store = try await store(
            file, Self.schema + "CREATE TABLE extra(id INTEGER PRIMARY KEY, word TEXT); INSERT INTO extra VALUES(1, 'one');")
        try await store.write { db in try db.execute(sql: "UPDATE guest SET mail = 'changed' WHERE id = 'b'") }
        let sql = """
            CREATE TABLE m(id TEXT PRIMARY KEY, city TEXT, mail TEXT); INSERT INTO m SELECT id, city, mail FROM guest WHERE id <> 'c';
            DROP TABLE guest; ALTER TABLE m RENAME TO guest; \(second)
            """
        try await store.migrate(label: "v2", sql: sql)
        let deleted = try await changes(store, "v2").filter { $0.contains("delete") }
        #expect(deleted.count == 1, "\(deleted)")
        let findings = try await store.verify()
        #expect(findings == [])
        let gaps = try await store.read { db in
            try TrackedTable.fetchAll(db).filter { $0.name == "guest" && $0.state == .tracked }.map(\.gap)
        }
        #expect(gaps == [nil])
    }

    @Test func `code rebuilds two tables`() async throws {
        let file = try TemporaryFile()
        let schema =
            Self.schema + "CREATE TABLE extra(id INTEGER PRIMARY KEY, word TEXT, more TEXT); INSERT INTO extra VALUES(1, 'one', '');"
        let store = try await store(file, schema)
        try await store.migrate(label: "v2", rebuilding: ["guest", "extra"]) { db in
            try db.execute(sql: "ALTER TABLE guest DROP COLUMN fax; ALTER TABLE extra DROP COLUMN more; UPDATE extra SET word = 'two'")
        }
        #expect(try await changes(store, "v2").count == 1)
        let findings = try await store.verify()
        #expect(findings == [])
        #expect(try await store.read { db in try TrackedTable.fetchTracked(db).compactMap(\.gap) } == [])
    }

    @Test func `a table that a migration drops for good ends`() async throws {
        let file = try TemporaryFile()
        let store = try await store(file, Self.schema + "CREATE TABLE other(id INTEGER PRIMARY KEY, x); INSERT INTO other VALUES(1, 2)")
        try await store.migrate(label: "v2", sql: "DROP TABLE guest; UPDATE other SET x = 3")
        #expect(try await store.status().tracked == ["other"])
        #expect(try await store.verify().isEmpty)
    }

    @Test func `a table that changes within a migration is named once`() async throws {
        let file = try TemporaryFile()
        let store = try await store(file)
        try await store.migrate(label: "both") { db in
            try db.execute(sql: "UPDATE guest SET fax = '3'; ALTER TABLE guest ADD COLUMN note TEXT; UPDATE guest SET note = 'x'")
        }
        var tables: [[String]] = []
        for try await transaction in store.history() { tables.append(transaction.tables) }
        #expect(tables == [["guest"]])
    }

    @Test func `a migration without rows is in history by its label`() async throws {
        let file = try TemporaryFile()
        let store = try await store(file)
        try await store.migrate(label: "an index", sql: "CREATE INDEX towns ON guest(city)")
        try await store.migrate(label: "nothing", sql: "CREATE INDEX IF NOT EXISTS towns ON guest(city)")
        var labels: [String?] = []
        for try await transaction in store.history() { labels.append(transaction.contextName) }
        #expect(labels == ["an index"])
        #expect(try await store.verify().isEmpty)
    }

    /// The statements that remove something from a table, in any spelling.
    @Test(
        arguments: [
            ("DROP TABLE guest", true), ("drop table if exists [guest]", true), ("DROP TABLE main.\"guest\"", true),
            ("/* x */ DROP -- y\n TABLE guest", true), ("ALTER TABLE `guest` DROP fax", true), ("ALTER TABLE guest ADD COLUMN b", false),
            ("DROP INDEX IF EXISTS guest", false), ("DROP TABLE IF EXISTS temp.guest", false), ("", false),
        ])
    func statements(sql: String, takes: Bool) async throws {
        let file = try TemporaryFile()
        let store = try await store(file)
        try await store.database.write { db in
            let tables = RebuiltTables(db)
            try tables.prepare(for: sql)
            let aside = "SELECT EXISTS(SELECT 1 FROM temp.sqlite_master WHERE name = 'annals_aside_1')"
            #expect(try Bool.fetchOne(db, sql: aside) == takes)
            try tables.finish()
            #expect(try Bool.fetchOne(db, sql: aside) == false)
        }
        #expect(try await store.verify().isEmpty)
    }

    /// Forms of migration scripts. The analysis must not depend on the order of the statements.
    @Test(
        arguments: [
            "ALTER TABLE guest ADD COLUMN y TEXT; UPDATE guest SET y = fax; ALTER TABLE guest DROP COLUMN fax",
            "ALTER TABLE guest RENAME COLUMN city TO town; ALTER TABLE guest DROP COLUMN fax; UPDATE guest SET town = 'x'",
            "ALTER TABLE guest DROP COLUMN fax; ALTER TABLE guest RENAME TO visitor; UPDATE visitor SET mail = 'x'; ALTER TABLE visitor RENAME TO guest",
            """
            CREATE TABLE n(id TEXT PRIMARY KEY, mail TEXT, city TEXT DEFAULT 'Rome'); INSERT INTO n SELECT id, upper(mail), city FROM guest;
            INSERT INTO n VALUES('z', 'z@x', 'Ulm'); DROP TABLE guest; ALTER TABLE n RENAME TO guest; CREATE UNIQUE INDEX mails ON guest(mail)
            """,
            """
            ALTER TABLE guest RENAME TO old; CREATE TABLE n(id TEXT PRIMARY KEY, mail TEXT, city TEXT DEFAULT 'Rome');
            INSERT INTO n SELECT id, mail, city FROM old; DROP TABLE old; ALTER TABLE n RENAME TO guest; UPDATE guest SET city = 'x'
            """,
            """
            CREATE TEMP TABLE guest AS SELECT * FROM main.guest; DROP TABLE main.guest;
            CREATE TABLE main.guest(id TEXT PRIMARY KEY, mail TEXT, city TEXT); INSERT INTO main.guest SELECT id, mail, city FROM temp.guest;
            DROP TABLE temp.guest
            """,
        ])
    func forms(sql: String) async throws {
        let file = try TemporaryFile()
        let store = try await store(file)
        try outside(file, "UPDATE guest SET city = 'Paris' WHERE id = 'a'; DELETE FROM guest WHERE id = 'b'")
        let before = try await store.latestToken()
        try await store.migrate(label: "v2", sql: sql)
        #expect(try await store.status().tracked == ["guest"])
        let after = try await store.latestToken()
        let then = try await rows(store, of: file)
        try outside(file, "UPDATE guest SET mail = 'later ' || id")
        let mails = try await rows(store, before, of: file).map { $0.first { $0.hasPrefix("mail=") } }
        #expect(mails == ["mail=a@x", "mail=c@x"])
        #expect(try await rows(store, after, of: file) == then)
        #expect(try await store.verify().isEmpty)
    }

    @Test func `a key whose index compares otherwise than its column`() async throws {
        let file = try TemporaryFile()
        let store = try await store(
            file, "CREATE TABLE t(a TEXT NOT NULL, b, c, PRIMARY KEY(a COLLATE NOCASE)); INSERT INTO t VALUES('A', 1, 2)")
        let before = try await store.latestToken()
        try await store.migrate(label: "v2", sql: "ALTER TABLE t DROP COLUMN c")
        let changes = try await changes(store, "v2")
        #expect(changes.isEmpty)
        _ = try await store.replay(to: before, output: file.folder.appendingPathComponent("then.db").path)
        #expect(try await store.verify().isEmpty)
    }
}

/// Things that a migration must not touch, and errors that it did not cause.
@Suite struct MigrationRefusalTests {
    private func store(_ file: TemporaryFile, _ schema: String) async throws -> Store {
        try file.shell(schema)
        let store = try Store(path: file.path)
        _ = try await store.track(.all)
        return store
    }

    private static let schema = "CREATE TABLE c(id INTEGER PRIMARY KEY, n); INSERT INTO c VALUES(1, 'keep me'), (2, 'and me');"

    @Test(
        arguments: [
            "DROP TABLE annals_transactions", "DELETE FROM \"annals_transactions\"; DELETE FROM c", "UPDATE main.annals_meta SET value = 1",
            "CREATE TABLE annals_foo(a)", "ALTER TABLE c RENAME TO annals_c", "DELETE FROM 'annals_spans'",
        ])
    func `a file has nothing to do with what is Annals' own`(sql: String) async throws {
        let file = try TemporaryFile()
        let store = try await store(file, Self.schema)
        let error = await #expect(throws: AnnalsError.self) { try await store.migrate(label: "no", sql: sql) }
        #expect(error?.code == .schemaRefused)
        #expect(try await store.verify().isEmpty)
        #expect(try await store.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM c") } == 2)
    }

    @Test func `text that only looks like a name of Annals' is a value`() async throws {
        let file = try TemporaryFile()
        let store = try await store(file, Self.schema)
        #expect(try await store.migrate(label: "yes", sql: "UPDATE c SET n = 'annals_meta' /* annals_meta */").statements == 1)
        #expect(
            try await store.migrate(label: "yes", sql: "ALTER TABLE c ADD COLUMN annals_flag; UPDATE c SET annals_flag = 1").statements == 2
        )
    }

    @Test func `neither has a rename, or code`() async throws {
        let file = try TemporaryFile()
        let store = try await store(file, Self.schema)
        for rename in [Rename.table("c", to: "annals_c"), .table("c", to: "ANNALS_c")] {
            await #expect(throws: AnnalsError.self) { try await store.migrate(label: "no", renames: [rename]) }
        }
        for sql in ["CREATE VIEW annals_view AS SELECT 1", "DROP TABLE annals_spans", "CREATE INDEX annals_i ON c(n)"] {
            await #expect(throws: AnnalsError.self) { try await store.migrate(label: "no") { db in try db.execute(sql: sql) } }
        }
        #expect(try await store.verify().isEmpty)
        #expect(try await store.status().tracked == ["c"])
    }

    @Test func `untracking drops nothing of another program's, whatever it is called`() async throws {
        let file = try TemporaryFile()
        let store = try await store(file, Self.schema)
        try file.shell(
            """
            CREATE TABLE annals_of_rome(id INTEGER PRIMARY KEY, year); INSERT INTO annals_of_rome VALUES(1, -753);
            CREATE VIEW annals_view AS SELECT 1;
            CREATE INDEX annals_ix ON c(n);
            CREATE TRIGGER annals_trig AFTER INSERT ON c BEGIN SELECT 1; END;
            ALTER TABLE c RENAME TO annals_c;
            """)
        _ = try await store.untrack()
        let names = "SELECT name FROM sqlite_master ORDER BY name"
        let left = try await store.read { db in try String.fetchAll(db, sql: names) }
        #expect(left == ["annals_c", "annals_ix", "annals_of_rome", "annals_trig", "annals_view"])
        #expect(try await store.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM annals_c") } == 2)
    }

    @Test func `a row that had no parent before is not the migration's fault`() async throws {
        let file = try TemporaryFile()
        let store = try await store(
            file, "CREATE TABLE t(k TEXT PRIMARY KEY NOT NULL, p TEXT REFERENCES t(k)); INSERT INTO t VALUES('a', 'gone');")
        try await store.migrate(label: "yes", sql: "ALTER TABLE t ADD COLUMN x")
        let error = await #expect(throws: AnnalsError.self) {
            try await store.migrate(label: "no", sql: "INSERT INTO t(k, p) VALUES('b', 'gone')")
        }
        #expect(error?.code == .constraint)
    }

    @Test func `a trigger whose table is named with its schema is copied`() async throws {
        let file = try TemporaryFile()
        let store = try await store(
            file, Self.schema + "CREATE TABLE log(x); CREATE TRIGGER tt AFTER UPDATE ON \"main\".c BEGIN INSERT INTO log VALUES(1); END;")
        let first = try await store.latestToken()
        let path = file.folder.appendingPathComponent("then.db").path
        _ = try await store.replay(to: first, output: path)
        let sql = try await DatabaseQueue(path: path).read { db in
            try String.fetchOne(db, sql: "SELECT sql FROM sqlite_master WHERE name = 'tt'")
        }
        #expect(sql?.contains("ON c BEGIN") ?? false)
    }

    @Test func `what a killed replay left goes with the next one, and what another is writing stays`() async throws {
        let file = try TemporaryFile()
        let store = try await store(file, Self.schema)
        let path = file.folder.appendingPathComponent("then.db").path
        let (left, busy) = ("\(path).annals-0123456789ab", "\(path).annals-ba9876543210")
        for name in [left, left + ".lock", left + "-journal", busy, busy + ".lock"] {
            #expect(FileManager.default.createFile(atPath: name, contents: Data()))
        }
        let lock = open(busy + ".lock", O_RDWR)
        #expect(flock(lock, LOCK_EX | LOCK_NB) == 0)
        defer { close(lock) }
        _ = try await store.replay(to: store.latestToken(), output: path)
        let names = try FileManager.default.contentsOfDirectory(atPath: file.folder.path).filter { $0.hasPrefix("then.db") }.sorted()
        #expect(names == ["then.db", "then.db.annals-ba9876543210", "then.db.annals-ba9876543210.lock"])
    }
}
