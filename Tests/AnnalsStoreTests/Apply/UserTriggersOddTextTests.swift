import AnnalsCore
import AnnalsStore
import GRDB
import Testing

@Suite("User triggers with unusual text")
struct UserTriggersOddTextTests {
    @Test("Strings and comments that look like the end of a statement or of the trigger")
    func stringsAndComments() throws {
        let store = try TriggerStore(
            tracked: ["item", "total"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE total (sum);
            CREATE TABLE log (line);
            CREATE TRIGGER /* BEGIN */ a AFTER -- WHEN 1
            INSERT /* ON total */ ON item -- trailing; BEGIN SELECT 1; END
            FOR EACH ROW WHEN new.name <> '; BEGIN DELETE FROM item; END' -- it's
            BEGIN -- INSERT INTO total
                INSERT INTO log VALUES ('; END; ''quoted''; UPDATE total'); /* ; INSERT INTO total VALUES (1); */
                INSERT -- INTO total
                    INTO /* total */ log VALUES (x'3B' || new.name || '--');
                UPDATE total SET sum = 'INSERT INTO log VALUES (1);'; -- end
            END;
            """)
        try store.apply("INSERT INTO item VALUES (1, 'n')")
        #expect(try store.rows("SELECT line FROM log ORDER BY rowid") == ["; END; 'quoted'; UPDATE total", ";n--"])
        #expect(try store.rows("SELECT sum FROM total") == [])
    }

    @Test("CASE … END in statements and in WHEN")
    func caseEnd() throws {
        let store = try TriggerStore(
            tracked: ["item"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY, n INTEGER);
            CREATE TABLE log (line TEXT);
            CREATE TRIGGER a AFTER INSERT ON item
            WHEN CASE WHEN new.n > 0 THEN (CASE new.n WHEN 5 THEN 0 ELSE 1 END) ELSE 0 END
            BEGIN
                INSERT INTO log SELECT CASE WHEN new.n > 2 THEN CASE WHEN 1 THEN 'big' END ELSE 'small' END;
                UPDATE log SET line = CASE line WHEN 'big' THEN 'BIG' ELSE line END;
            END;
            """)
        try store.apply("INSERT INTO item VALUES (1, 1), (2, 3), (3, 5), (4, -1)")
        #expect(try store.rows("SELECT line FROM log ORDER BY rowid") == ["small", "BIG"])
    }

    @Test("Nested WHEN with subqueries")
    func nestedWhen() throws {
        let store = try TriggerStore(
            tracked: ["item"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY, n INTEGER);
            CREATE TABLE log (line TEXT);
            CREATE TRIGGER a AFTER INSERT ON item FOR EACH ROW
            WHEN (new.n IN (SELECT n FROM item WHERE id <> new.id) AND EXISTS (SELECT 1 WHERE (new.n) > 0))
            BEGIN INSERT INTO log VALUES (new.id); END;
            """)
        try store.apply("INSERT INTO item VALUES (1, 1), (2, 1), (3, 2), (4, -1), (5, -1)")
        #expect(try store.rows("SELECT line FROM log") == ["2"])
    }

    @Test("Names in all four kinds of quotes, and columns called begin and end")
    func quotedNames() throws {
        let store = try TriggerStore(
            tracked: ["my \"item\"; begin", "order"],
            """
            CREATE TABLE "my ""item""; begin" (begin INTEGER PRIMARY KEY, end TEXT, [a.b] TEXT);
            CREATE TABLE `order` (n);
            CREATE TABLE 'log; END' (begin, `end`);
            CREATE TRIGGER [after insert on] AFTER INSERT ON "my ""item""; begin"
            WHEN new.begin < 5 AND new.end NOT NULL
            BEGIN
                INSERT INTO 'log; END' (begin, end) VALUES (new.begin, new.end);
                INSERT INTO [log; END] SELECT max(begin), CASE WHEN end THEN end END FROM `log; END`;
                INSERT INTO "order" VALUES (new.[a.b]);
                DELETE FROM [order];
                UPDATE `Order` SET n = 1;
            END;
            INSERT INTO `order` VALUES (0);
            """)
        try store.apply(#"INSERT INTO "my ""item""; begin" VALUES (1, '7', NULL), (9, 'x', NULL)"#)
        #expect(try store.rows(#"SELECT begin || '-' || "end" FROM "log; END" ORDER BY rowid"#) == ["1-7", "1-7"])
        #expect(try store.rows("SELECT n FROM \"order\"") == ["0"])
    }

    @Test("Names are compared as SQLite does, and found after a rename of the table")
    func renamedTable() throws {
        let store = try TriggerStore(
            tracked: ["NEW name"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY);
            CREATE TABLE log (n);
            CREATE TRIGGER IF NOT EXISTS main.a AFTER INSERT ON item BEGIN
                INSERT INTO log VALUES (new.id);
                DELETE FROM item WHERE id = 1;
            END;
            ALTER TABLE item RENAME TO "new name";
            """)
        try store.apply("INSERT INTO \"new name\" VALUES (1)")
        #expect(try store.rows("SELECT n FROM log") == ["1"])
        #expect(try store.rows("SELECT id FROM \"new name\"") == ["1"])
    }

    @Test("Upserts, OR clauses, subqueries and common table expressions in kept statements")
    func kindsOfStatements() throws {
        let store = try TriggerStore(
            tracked: ["item"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY, n INTEGER);
            CREATE TABLE counter (name TEXT PRIMARY KEY, n INTEGER);
            CREATE TRIGGER a AFTER INSERT ON item BEGIN
                INSERT INTO counter VALUES ('rows', 1) ON CONFLICT (name) DO UPDATE SET n = n + 1;
                INSERT OR REPLACE INTO counter WITH RECURSIVE q(x) AS (SELECT 1 UNION SELECT x + 1 FROM q WHERE x < 4)
                    SELECT 'sum', sum(x) FROM q;
                UPDATE OR IGNORE counter SET n = (SELECT count(*) FROM item) WHERE name = 'item';
                UPDATE counter SET n = counter.n + i.n FROM item AS i WHERE i.id = new.id AND name = 'added';
                DELETE FROM counter WHERE name = 'gone' AND EXISTS (SELECT 1 FROM item);
            END;
            INSERT INTO counter VALUES ('item', 0), ('added', 10), ('gone', 1);
            """)
        try store.apply("INSERT INTO item VALUES (1, 5), (2, 6)")
        #expect(try store.rows("SELECT name || n FROM counter ORDER BY 1") == ["added21", "item2", "rows2", "sum10"])
    }

    @Test("INSTEAD OF triggers run for what a kept trigger writes into a view")
    func views() throws {
        let store = try TriggerStore(
            tracked: ["item", "total"],
            """
            CREATE TABLE item (id INTEGER PRIMARY KEY);
            CREATE TABLE total (n INTEGER);
            CREATE TABLE log (line TEXT);
            INSERT INTO total VALUES (0);
            CREATE VIEW outer_view AS SELECT line, 0 AS other FROM log;
            CREATE VIEW inner_view AS SELECT line FROM log;
            CREATE VIEW tracked_view AS SELECT n FROM total;
            CREATE TRIGGER a AFTER INSERT ON item BEGIN
                INSERT INTO outer_view (line) VALUES (new.id);
                INSERT INTO tracked_view VALUES (new.id);
                UPDATE outer_view SET other = 1;
            END;
            CREATE TRIGGER o INSTEAD OF INSERT ON outer_view BEGIN
                UPDATE total SET n = n + 1;
                INSERT INTO inner_view VALUES ('outer ' || new.line);
            END;
            CREATE TRIGGER p INSTEAD OF UPDATE OF other ON outer_view BEGIN UPDATE total SET n = n + 10; END;
            CREATE TRIGGER q INSTEAD OF UPDATE OF line ON outer_view BEGIN INSERT INTO log VALUES ('never'); END;
            CREATE TRIGGER i INSTEAD OF INSERT ON inner_view BEGIN INSERT INTO log VALUES ('inner ' || new.line); END;
            CREATE TRIGGER t INSTEAD OF INSERT ON tracked_view BEGIN INSERT INTO total VALUES (new.n); END;
            """)
        try store.apply("INSERT INTO item VALUES (1)")
        #expect(try store.rows("SELECT line FROM log") == ["inner outer 1"])
        #expect(try store.rows("SELECT n FROM total") == ["0"])
        // a, o, p (empty), q and i; not t.
        #expect(try store.count() == 5)
    }
}
