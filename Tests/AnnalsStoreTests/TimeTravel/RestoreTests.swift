import AnnalsCore
import Foundation
import GRDB
import SeededRandom
import Testing

@testable import AnnalsHistory
@testable import AnnalsRows
import AnnalsSchema
@testable import AnnalsStore

@Suite("Restoring the rows of a point of history, in place")
struct RestoreTests {
    @Test func `is one new transaction, and no row differs from the point then`() async throws {
        let shop = try await RevertShop()
        try await shop.write("UPDATE customer SET city = 'x' WHERE id = 1")
        let (point, before) = (try await shop.token(1), try await shop.rows())
        try await shop.write("DELETE FROM customer WHERE id = 1; INSERT INTO customer VALUES(3, 'C', 'v@', '')")
        try await shop.write("UPDATE customer SET city = 'y'; INSERT INTO invoice VALUES(7, 3, 1)")
        let after = try await shop.rows()
        let rows = VisitedRows()
        let trial = try await shop.store.restore(to: point, isTrial: true, visit: rows.visit)
        #expect(trial.number == nil && trial.rows.total == rows.lines.count && rows.lines.contains("update customer(2) city 'y'→'Cork'"))
        #expect(try await shop.rows() == after)
        let outcome = try await shop.store.restore(to: point, author: "Ann")
        #expect(outcome.number == 4 && outcome.rows.inserted == 3 && outcome.rows.updated == 1 && outcome.rows.deleted == 2)
        #expect(outcome.notes.isEmpty && outcome.token == point)
        #expect(try await shop.rows() == before)
        #expect(try await shop.store.diff(from: point, to: shop.store.latestToken()).isEmpty)
        let made = try await shop.store.read { try HistoryReader($0).transaction(4) }
        #expect(made?.contextName == "restore to \(point)" && made?.origin == .local && made?.author == "Ann")
        #expect(try await shop.store.restore(to: point).number == nil)
        try await shop.store.revert(transaction: 4)
        #expect(try await shop.rows() == after)
        #expect(try await shop.store.verify().isEmpty)
    }

    @Test func `only the named tables are restored, and never an untracked one`() async throws {
        let shop = try await RevertShop()
        try await shop.write("UPDATE customer SET city = 'x'; UPDATE invoice SET total = 0")
        try await shop.store.write { try $0.execute(sql: "CREATE TABLE loose(a); INSERT INTO loose VALUES(1)") }
        let start = try await shop.store.token(named: "start")
        #expect(try await shop.store.restore(to: start, tables: ["INVOICE"]).rows.updated == 2)
        #expect(try await shop.texts("SELECT city || total FROM customer, invoice WHERE customer.id = 1") == ["x5", "x6"])
        #expect(try await shop.store.restore(to: start).rows.updated == 2)
        #expect(try await shop.texts("SELECT a || '' FROM loose") == ["1"])
        let error = try await shop.refusal { try await shop.store.restore(to: start, tables: ["nothing"]) }
        #expect(error?.code == .notTracked)
    }

    @Test func `a refusal because of a reference names the table to add`() async throws {
        let shop = try await RevertShop()
        try await shop.write("INSERT INTO customer(id) VALUES(5)")
        try await shop.write("INSERT INTO invoice VALUES(9, 5, 1)")
        let start = try await shop.store.token(named: "start")
        let error = try await shop.refusal { try await shop.store.restore(to: start, tables: ["customer"]) }
        #expect(error?.code == .constraint)
        #expect(error?.message.contains("the row id = 9 of invoice would have no parent in customer") == true)
        #expect(error?.hint == "Nothing was changed; name the table invoice as well")
        try await shop.store.restore(to: start, tables: ["customer", "invoice"])
        try await shop.write("DELETE FROM customer WHERE id = 1")
        let parent = try await shop.refusal { try await shop.store.restore(to: start, tables: ["invoice"]) }
        #expect(parent?.code == .constraint && parent?.hint == "Nothing was changed; name the table customer as well")
        #expect(try await shop.store.restore(to: start).rows.inserted == 3)
    }

    @Test("Unique values that were swapped, and keys that moved, in many rows", arguments: ["", " WITHOUT ROWID"])
    func moved(kind: String) async throws {
        let shop = try await RevertShop(
            """
            CREATE TABLE step(id INT PRIMARY KEY NOT NULL, place INT UNIQUE, label)\(kind);
            CREATE TABLE use(id INTEGER PRIMARY KEY, step INT REFERENCES step(id) ON UPDATE CASCADE);
            WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 3000) INSERT INTO step SELECT n, n, 's' || n FROM c;
            INSERT INTO use SELECT id, id FROM step WHERE id % 7 = 0;
            """)
        let before = try await shop.rows()
        try await shop.write("UPDATE step SET place = -place; UPDATE step SET place = 3001 + place")
        try await shop.write("UPDATE step SET id = id + 10000; UPDATE step SET id = id - 9999")
        try await shop.write("DELETE FROM use; DELETE FROM step WHERE id % 3 = 0")
        try await shop.store.restore(to: shop.store.token(named: "start"))
        #expect(try await shop.rows() == before)
        #expect(try await shop.store.verify().isEmpty)
        #expect(try await shop.store.write { try Int.fetchOne($0, sql: "SELECT count(*) FROM temp.sqlite_master") } == 0)
    }

    @Test func `a column that was added since keeps its values`() async throws {
        let shop = try await RevertShop()
        try await shop.write("UPDATE customer SET city = 'x' WHERE id = 1")
        let point = try await shop.token(1)
        try shop.file.shell("ALTER TABLE customer ADD COLUMN paid INT DEFAULT 7;")
        try await shop.store.recordExternalChanges()
        try await shop.write("UPDATE customer SET paid = 1, city = 'y' WHERE id = 1; DELETE FROM customer WHERE id = 2")
        try await shop.store.restore(to: point)
        #expect(try await shop.texts("SELECT city || paid FROM customer") == ["x1", "Cork7"])
        let later = try await shop.store.latestToken()
        try await shop.write("UPDATE customer SET paid = 5")
        try await shop.store.restore(to: later)
        #expect(try await shop.texts("SELECT paid || '' FROM customer") == ["1", "7"])
    }

    @Test func `tables that came or went since are told`() async throws {
        let shop = try await RevertShop()
        try await shop.write("UPDATE customer SET city = 'x' WHERE id = 1")
        try shop.file.shell("CREATE TABLE later(id INTEGER PRIMARY KEY);")
        try await shop.store.recordExternalChanges()
        try await shop.store.track(.all)
        try await shop.write("INSERT INTO later VALUES(1); UPDATE invoice SET total = 0")
        let outcome = try await shop.store.restore(to: shop.token(1))
        #expect(outcome.notes == ["the table later is empty now: it had no rows at that point, or did not exist"])
        #expect(try await shop.texts("SELECT total || '' FROM invoice") == ["5", "6"])
    }

    @Test func `rows with NULL in the key that changed are refused, and points that history does not have`() async throws {
        let shop = try await RevertShop("CREATE TABLE loose(a PRIMARY KEY, b); CREATE TABLE t(id INTEGER PRIMARY KEY, a);")
        try await shop.write("INSERT INTO loose VALUES(NULL, 1); INSERT INTO t VALUES(1, 1)")
        let start = try await shop.store.token(named: "start")
        let error = try await shop.refusal { try await shop.store.restore(to: start) }
        #expect(error?.code == .rowsDiffer && error?.message.contains("a row of loose with NULL in its key") == true)
        #expect(try await shop.store.restore(to: start, tables: ["t"]).rows.deleted == 1)
        let unknown = try await shop.refusal {
            try await shop.store.restore(to: shop.store.read { HistoryToken(number: 99, store: try HistoryBounds($0).storeID) })
        }
        #expect(unknown?.code == .tokenUnknown)
    }

    @Test("Random transactions: the rows of any earlier point come back", arguments: Seeds.given ?? Array(1...6))
    func random(seed: UInt64) async throws {
        var random = RandomStore(seed: seed)
        let shop = try await RevertShop(random.schema, leavesOutAll: seed % 2 == 1)
        var states = [(try await shop.store.latestToken(), try await shop.rows())]
        for _ in 0..<12 {
            for statement in random.statements() {
                try shop.file.shell("PRAGMA foreign_keys = ON;\n" + statement + ";", stopsAtError: false)
            }
            states.append((try await shop.store.latestToken(), try await shop.rows()))
        }
        var restored = 0
        for _ in 0..<6 {
            let (token, rows) = random.random.one(of: states)
            do {
                try await shop.store.restore(to: token)
            } catch let error as AnnalsError where error.code == .rowsDiffer && error.message.contains("with NULL in its key") {
                continue
            } catch let error as AnnalsError where error.code == .constraint && error.message.contains("would have no parent") {
                // The rows of that point did not fulfil a reference.
                continue
            }
            let back = try await shop.rows()
            #expect(back == rows, "seed \(seed), \(token): \(back.difference(from: rows))")
            restored += 1
        }
        #expect(try await shop.store.verify().filter { $0.code != .foreignKey } == [], "seed \(seed), \(restored) restored")
    }
}
