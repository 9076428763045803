import AnnalsCore
import AnnalsRows
import AnnalsStore
import GRDB
import Testing

@Suite("User triggers while entries are applied")
struct UserTriggersTests {
    @Test("A full-text index with external content follows inserts, updates and deletes")
    func fullTextIndexFollows() throws {
        let store = try TriggerStore(
            tracked: ["note"],
            """
            CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT);
            CREATE VIRTUAL TABLE note_index USING fts5 (body, content = 'note', content_rowid = 'id');
            CREATE TRIGGER note_ai AFTER INSERT ON note BEGIN
                INSERT INTO note_index (rowid, body) VALUES (new.id, new.body);
            END;
            CREATE TRIGGER note_ad AFTER DELETE ON note BEGIN
                INSERT INTO note_index (note_index, rowid, body) VALUES ('delete', old.id, old.body);
            END;
            CREATE TRIGGER note_au AFTER UPDATE ON note BEGIN
                INSERT INTO note_index (note_index, rowid, body) VALUES ('delete', old.id, old.body);
                INSERT INTO note_index (rowid, body) VALUES (new.id, new.body);
            END;
            """)
        try store.apply("INSERT INTO note VALUES (1, 'red apple'), (2, 'green pear'), (3, 'blue plum')")
        try store.apply("UPDATE note SET body = 'yellow pear' WHERE id = 2; DELETE FROM note WHERE id = 3")
        #expect(try store.rows("SELECT rowid FROM note_index WHERE note_index MATCH 'apple'") == ["1"])
        #expect(try store.rows("SELECT rowid FROM note_index WHERE note_index MATCH 'yellow'") == ["2"])
        #expect(try store.rows("SELECT rowid FROM note_index WHERE note_index MATCH 'green OR plum'") == [])
        try store.writeLocally("INSERT INTO note_index (note_index, rank) VALUES ('integrity-check', 1)")
    }

    @Test("An untracked log gets a row for every applied change")
    func untrackedLog() throws {
        let store = try TriggerStore(
            tracked: ["item"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE log (line TEXT);
            CREATE TRIGGER a AFTER INSERT ON item BEGIN INSERT INTO log VALUES ('+' || new.name); END;
            CREATE TRIGGER b AFTER UPDATE ON item BEGIN INSERT INTO log VALUES (old.name || '>' || new.name); END;
            CREATE TRIGGER c AFTER DELETE ON item BEGIN INSERT INTO log VALUES ('-' || old.name); END;
            """)
        try store.apply("INSERT INTO item VALUES (1, 'x'); UPDATE item SET name = 'y'; DELETE FROM item")
        #expect(try store.rows("SELECT line FROM log ORDER BY rowid") == ["+x", "x>y", "-y"])
    }

    @Test("A trigger that writes tracked tables is silent, and not created at all")
    func trackedTablesAreSilent() throws {
        let store = try TriggerStore(
            tracked: ["Item", "TOTAL"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY, price INTEGER);
            CREATE TABLE total (sum INTEGER);
            INSERT INTO total VALUES (0);
            CREATE TRIGGER a AFTER INSERT ON item BEGIN UPDATE Total SET sum = sum + new.price; END;
            CREATE TRIGGER b AFTER INSERT ON item WHEN new.price IS NULL BEGIN UPDATE item SET price = 1 WHERE id = new.id; END;
            """)
        try store.apply("INSERT INTO item VALUES (1, 5), (2, NULL); UPDATE total SET sum = 5")
        #expect(try store.rows("SELECT sum FROM total") == ["5"])
        #expect(try store.rows("SELECT price FROM item") == ["5", "NULL"])
        #expect(try store.count() == 0)
    }

    @Test("Of a mixed trigger only the statements that write untracked tables run")
    func mixedTrigger() throws {
        let store = try TriggerStore(
            tracked: ["item", "total"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY, price INTEGER);
            CREATE TABLE total (sum INTEGER);
            CREATE TABLE log (line TEXT);
            INSERT INTO total VALUES (0);
            CREATE TRIGGER a AFTER INSERT ON item BEGIN
                SELECT RAISE(ABORT, 'too much') WHERE new.price > 100;
                INSERT INTO log SELECT 'first ' || new.price;
                UPDATE total SET sum = sum + new.price;
                DELETE FROM item WHERE price < 0;
                INSERT OR IGNORE INTO log VALUES ('second');
                REPLACE INTO total VALUES (1);
            END;
            """)
        try store.apply("INSERT INTO item VALUES (1, 500), (2, -1)")
        #expect(try store.rows("SELECT line FROM log ORDER BY rowid") == ["first 500", "second", "first -1", "second"])
        #expect(try store.rows("SELECT sum FROM total") == ["0"])
        #expect(try store.rows("SELECT price FROM item") == ["500", "-1"])
    }

    @Test("Validations are silent, in BEFORE and AFTER triggers, RAISE(IGNORE) before a row included")
    func validationsAreSilent() throws {
        let store = try TriggerStore(
            tracked: ["item"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY, price INTEGER);
            CREATE TRIGGER a BEFORE INSERT ON item WHEN new.price < 0 BEGIN SELECT RAISE(ABORT, 'negative; END'); END;
            CREATE TRIGGER b AFTER INSERT ON item BEGIN
                SELECT CASE WHEN new.price > 9 THEN RAISE(FAIL, 'high') ELSE CASE new.price WHEN 7 THEN raise (ROLLBACK, 'seven') END END;
            END;
            CREATE TRIGGER c INSERT ON item BEGIN SELECT RAISE(IGNORE) WHERE new.price = 3; END;
            CREATE TRIGGER d AFTER INSERT ON item BEGIN WITH q AS (SELECT 1) SELECT count(*), max(1, 2) FROM q WHERE 1 IN (1, 2); END;
            """)
        try store.apply("INSERT INTO item VALUES (1, -1), (2, 10), (3, 7), (4, 3)")
        #expect(try store.rows("SELECT price FROM item") == ["-1", "10", "7", "3"])
        #expect(try store.count() == 0)
    }

    @Test("An early exit with RAISE(IGNORE) goes on guarding what is kept after it")
    func earlyExit() throws {
        let store = try TriggerStore(
            tracked: ["item"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY, hidden INTEGER);
            CREATE TABLE log (id INTEGER);
            CREATE TRIGGER a AFTER INSERT ON item BEGIN
                SELECT RAISE(IGNORE) WHERE new.hidden;
                INSERT INTO log VALUES (new.id);
            END;
            CREATE TRIGGER b BEFORE INSERT ON log BEGIN SELECT RAISE(IGNORE) WHERE new.id = 3; END;
            """)
        try store.apply("INSERT INTO item VALUES (1, 0), (2, 1), (3, 0), (4, 0)")
        #expect(try store.rows("SELECT id FROM item") == ["1", "2", "3", "4"])
        #expect(try store.rows("SELECT id FROM log") == ["1", "4"])
    }

    @Test("RAISE(IGNORE) in a mixed BEFORE trigger drops no row of an entry (law 3)")
    func earlyExitBeforeTrackedRow() throws {
        let store = try TriggerStore(
            tracked: ["item"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY);
            CREATE TABLE log (id INTEGER);
            CREATE TRIGGER a BEFORE INSERT ON item BEGIN
                SELECT RAISE(IGNORE) WHERE new.id IN (SELECT id FROM log);
                INSERT INTO log VALUES (new.id);
            END;
            INSERT INTO log VALUES (1);
            """)
        try store.apply("INSERT INTO item VALUES (1), (2)")
        #expect(try store.rows("SELECT id FROM item") == ["1", "2"])
        #expect(try store.rows("SELECT id FROM log") == ["1", "1", "2"])
    }

    @Test("A BEFORE trigger runs before the row is there")
    func beforeTrigger() throws {
        let store = try TriggerStore(
            tracked: ["item"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY);
            CREATE TABLE log (line TEXT);
            CREATE TRIGGER a BEFORE INSERT ON item BEGIN INSERT INTO log SELECT 'before ' || count(*) FROM item; END;
            CREATE TRIGGER b AFTER INSERT ON item BEGIN INSERT INTO log SELECT 'after ' || count(*) FROM item; END;
            """)
        try store.apply("INSERT INTO item VALUES (7)")
        #expect(try store.rows("SELECT line FROM log ORDER BY rowid") == ["before 0", "after 1"])
    }

    @Test("UPDATE OF keeps its columns, and one of a column that does not exist does no harm")
    func updateOfColumns() throws {
        let store = try TriggerStore(
            tracked: ["item"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY, a, "b c", d);
            CREATE TABLE log (line TEXT);
            CREATE TRIGGER t AFTER UPDATE OF a, [b c] ON item BEGIN INSERT INTO log VALUES (new.a || new."b c"); END;
            CREATE TRIGGER u AFTER UPDATE OF nosuch ON item BEGIN INSERT INTO log VALUES ('never'); END;
            INSERT INTO item VALUES (1, 'x', 'y', 'z');
            """)
        try store.apply("UPDATE item SET d = 'q'; UPDATE item SET a = 'r'; UPDATE item SET \"b c\" = 's'")
        #expect(try store.rows("SELECT line FROM log ORDER BY rowid") == ["ry", "rs"])
    }

    @Test("A trigger on an untracked table runs when a kept one writes it, and that of a table nobody writes is not made")
    func triggerOnUntrackedTable() throws {
        let store = try TriggerStore(
            tracked: ["item", "total"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY);
            CREATE TABLE log (line TEXT);
            CREATE TABLE counter (n INTEGER);
            CREATE TABLE other (n INTEGER);
            CREATE TABLE total (n INTEGER);
            INSERT INTO counter VALUES (0);
            CREATE TRIGGER c AFTER INSERT ON other BEGIN SELECT RAISE(ABORT, 'x'); INSERT INTO log VALUES (unknown_function(1)); END;
            CREATE TRIGGER b AFTER INSERT ON log BEGIN UPDATE counter SET n = n + 1; INSERT INTO total VALUES (1); END;
            CREATE TRIGGER a AFTER INSERT ON item BEGIN INSERT INTO log VALUES (new.id); END;
            """)
        try store.apply("INSERT INTO item VALUES (1), (2)")
        #expect(try store.rows("SELECT n FROM counter") == ["2"])
        #expect(try store.rows("SELECT n FROM total") == [])
        #expect(try store.count() == 2)
    }

    @Test("Triggers fire in the order of the originals")
    func order() throws {
        let store = try TriggerStore(
            tracked: ["item"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY);
            CREATE TABLE log (line TEXT);
            CREATE TRIGGER a AFTER INSERT ON item BEGIN INSERT INTO log VALUES ('a'); END;
            CREATE TRIGGER c AFTER INSERT ON item BEGIN INSERT INTO log VALUES ('c'); END;
            CREATE TRIGGER b AFTER INSERT ON item BEGIN INSERT INTO log VALUES ('b'); END;
            """)
        try store.writeLocally("INSERT INTO item VALUES (1)")
        let local = try store.rows("SELECT line FROM log ORDER BY rowid")
        try store.writeLocally("DELETE FROM log")
        try store.apply("INSERT INTO item VALUES (2)")
        #expect(try store.rows("SELECT line FROM log ORDER BY rowid") == local)
    }

    @Test("Recursion is what PRAGMA recursive_triggers says", arguments: [false, true])
    func recursion(isOn: Bool) throws {
        let store = try TriggerStore(
            tracked: ["item"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY);
            CREATE TABLE log (n INTEGER);
            CREATE TRIGGER a AFTER INSERT ON item BEGIN INSERT INTO log VALUES (3); END;
            CREATE TRIGGER b AFTER INSERT ON log WHEN new.n > 0 BEGIN INSERT INTO log VALUES (new.n - 1); END;
            """)
        try store.queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA recursive_triggers = \(isOn)") }
        try store.apply("INSERT INTO item VALUES (1)")
        #expect(try store.rows("SELECT n FROM log ORDER BY n") == (isOn ? ["0", "1", "2", "3"] : ["2", "3"]))
    }

    @Test("Local writes after applying fire every trigger exactly once")
    func localWritesAfterwards() throws {
        let store = try TriggerStore(
            tracked: ["item", "total"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY, price INTEGER);
            CREATE TABLE total (sum INTEGER);
            CREATE TABLE log (line TEXT);
            INSERT INTO total VALUES (0);
            CREATE TRIGGER a AFTER INSERT ON item BEGIN
                UPDATE total SET sum = sum + new.price;
                INSERT INTO log VALUES (new.price);
            END;
            CREATE TRIGGER v BEFORE INSERT ON item WHEN new.price < 0 BEGIN SELECT RAISE(ABORT, 'negative'); END;
            """)
        // The same compiled statement before, during and after applying.
        let sql = "INSERT INTO item (price) VALUES (4)"
        try store.writeLocally(sql)
        try store.apply(sql)
        try store.writeLocally(sql)
        #expect(try store.rows("SELECT sum FROM total") == ["8"])
        #expect(try store.rows("SELECT line FROM log") == ["4", "4", "4"])
        #expect(throws: DatabaseError.self) { try store.writeLocally("INSERT INTO item VALUES (9, -1)") }
    }

    @Test("Our own triggers are no user triggers, and neither run nor return")
    func ownTriggersAreIgnored() throws {
        let store = try TriggerStore(
            tracked: ["item"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY);
            CREATE TABLE annals_changes_1 (id INTEGER PRIMARY KEY, n0);
            CREATE TRIGGER annals_insert_1 AFTER INSERT ON item BEGIN INSERT INTO annals_changes_1 (n0) VALUES (new.id); END;
            """)
        #expect(try store.queue.read { try UserTriggers.plan($0, tracked: ["item"]).isEmpty })
        try store.apply("INSERT INTO item VALUES (1)")
        #expect(try store.rows("SELECT count(*) FROM annals_changes_1") == ["0"])
        try store.writeLocally("INSERT INTO item VALUES (2)")
        #expect(try store.rows("SELECT n0 FROM annals_changes_1") == ["2"])
    }
}
