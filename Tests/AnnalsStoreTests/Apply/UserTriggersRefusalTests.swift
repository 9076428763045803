import AnnalsCore
import AnnalsStore
import GRDB
import Testing

@Suite("User triggers that are refused")
struct UserTriggersRefusalTests {
    private let tables = "CREATE TABLE item (id INTEGER PRIMARY KEY, n); CREATE TABLE log (line);"

    private func refusal(_ trigger: String, _ setUp: (Database) throws -> Void = { _ in }) throws -> AnnalsError? {
        let store = try TriggerStore(tracked: ["item"], tables + trigger)
        try store.queue.writeWithoutTransaction(setUp)
        let refusal = try store.refusal("INSERT INTO item VALUES (1, 1)")
        #expect(try store.rows("SELECT count(*) FROM item") == [refusal == nil ? "1" : "0"])
        let left = try store.queue.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM temp.sqlite_master WHERE name GLOB 'annals_*'") }
        #expect(left == 0)
        return refusal
    }

    @Test("A function that is unknown here is named with its trigger, before anything is applied")
    func unknownFunction() throws {
        let error = try refusal(
            """
            CREATE TRIGGER fine AFTER INSERT ON item BEGIN INSERT INTO log VALUES (new.id); END;
            CREATE TRIGGER deep AFTER INSERT ON log BEGIN DELETE FROM log WHERE line = soundslike(new.line); END;
            CREATE TRIGGER also_fine AFTER DELETE ON item BEGIN INSERT INTO log VALUES (old.id); END;
            """)
        #expect(error?.code == .schemaRefused)
        #expect(error?.message.contains("\"deep\"") == true)
        #expect(error?.message.contains("soundslike") == true)
    }

    @Test("An unknown function in what does not run does no harm")
    func unknownFunctionLeftOut() throws {
        let error = try refusal(
            """
            CREATE TRIGGER a AFTER INSERT ON item BEGIN
                SELECT RAISE(ABORT, 'x') WHERE NOT is_valid(new.n);
                UPDATE item SET n = soundslike(n);
                INSERT INTO log VALUES (new.id);
            END;
            """)
        #expect(error == nil)
    }

    @Test("A SELECT that is there for a function's effect runs, or is refused where the function is unknown")
    func functionWithEffect() throws {
        let trigger = "CREATE TRIGGER a AFTER INSERT ON item BEGIN SELECT keep_index(new.id); END;"
        let error = try refusal(trigger)
        #expect(error?.message.contains("\"a\"") == true)
        #expect(error?.message.contains("keep_index") == true)
        let known = try refusal(trigger) { db in db.add(function: DatabaseFunction("keep_index", argumentCount: 1) { _ in nil }) }
        #expect(known == nil)
    }

    @Test("A table that is missing, and a module that is unknown")
    func missingTable() throws {
        let error = try refusal(
            "CREATE TRIGGER a AFTER INSERT ON item BEGIN INSERT INTO gone VALUES (1); END;")
        #expect(error?.code == .schemaRefused)
        #expect(error?.message.contains("gone") == true)
        let module = try refusal(
            "CREATE TABLE shape (a); CREATE TRIGGER a AFTER INSERT ON item BEGIN INSERT INTO shape VALUES (1); END;"
        ) { db in
            try db.execute(
                sql: """
                    DROP TABLE shape;
                    PRAGMA writable_schema = ON;
                    INSERT INTO sqlite_master VALUES ('table', 'shape', 'shape', 0, 'CREATE VIRTUAL TABLE shape USING geometry (a)');
                    PRAGMA writable_schema = RESET;
                    """)
        }
        #expect(module?.code == .schemaRefused)
        #expect(module?.message.contains("geometry") == true)
    }

    @Test("RAISE inside a statement that must run, or inside WHEN")
    func raiseThatCannotBeSplit() throws {
        let inside = try refusal(
            "CREATE TRIGGER a AFTER INSERT ON item BEGIN INSERT INTO log SELECT CASE WHEN new.n < 0 THEN RAISE(ABORT, 'x') END; END;")
        #expect(inside?.message.contains("\"a\"") == true)
        let condition = try refusal(
            "CREATE TRIGGER b AFTER INSERT ON item WHEN (SELECT RAISE(IGNORE) WHERE 0) IS NULL BEGIN INSERT INTO log VALUES (1); END;")
        #expect(condition?.message.contains("\"b\"") == true)
        let both = try refusal(
            """
            CREATE TRIGGER c AFTER INSERT ON item BEGIN
                SELECT CASE new.n WHEN 8 THEN RAISE(IGNORE) WHEN 9 THEN RAISE(ABORT, 'x') END;
                INSERT INTO log VALUES (1);
            END;
            """)
        #expect(both?.message.contains("\"c\"") == true)
        let silent = try refusal(
            "CREATE TRIGGER d AFTER INSERT ON item BEGIN UPDATE item SET n = CASE WHEN n < 0 THEN RAISE(ABORT, 'x') END; END;")
        #expect(silent == nil)
    }

    @Test("Text that cannot be understood")
    func unknownText() throws {
        let error = try refusal("CREATE TRIGGER a AFTER INSERT ON item BEGIN INSERT INTO log VALUES (1); END;") { db in
            try db.execute(
                sql: """
                    PRAGMA writable_schema = ON;
                    UPDATE sqlite_master SET sql = 'CREATE TRIGGER a AFTER INSERT ON item BEGIN MERGE INTO log; END' WHERE name = 'a';
                    PRAGMA writable_schema = OFF;
                    """)
        }
        #expect(error?.code == .schemaRefused)
        #expect(error?.message.contains("\"a\"") == true)
    }

    @Test("A temporary table with a name that a kept trigger uses, and only then")
    func shadowingTable() throws {
        let trigger = "CREATE TRIGGER a AFTER INSERT ON item BEGIN INSERT INTO log VALUES (new.id); END;"
        let error = try refusal(trigger) { try $0.execute(sql: "CREATE TEMP TABLE \"Log\" (line)") }
        #expect(error?.code == .schemaRefused)
        #expect(error?.message.contains("\"a\"") == true)
        #expect(try refusal(trigger) { try $0.execute(sql: "CREATE TEMP TABLE something (line)") } == nil)
        #expect(try refusal("") { try $0.execute(sql: "CREATE TEMP TABLE log (line)") } == nil)
    }

    @Test("A temporary trigger of the program's own that would change tracked rows")
    func foreignTemporaryTriggers() throws {
        let writing = try refusal("") { db in
            try db.execute(sql: "CREATE TEMP TRIGGER mine AFTER INSERT ON main.item BEGIN UPDATE item SET n = 0; END")
        }
        #expect(writing?.message.contains("\"mine\"") == true)
        let refusing = try refusal("") { db in
            try db.execute(sql: "CREATE TEMP TRIGGER mine BEFORE INSERT ON main.item BEGIN SELECT RAISE(IGNORE); END")
        }
        #expect(refusing?.message.contains("\"mine\"") == true)
        let watching = try refusal("") { db in
            try db.execute(
                sql: """
                    CREATE TEMP TABLE changed (id);
                    CREATE TEMP TRIGGER mine AFTER INSERT ON main.item BEGIN INSERT INTO changed VALUES (new.id); END;
                    CREATE TEMP TRIGGER elsewhere AFTER INSERT ON main.log BEGIN UPDATE item SET n = 0; END;
                    """)
        }
        #expect(watching == nil)
    }
}
