import AnnalsCore
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsRows
@testable import AnnalsStore

@Suite("Reverting a part of a transaction")
struct PartialRevertTests {
    @Test func `only one table, one row or some columns are undone`() async throws {
        let shop = try await RevertShop()
        try await shop.write("UPDATE customer SET city = 'Rome', name = 'N'; UPDATE invoice SET total = 0")
        #expect(try await shop.store.revert(transaction: 1, part: RevertPart(table: "invoice")).rows.updated == 2)
        #expect(try await shop.texts("SELECT name || city FROM customer") == ["NRome", "NRome"])
        let row = RevertPart(table: "CUSTOMER", key: [.text("1")], columns: ["City"])
        #expect(try await shop.store.revert(transaction: 1, part: row).rows.updated == 1)
        #expect(try await shop.texts("SELECT name || city FROM customer") == ["NLyon", "NRome"])
        #expect(try await shop.store.revert(transaction: 1, part: RevertPart(table: "customer", columns: ["name"])).rows.updated == 2)
        #expect(try await shop.texts("SELECT name || city FROM customer") == ["VeraLyon", "LuisRome"])
        #expect(try await shop.store.revert(transaction: 1, part: RevertPart(table: "customer", key: [.integer(2)])).rows.updated == 1)
        #expect(try await shop.texts("SELECT city || total FROM customer, invoice WHERE customer.id = 2") == ["Cork5", "Cork6"])
        #expect(try await shop.store.verify().isEmpty)
    }

    @Test func `later work is in the way only in the part`() async throws {
        let shop = try await RevertShop()
        try await shop.write("UPDATE customer SET city = 'Rome', name = 'N'")
        try await shop.write("Bo", "UPDATE customer SET city = 'Oslo' WHERE id = 1")
        let names = RevertPart(table: "customer", columns: ["name"])
        #expect(try await shop.store.revert(transaction: 1, part: names).rows.updated == 2)
        let second = RevertPart(table: "customer", key: [.integer(2)])
        #expect(try await shop.store.revert(transaction: 1, part: second).rows.updated == 1)
        let error = try await shop.refusal {
            try await shop.store.revert(transaction: 1, part: RevertPart(table: "customer", columns: ["city"]))
        }
        #expect(error?.code == .rowsDiffer && error?.message.contains("id = 1 of customer (city)") == true)
    }

    @Test func `inserted and deleted rows stay if only columns are undone`() async throws {
        let shop = try await RevertShop()
        try await shop.write(
            "UPDATE invoice SET total = 9 WHERE id = 1; DELETE FROM invoice WHERE id = 2; INSERT INTO invoice VALUES(3, 1, 1)")
        let outcome = try await shop.store.revert(transaction: 1, part: RevertPart(table: "invoice", columns: ["total"]))
        #expect(outcome.leftOut == 2 && outcome.rows.updated == 1 && outcome.rows.total == 1)
        #expect(try await shop.texts("SELECT id || ' ' || total FROM invoice") == ["1 5", "3 1"])
        let part = RevertPart(table: "invoice", key: [.integer(3)], columns: ["total"])
        let error = try await shop.refusal { try await shop.store.revert(transaction: 1, part: part) }
        #expect(
            error?.code == .rowNotFound && error?.message.contains("transaction 1 inserted or deleted the row id = 3 of invoice") == true)
    }

    @Test func `a part that the transaction did not change, or that does not exist, is refused`() async throws {
        let shop = try await RevertShop()
        try await shop.write("UPDATE customer SET city = 'Rome' WHERE id = 1")
        let cases: [(RevertPart, AnnalsError.Code, String)] = [
            (RevertPart(table: "invoice"), .rowNotFound, "transaction 1 did not change the table invoice"),
            (RevertPart(table: "customer", key: [.integer(2)]), .rowNotFound, "did not change the row id = 2 of customer"),
            (RevertPart(table: "customer", columns: ["name"]), .rowNotFound, "did not update name in the table customer"),
            (RevertPart(table: "nothing"), .notTracked, "the table nothing is not tracked"),
            (RevertPart(table: "customer", columns: ["size"]), .usage, "the table customer has no column size"),
            (RevertPart(table: "customer", key: [.integer(1), .null]), .usage, "the key of customer is id"),
        ]
        for (part, code, words) in cases {
            let error = try await shop.refusal { try await shop.store.revert(transaction: 1, part: part) }
            #expect(error?.code == code && error?.message.contains(words) == true, "\(String(describing: error))")
        }
    }

    @Test func `a row is meant by its key before or after, also a composite key without rowid`() async throws {
        let shop = try await RevertShop(
            """
            CREATE TABLE seat(hall TEXT COLLATE NOCASE, number INT, guest, PRIMARY KEY(hall, number)) WITHOUT ROWID;
            INSERT INTO seat VALUES('a', 1, 'x'), ('a', 2, 'y'), ('b', 1, 'z');
            """)
        try await shop.write("UPDATE seat SET number = 9, guest = 'q' WHERE hall = 'a' AND number = 2; UPDATE seat SET guest = 'w'")
        for (key, expected) in [(Value.integer(2), "a 2 y"), (.integer(1), "a 1 x")] {
            try await shop.store.revert(transaction: 1, part: RevertPart(table: "seat", key: [.text("A"), key]))
            let row = "SELECT hall || ' ' || number || ' ' || guest FROM seat WHERE hall || ' ' || number || ' ' || guest = '\(expected)'"
            #expect(try await shop.texts(row) == [expected])
        }
        #expect(try await shop.texts("SELECT guest FROM seat WHERE hall = 'b'") == ["w"])
        try await shop.store.revert(transaction: 2)
        try await shop.store.revert(transaction: 1, part: RevertPart(table: "seat", key: [.text("a"), .integer(9)], columns: ["guest"]))
        #expect(try await shop.texts("SELECT number || guest FROM seat WHERE hall = 'a' ORDER BY number") == ["1x", "9y"])
    }

    @Test("A value that history leaves out stays", arguments: [false, true])
    func leftOut(isMoved: Bool) async throws {
        let shop = try await RevertShop(
            """
            CREATE TABLE note(id INTEGER PRIMARY KEY, title TEXT UNIQUE, body);
            INSERT INTO note VALUES(1, 'a', 'long'), (2, 'b', 'text');
            """, leavesOutAll: true)
        try await shop.write(
            isMoved
                ? "UPDATE note SET title = title || '!'"
                : "UPDATE note SET title = 'c' WHERE id = 1; UPDATE note SET body = 'x' WHERE id = 2")
        try await shop.store.revert(transaction: 1, part: RevertPart(table: "note", key: [.integer(1)]))
        #expect(try await shop.texts("SELECT title || body FROM note WHERE id = 1") == ["along"])
    }

    @Test func `a trial visits the rows before and after, and changes nothing`() async throws {
        let shop = try await RevertShop()
        try await shop.write("UPDATE customer SET city = 'Rome' WHERE id = 1; INSERT INTO invoice VALUES(3, 1, 1)")
        let (before, rows) = (try await shop.rows(), VisitedRows())
        let outcome = try await shop.store.revert(transaction: 1, isTrial: true, visit: rows.visit)
        #expect(outcome.number == nil && outcome.rows.total == 2)
        #expect(rows.lines == ["update customer(1) city 'Rome'→'Lyon'", "delete invoice(3) id 3→∅ customer 1→∅ total 1→∅"])
        #expect(try await shop.rows() == before)
        #expect(try await shop.store.latestToken().number == 1)
    }

    struct Enough: Error {}

    @Test func `an error of the visit ends the revert, and nothing is changed`() async throws {
        let shop = try await RevertShop()
        try await shop.write("UPDATE customer SET city = 'Rome'")
        let before = try await shop.rows()
        await #expect(throws: Enough.self) { try await shop.store.revert(transaction: 1, visit: { _ in throw Enough() }) }
        #expect(try await shop.rows() == before)
        #expect(try await shop.store.revert(transaction: 1).number == 2)
    }
}

@Suite("What is in the way of a revert")
struct RevertRefusalTests {
    private func refusal(_ shop: RevertShop, _ number: Int64 = 1) async throws -> RevertRefusal? {
        try await shop.refusal { try await shop.store.revert(transaction: number) }?.underlying as? RevertRefusal
    }

    @Test func `exactly the transactions that changed the same column or row are named, newest first`() async throws {
        let shop = try await RevertShop()
        try await shop.write("UPDATE customer SET city = 'Rome' WHERE id = 1")
        try await shop.write("Bo", "UPDATE customer SET name = 'other column' WHERE id = 1")
        try await shop.write("Cy", "UPDATE customer SET city = 'Oslo' WHERE id = 1")
        try await shop.write("Di", "UPDATE customer SET city = 'other row' WHERE id = 2")
        try await shop.write("Ed", "UPDATE customer SET city = 'Bonn' WHERE id = 1")
        let error = try await shop.refusal { try await shop.store.revert(transaction: 1) }
        let refusal = try #require(error?.underlying as? RevertRefusal)
        #expect(refusal.transactions.map(\.number) == [5, 3] && !refusal.hasMore && refusal.count == 1)
        let obstacle = try #require(refusal.obstacles.first)
        #expect(obstacle.table == "customer" && obstacle.key == [.integer(1)] && obstacle.reason == .changed)
        #expect(obstacle.columns == ["city"] && obstacle.transactions.map(\.author) == ["Ed", "Cy"])
        #expect(error?.hint?.hasPrefix("Nothing was changed; revert 5 (by Ed, ") == true)
        let keeps = "first, in this order, or later: .keep leaves these rows"
        #expect(error?.hint?.contains(", 3 (by Cy, ") == true && error?.hint?.contains(keeps) == true)
        for transaction in refusal.transactions { try await shop.store.revert(transaction: transaction.number) }
        #expect(try await shop.store.revert(transaction: 1).rows.updated == 1)
        #expect(try await shop.texts("SELECT city FROM customer") == ["Lyon", "other row"])
    }

    @Test func `rows that were deleted, inserted again or moved name who did it`() async throws {
        let shop = try await RevertShop()
        try await shop.write("UPDATE customer SET city = 'x'; DELETE FROM invoice WHERE id = 2; INSERT INTO invoice VALUES(3, 1, 1)")
        try await shop.write("Bo", "DELETE FROM customer WHERE id = 2; UPDATE customer SET name = 'N'")
        try await shop.write("Cy", "INSERT INTO invoice VALUES(2, 1, 7)")
        try await shop.write("Di", "UPDATE invoice SET total = 2 WHERE id = 3; UPDATE invoice SET total = 8 WHERE id = 2")
        let found = try #require(try await refusal(shop))
        let reasons = found.obstacles.map { "\($0.table) \($0.key.map(\.brief)) \($0.reason) \($0.transactions.map(\.number))" }
        #expect(
            reasons.sorted() == [
                "customer [\"2\"] deleted [2]", "invoice [\"2\"] insertedAgain [4, 3]", "invoice [\"3\"] changed [4]",
            ])
        #expect(found.transactions.map(\.number) == [4, 3, 2])
    }

    @Test func `at most ten rows and ten transactions are named, and the others counted`() async throws {
        let shop = try await RevertShop()
        try await shop.write("UPDATE customer SET city = 'x' WHERE id = 1")
        for number in 1...12 { try await shop.write("UPDATE customer SET city = \(number) WHERE id = 1") }
        let one = try #require(try await refusal(shop))
        #expect(one.transactions.map(\.number) == Array((4...13).reversed()) && one.hasMore && one.count == 1)
        try await shop.write(
            """
            INSERT INTO invoice
            WITH RECURSIVE c(value) AS (SELECT 10 UNION ALL SELECT value + 1 FROM c LIMIT 50) SELECT value, 1, 1 FROM c
            """
        )
        try await shop.write("UPDATE invoice SET total = 2")
        let many = try #require(try await refusal(shop, 14))
        #expect(many.obstacles.count == 10 && many.count == 50 && many.transactions.map(\.number) == [15] && many.hasMore)
    }
}
