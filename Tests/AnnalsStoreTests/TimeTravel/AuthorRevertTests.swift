import AnnalsCore
import GRDB
import Testing

@testable import AnnalsHistory
@testable import AnnalsRows
@testable import AnnalsStore

@Suite("Reverting an author's work")
struct AuthorRevertTests {
    @Test func `all of it between two points is one new transaction, and the work of others stays`() async throws {
        let shop = try await RevertShop()
        try await shop.write("Ann", "UPDATE customer SET city = 'a' WHERE id = 1")
        try await shop.write("Bo", "UPDATE customer SET name = 'B' WHERE id = 1; INSERT INTO invoice VALUES(3, 1, 7)")
        try await shop.write("Ann", "UPDATE customer SET city = 'b', email = 'n@' WHERE id = 1; DELETE FROM invoice WHERE id = 1")
        try await shop.write("Ann", "INSERT INTO customer(id, name) VALUES(9, 'new'); UPDATE customer SET city = 'c' WHERE id = 2")
        let rows = VisitedRows()
        let trial = try await shop.store.revert(by: "Ann", after: shop.token(1), before: shop.token(4), isTrial: true, visit: rows.visit)
        #expect(trial.transactions == 1)
        #expect(rows.lines.first == "update customer(1) email 'n@'→'v@' city 'b'→'a'")
        let outcome = try await shop.store.revert(by: "Ann", author: "Cy")
        #expect(outcome.number == 5 && outcome.transactions == 3)
        #expect(outcome.rows.inserted == 1 && outcome.rows.updated == 2 && outcome.rows.deleted == 1)
        #expect(try await shop.texts("SELECT name || email || city FROM customer") == ["Bv@Lyon", "Luisl@Cork"])
        #expect(try await shop.texts("SELECT id || ' ' || total FROM invoice") == ["1 5", "2 6", "3 7"])
        let made = try await shop.store.read { try HistoryReader($0).transaction(5) }
        #expect(made?.contextName == "revert of the work of Ann" && made?.author == "Cy" && made?.origin == .local)
        #expect(try await shop.store.verify().isEmpty)
        try await shop.store.revert(by: "Cy")
        #expect(try await shop.texts("SELECT city FROM customer WHERE id = 1") == ["b"])
    }

    @Test func `a row that was inserted and deleted is left out, also if another row has its key now`() async throws {
        let shop = try await RevertShop()
        try await shop.write("Ann", "INSERT INTO customer VALUES(5, 'A', 'a@', NULL)")
        try await shop.write("Ann", "DELETE FROM customer WHERE id = 5; UPDATE customer SET city = 'x' WHERE id = 1")
        try await shop.write("Ann", "UPDATE customer SET city = 'Lyon' WHERE id = 1")
        try await shop.write("Bo", "INSERT INTO customer VALUES(5, 'B', 'a@', NULL); UPDATE customer SET city = 'mine' WHERE id = 1")
        #expect(try await shop.store.revert(by: "Ann").number == nil)
        #expect(try await shop.texts("SELECT name FROM customer WHERE id = 5") == ["B"])
    }

    @Test func `what others changed later or in between is in the way, and is named`() async throws {
        let shop = try await RevertShop()
        try await shop.write("Bo", "UPDATE customer SET city = 'before' WHERE id = 1")
        try await shop.write("Ann", "UPDATE customer SET city = 'a', name = 'a' WHERE id = 1")
        try await shop.write("Bo", "UPDATE customer SET city = 'between' WHERE id = 1")
        try await shop.write("Ann", "UPDATE customer SET city = 'b' WHERE id = 1")
        let error = try await shop.refusal { try await shop.store.revert(by: "Ann") }
        let refusal = try #require(error?.underlying as? RevertRefusal)
        #expect(error?.code == .rowsDiffer && error?.message.hasPrefix("the work of Ann cannot be reverted") == true)
        #expect(refusal.transactions.map(\.number) == [3] && refusal.obstacles.map(\.columns) == [["city"]])
        let names = RevertPart(table: "customer", columns: ["name"])
        #expect(try await shop.store.revert(by: "Ann", part: names).rows.updated == 1)
        try await shop.write("Cy", "UPDATE customer SET city = 'later' WHERE id = 1")
        let later = try await shop.refusal { try await shop.store.revert(by: "Ann") }?.underlying as? RevertRefusal
        #expect(later?.transactions.map(\.author) == ["Cy", "Bo"])
        #expect(try await shop.store.revert(by: "Ann", later: .overwrite).forced == 1)
        #expect(try await shop.texts("SELECT city || name FROM customer WHERE id = 1") == ["beforeVera"])
    }

    @Test func `rows that others deleted or inserted again are in the way`() async throws {
        let shop = try await RevertShop()
        try await shop.write("Ann", "DELETE FROM invoice WHERE id = 1; UPDATE invoice SET total = 1 WHERE id = 2")
        try await shop.write("Bo", "INSERT INTO invoice VALUES(1, 2, 2); DELETE FROM invoice WHERE id = 2")
        try await shop.write("Ann", "UPDATE invoice SET total = 3 WHERE id = 1")
        let refusal = try await shop.refusal { try await shop.store.revert(by: "Ann") }?.underlying as? RevertRefusal
        #expect(refusal?.count == 2 && refusal?.transactions.map(\.number) == [2])
    }

    @Test func `an author without transactions there, and points that history does not have, are told`() async throws {
        let shop = try await RevertShop()
        try await shop.write("Ann", "UPDATE customer SET city = 'x'")
        let nobody = try await shop.refusal { try await shop.store.revert(by: "Bo") }
        #expect(nobody?.code == .rowNotFound && nobody?.message.contains("history has no transaction of Bo") == true)
        let none = try await shop.refusal { try await shop.store.revert(by: "Ann", after: shop.token(1)) }
        #expect(none?.code == .rowNotFound)
        let other = try await shop.refusal { try await shop.store.revert(by: "Ann", part: RevertPart(table: "invoice")) }
        #expect(other?.code == .rowNotFound)
    }

    @Test func `unique values that went round in several transactions go back`() async throws {
        let shop = try await RevertShop()
        let before = try await shop.rows()
        try await shop.write("Ann", "UPDATE customer SET email = 'x' WHERE id = 1; UPDATE customer SET email = 'v@' WHERE id = 2")
        try await shop.write("Ann", "UPDATE customer SET email = 'l@' WHERE id = 1; INSERT INTO customer VALUES(3, 'C', 'c@', '')")
        try await shop.write(
            "Ann", "PRAGMA defer_foreign_keys = 1; UPDATE customer SET id = id + 10; UPDATE invoice SET customer = customer + 10")
        try await shop.write("Ann", "UPDATE customer SET id = id + 1 WHERE id = 13")
        let after = try await shop.rows()
        #expect(before != after)
        try await shop.store.revert(by: "Ann")
        #expect(try await shop.rows() == before)
        #expect(try await shop.store.verify().isEmpty)
    }
}

@Suite("Changes of several transactions to one row")
struct UndoneChangeTests {
    private func merged(_ steps: (old: [Value]?, new: [Value]?, leftOut: [Int])...) -> UndoneChange {
        var undone = UndoneChange(NetChange(old: steps[0].old, new: steps[0].new, leftOut: steps[0].leftOut), 1)
        for (index, step) in steps.dropFirst().enumerated() {
            undone.merge(NetChange(old: step.old, new: step.new, leftOut: step.leftOut), Int64(index + 2))
        }
        return undone
    }

    private let one = Value.integer(1)
    private let a = Value.text("a")
    private let b = Value.text("b")
    private let c = Value.text("c")
    private let d = Value.text("d")

    @Test func `are one change if they follow each other`() {
        #expect(merged(([one, a], [one, b], []), ([one, b], [one, c], [])).change == NetChange(old: [one, a], new: [one, c]))
        #expect(merged((nil, [one, a], []), ([one, a], [one, b], [])).change == NetChange(old: nil, new: [one, b]))
        #expect(merged(([one, a], [one, b], []), ([one, b], nil, [])).change == NetChange(old: [one, a], new: nil))
        #expect(merged(([one, a], nil, []), (nil, [one, b], [])).change == NetChange(old: [one, a], new: [one, b]))
        #expect(merged((nil, [one, a], []), ([one, a], nil, [])).isNothing)
        #expect(merged(([one, a], [one, b], []), ([one, b], [one, a], [])).isNothing)
    }

    @Test func `are interrupted where others changed the same column, unless they changed it back`() {
        let interrupted = merged(([one, a], [one, b], []), ([one, c], [one, d], []))
        #expect(interrupted.interrupted == [1] && interrupted.change == NetChange(old: [one, a], new: [one, d]))
        #expect(merged(([one, a], [one, b], []), ([one, a], [one, d], [])).interrupted.isEmpty)
        #expect(!merged(([one, a], [one, b], []), ([one, c], [one, a], [])).isNothing)
        #expect(merged(([one, a], nil, []), ([one, b], [one, c], [])).interrupted == [0, 1])
    }

    @Test func `count the first transaction of each column, and take left-out values from each other`() {
        let undone = merged(([one, a, .null], [one, b, .null], [2]), ([one, b, c], [one, b, d], []), ([one, b, d], nil, []))
        #expect(undone.change == NetChange(old: [one, a, c], new: nil))
        #expect((undone.first(0), undone.first(1), undone.first(2)) == (3, 1, 2))
    }
}
