import AnnalsCore
import AnnalsSchema
import Foundation
import GRDB
import SeededRandom
import Testing

@testable import AnnalsHistory
@testable import AnnalsRows
@testable import AnnalsStore

@Suite("Reverting a transaction")
struct RevertTests {
    private typealias Shop = RevertShop

    private func shop() async throws -> Shop {
        try await Shop(Shop.schema)
    }

    @Test func `rows with later changes can be kept while the rest is reverted`() async throws {
        let shop = try await shop()
        try await shop.write("UPDATE customer SET city = 'x'")
        try await shop.write("UPDATE customer SET city = 'mended' WHERE id = 2")
        let outcome = try await shop.store.revert(transaction: 1, later: .keep)
        #expect(outcome.forced == 1 && outcome.rows.updated == 1)
        #expect(try await shop.texts("SELECT city FROM customer ORDER BY id") == ["Lyon", "mended"])
    }

    private func expectRefusal(
        _ shop: Shop, _ number: Int64, _ code: AnnalsError.Code, _ words: String, force: Bool = false,
        location: SourceLocation = #_sourceLocation
    ) async throws {
        let before = try await shop.rows()
        let error = await #expect(throws: AnnalsError.self, sourceLocation: location) {
            try await shop.store.revert(transaction: number, later: force ? .overwrite : .refuse)
        }
        #expect(error?.code == code, "\(String(describing: error))", sourceLocation: location)
        #expect(error?.message.contains(words) == true, "\(String(describing: error))", sourceLocation: location)
        #expect(try await shop.rows() == before, sourceLocation: location)
    }

    @Test func `is a new transaction that says what it reverts, and reverted again gives the rows back`() async throws {
        let shop = try await shop()
        let before = try await shop.rows()
        try await shop.write(
            "DELETE FROM customer WHERE id = 1; UPDATE customer SET city = 'Rome'; INSERT INTO customer(name) VALUES('New')")
        let after = try await shop.rows()
        let outcome = try await shop.store.revert(transaction: 1)
        #expect(outcome.number == 2 && outcome.rows.inserted == 3 && outcome.rows.updated == 1 && outcome.rows.deleted == 1)
        #expect(try await shop.rows() == before)
        let made = try await shop.store.read { try HistoryReader($0).transaction(2) }
        #expect(made?.contextName?.hasPrefix("revert of 1-") == true && made?.origin == .local)
        try await shop.store.revert(transaction: 2)
        #expect(try await shop.rows() == after)
        #expect(try await shop.store.verify().isEmpty)
        // The rows are in that state already, so nothing is done.
        #expect(try await shop.store.revert(transaction: 3).number == 4)
        #expect(try await shop.store.revert(transaction: 1) == RevertOutcome(number: nil, rows: .init(), forced: 0))
    }

    @Test func `later work in other columns stays, and in the same ones is in the way`() async throws {
        let shop = try await shop()
        try await shop.write("UPDATE customer SET city = 'Rome'")
        try await shop.write("UPDATE customer SET name = 'Eva' WHERE id = 1")
        #expect(try await shop.store.revert(transaction: 1, isTrial: true).rows.updated == 2)
        try await shop.write("UPDATE customer SET city = 'Bonn' WHERE id = 2")
        try await expectRefusal(shop, 1, .rowsDiffer, "id = 2 of customer (city)")
        #expect(try await shop.store.revert(transaction: 1, later: .overwrite).forced == 1)
        #expect(try await shop.store.read { try String.fetchAll($0, sql: "SELECT name || city FROM customer") } == ["EvaLyon", "LuisCork"])
    }

    @Test func `rows that are gone, or came again, are in the way`() async throws {
        let shop = try await shop()
        try await shop.write(
            "UPDATE customer SET city = 'Rome' WHERE id = 2; DELETE FROM invoice WHERE id = 2; INSERT INTO customer(id) VALUES(3)")
        try await shop.write(
            "DELETE FROM customer WHERE id = 2; INSERT INTO invoice VALUES(2, NULL, 7); UPDATE customer SET city = 'x' WHERE id = 3")
        try await expectRefusal(
            shop, 1, .rowsDiffer, "id = 3 of customer (city); id = 2 of customer was deleted; id = 2 of invoice was inserted again")
        #expect(try await shop.store.revert(transaction: 1, later: .overwrite).forced == 3)
        #expect(
            try await shop.store.read { try String.fetchAll($0, sql: "SELECT customer || ' ' || total FROM invoice") } == ["1 5", "1 6"])
        #expect(try await shop.store.read { try Int.fetchAll($0, sql: "SELECT id FROM customer") } == [1])
    }

    @Test func `only what is in the way is named, not what would make room for it`() async throws {
        let shop = try await shop()
        try await shop.write(
            "DELETE FROM invoice; DELETE FROM customer WHERE id = 2; UPDATE customer SET id = 2; UPDATE customer SET city = 'x'")
        try await shop.write("UPDATE customer SET city = 'y'")
        try await expectRefusal(shop, 1, .rowsDiffer, "after it: id = 2 of customer (city)")
        let error = await #expect(throws: AnnalsError.self) { try await shop.store.revert(transaction: 1) }
        #expect(error?.message.contains("inserted again") == false)
    }

    @Test func `a constraint that would break is told, and force does not break it`() async throws {
        let shop = try await shop()
        try await shop.write("UPDATE customer SET email = 'w@' WHERE id = 1")
        try await shop.write("UPDATE customer SET email = 'v@' WHERE id = 2")
        try await expectRefusal(
            shop, 1, .constraint, "id = 1 of customer cannot get its earlier values: UNIQUE constraint failed: customer.email",
            force: true)
        try await shop.write("INSERT INTO customer(id) VALUES(5)")
        try await shop.write("INSERT INTO invoice VALUES(9, 5, 1)")
        try await expectRefusal(
            shop, 3, .constraint, "id = 9 of invoice would have no parent in customer")
        try await shop.write("DELETE FROM invoice WHERE id = 1")
        try await shop.write("DELETE FROM customer WHERE id = 1")
        try await expectRefusal(shop, 5, .constraint, "would come back, and its parent in customer is not there", force: true)
        try await shop.store.revert(transaction: 6)
        try await shop.store.revert(transaction: 5)
        try shop.file.shell("PRAGMA ignore_check_constraints = 1; UPDATE customer SET name = 'no' WHERE id = 2;")
        try await shop.store.recordExternalChanges()
        try await shop.write("UPDATE customer SET name = 'yes' WHERE id = 2")
        let latest = try await shop.store.latestToken().number
        try await expectRefusal(shop, latest, .constraint, "CHECK constraint failed")
    }

    @Test func `a row that would come back without its parent is named as such`() async throws {
        let shop = try await Shop(
            "CREATE TABLE item(id INTEGER PRIMARY KEY); CREATE TABLE part(item INT REFERENCES item(id) ON DELETE CASCADE, id INTEGER PRIMARY KEY);"
        )
        try await shop.write("INSERT INTO item VALUES(1); INSERT INTO part VALUES(1, 7)")
        try await shop.write("DELETE FROM item")
        let error = await #expect(throws: AnnalsError.self) {
            try await shop.store.revert(transaction: 2, part: RevertPart(table: "part"))
        }
        #expect(error?.code == .constraint)
        #expect(error?.message.contains("the row id = 7 of part would come back, and its parent in item is not there") == true)
        #expect(error?.hint?.contains("bring the parent back first") == true)
        #expect(try await shop.store.revert(transaction: 2).rows.inserted == 2)
    }

    /// SQLite gives the number of a deleted row to the next one.
    @Test(arguments: ["CASCADE", "SET NULL"])
    func `a row does not come back under another parent`(action: String) async throws {
        let shop = try await Shop(
            """
            CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE part(id INTEGER PRIMARY KEY, item INT REFERENCES item(id) ON DELETE \(action));
            """)
        try await shop.write("INSERT INTO item VALUES(1, 'a'), (2, 'b'); INSERT INTO part VALUES(7, 1), (8, 2)")
        let before = try await shop.store.latestToken()
        try await shop.write("DELETE FROM item")
        try await shop.write("INSERT INTO item VALUES(2, 'another')")
        try await expectRefusal(shop, 2, .rowsDiffer, "id = 8 of part would refer to another row, which got the key of its parent since")
        let part = RevertPart(table: "part", key: [.integer(8)])
        let error = await #expect(throws: AnnalsError.self) { try await shop.store.revert(transaction: 2, part: part) }
        #expect(error?.code == .rowsDiffer)
        let restored = await #expect(throws: AnnalsError.self) { try await shop.store.restore(to: before, tables: ["part"]) }
        #expect(restored?.message.contains("would refer to another row") == true, "\(String(describing: restored))")
        let outcome = try await shop.store.revert(transaction: 2, later: .keep)
        #expect(outcome.forced == 2)
        let rows = try shop.file.shell("SELECT part.id, name FROM part LEFT JOIN item ON item.id = item ORDER BY 1")
        #expect(rows == (action == "CASCADE" ? "7|a\n" : "7|a\n8|\n"))
        // The whole point has the parent too. And a row that was restored is the old one.
        try await shop.store.restore(to: before)
        #expect(try shop.file.shell("SELECT part.id, name FROM part JOIN item ON item.id = item ORDER BY 1") == "7|a\n8|b\n")
        try await shop.write("DELETE FROM part")
        let latest = try await shop.store.latestToken().number
        #expect(try await shop.store.revert(transaction: latest).rows.inserted == 2)
    }

    @Test func `a revert is not named together with what it reverted`() async throws {
        let shop = try await Shop("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);")
        try await shop.write("INSERT INTO item VALUES(1, 'a')")
        try await shop.write("UPDATE item SET name = 'b'")
        try await shop.write("UPDATE item SET name = 'c'")
        try await shop.write("DELETE FROM item")
        try await shop.store.revert(transaction: 4)
        let error = await #expect(throws: AnnalsError.self) { try await shop.store.revert(transaction: 2) }
        #expect((error?.underlying as? RevertRefusal)?.transactions.map(\.number) == [3])
        try await shop.store.revert(transaction: 3)
        #expect(try await shop.store.revert(transaction: 2).rows.updated == 1)
    }

    @Test func `rows of an untracked table follow a key that is changed back`() async throws {
        let shop = try await Shop(
            "CREATE TABLE item(id INTEGER PRIMARY KEY); CREATE TABLE note(item INT REFERENCES item(id) ON UPDATE CASCADE);")
        try await shop.write("INSERT INTO item VALUES(1), (2)")
        try await shop.write("INSERT INTO note VALUES(1), (2)")
        try await shop.write("UPDATE item SET id = 77 WHERE id = 1")
        let latest = try await shop.store.latestToken().number
        #expect(try await shop.store.revert(transaction: latest).rows.updated == 1)
        #expect(try shop.file.shell("SELECT item FROM note ORDER BY 1") == "1\n2\n")
    }

    @Test func `rows of an untracked table that would lose their parent are in the way`() async throws {
        let shop = try await Shop(
            "CREATE TABLE item(id INTEGER PRIMARY KEY); CREATE TABLE note(item INT REFERENCES item(id)); INSERT INTO note VALUES(77);")
        try await shop.write("INSERT INTO item VALUES(1)")
        try await shop.write("INSERT INTO note VALUES(1)")
        try await expectRefusal(shop, 1, .constraint, "rows of note would have no parent")
        try shop.file.shell("DELETE FROM note WHERE item = 1;")
        #expect(try await shop.store.revert(transaction: 1).rows.deleted == 1)
    }

    @Test func `keys and unique values that were swapped are swapped back`() async throws {
        let shop = try await shop()
        let before = try await shop.rows()
        try await shop.write(
            """
            UPDATE customer SET email = 'x' WHERE id = 1; UPDATE customer SET email = 'v@' WHERE id = 2;
            UPDATE customer SET email = 'l@' WHERE id = 1; PRAGMA defer_foreign_keys = 1;
            UPDATE customer SET id = 9 WHERE id = 1; UPDATE customer SET id = 1 WHERE id = 2; UPDATE customer SET id = 2 WHERE id = 9;
            DELETE FROM invoice WHERE id = 1; UPDATE invoice SET id = 1 WHERE id = 2;
            """)
        let after = try await shop.rows()
        try await shop.store.revert(transaction: 1)
        #expect(try await shop.rows() == before)
        try await shop.store.revert(transaction: 2)
        #expect(try await shop.rows() == after)
    }

    @Test func `triggers that write tracked tables stay silent, those that keep an index run`() async throws {
        let shop = try await Shop(
            """
            CREATE TABLE item(id INTEGER PRIMARY KEY, name); CREATE TABLE log(id INTEGER PRIMARY KEY, what);
            CREATE VIRTUAL TABLE words USING fts5(name);
            CREATE TRIGGER logs AFTER INSERT ON item BEGIN INSERT INTO log(what) VALUES(NEW.name); END;
            CREATE TRIGGER unlogs AFTER DELETE ON item BEGIN INSERT INTO log(what) VALUES('gone'); END;
            CREATE TRIGGER adds AFTER INSERT ON item BEGIN INSERT INTO words(rowid, name) VALUES(NEW.id, NEW.name); END;
            CREATE TRIGGER removes AFTER DELETE ON item BEGIN DELETE FROM words WHERE rowid = OLD.id; END;
            """)
        try await shop.write("INSERT INTO item VALUES(1, 'lamp')")
        try await shop.store.revert(transaction: 1)
        #expect(
            try await shop.store.read { try Int.fetchAll($0, sql: "SELECT count(*) FROM log UNION ALL SELECT count(*) FROM words") } == [
                0, 0,
            ])
        try await shop.store.revert(transaction: 2)
        #expect(
            try await shop.store.read { try Int.fetchAll($0, sql: "SELECT count(*) FROM log UNION ALL SELECT count(*) FROM words") } == [
                1, 1,
            ])
    }

    @Test func `columns that were renamed, added or dropped since have the names of now`() async throws {
        let shop = try await shop()
        try await shop.write(
            "UPDATE customer SET city = 'Rome' WHERE id = 1; DELETE FROM invoice WHERE id = 1; INSERT INTO invoice VALUES(3, 2, 1)")
        try shop.file.shell("ALTER TABLE customer RENAME COLUMN city TO town; ALTER TABLE invoice ADD COLUMN paid INT DEFAULT 0;")
        try await shop.store.recordExternalChanges()
        try await shop.write("UPDATE invoice SET paid = 1 WHERE id = 3")
        try await expectRefusal(shop, 1, .rowsDiffer, "id = 3 of invoice (paid)")
        try await shop.write("UPDATE invoice SET paid = 0 WHERE id = 3")
        try await shop.store.revert(transaction: 1)
        #expect(try await shop.store.read { try String.fetchAll($0, sql: "SELECT town FROM customer") } == ["Lyon", "Cork"])
        #expect(try await shop.store.read { try String.fetchAll($0, sql: "SELECT id || ' ' || paid FROM invoice") } == ["1 0", "2 0"])
    }

    @Test func `a transaction that history does not hold is told`() async throws {
        let shop = try await shop()
        try await shop.write("UPDATE customer SET city = 'x'")
        try await expectRefusal(shop, 7, .tokenUnknown, "history has no transaction 7")
        try await expectRefusal(shop, 0, .tokenUnknown, "history has no transaction 0")
        try await shop.write("UPDATE customer SET city = 'y'")
        try shop.file.shell("INSERT INTO annals_meta VALUES('purged', 1)")
        try await expectRefusal(shop, 1, .tokenExpired, "transaction 1 is not in history any more")
    }

    @Test func `a row whose key holds NULL is in the way, and left alone by force`() async throws {
        let shop = try await Shop("CREATE TABLE loose(a, b, PRIMARY KEY(a, b)); INSERT INTO loose VALUES(1, 1);")
        try await shop.write("INSERT INTO loose VALUES(NULL, 2); DELETE FROM loose WHERE a = 1")
        try await expectRefusal(shop, 1, .rowsDiffer, "a row of loose with NULL in its key")
        try await shop.store.revert(transaction: 1, later: .overwrite)
        #expect(try await shop.store.read { try Int.fetchAll($0, sql: "SELECT b FROM loose ORDER BY b") } == [1, 2])
    }

    @Test(
        "Random transactions: the newest reverted gives the rows before it, and reverted again those after",
        arguments: Seeds.given ?? Array(1...10))
    func random(seed: UInt64) async throws {
        var random = RandomStore(seed: seed)
        let shop = try await Shop(random.schema, leavesOutAll: seed % 2 == 1)
        var reverted = 0
        for _ in 0..<25 {
            let before = try await shop.rows()
            let latest = try await shop.store.latestToken().number
            for statement in random.statements() {
                try shop.file.shell("PRAGMA foreign_keys = ON;\n" + statement + ";", stopsAtError: false)
            }
            let number = try await shop.store.latestToken().number
            guard number > latest else { continue }
            let after = try await shop.rows()
            do {
                try await shop.store.revert(transaction: number)
            } catch let error as AnnalsError where error.code == .rowsDiffer && error.message.contains("of loose with NULL in its key") {
                #expect(try await shop.rows() == after, "seed \(seed)")
                continue
            }
            let back = try await shop.rows()
            #expect(back == before, "seed \(seed), \(number): \(back.difference(from: before))")
            guard try await shop.store.latestToken().number > number else { continue }
            try await shop.store.revert(transaction: number + 1)
            let again = try await shop.rows()
            #expect(again == after, "seed \(seed), \(number): \(again.difference(from: after))")
            reverted += 1
        }
        #expect(reverted > 3, "seed \(seed)")
        #expect(try await shop.store.verify().filter { $0.code != .foreignKey } == [], "seed \(seed)")
    }
}
