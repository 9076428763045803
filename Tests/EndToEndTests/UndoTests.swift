import Foundation
import Testing

@Suite("Undoing what was wrong: parts, authors and whole tables", .timeLimit(.minutes(20)))
struct UndoTests {
    private func customers(_ shop: Workshop, _ store: String = "shop.db") async throws -> String {
        try await shop.shell(store, "SELECT name || ' ' || city FROM customer ORDER BY id;")
    }

    @Test func `a table, a row or a column of a transaction is reverted`() async throws {
        try await Workshop.withTrackedShop { shop in
            try await shop.write("UPDATE customer SET city = 'Rome', name = 'N'; DELETE FROM invoice WHERE id = 2;")
            try await shop.succeed("revert", "shop.db", "1", "--table", "customer", "--key", "1", "--column", "city")
            #expect(try await customers(shop) == "N Lyon\nN Rome")
            let columns = try await shop.succeed("revert", "shop.db", "1", "--table", "customer", "--column", "name", "city", "--json")
            #expect(try columns.object()["updated"] as? Int == 2)
            let row = try await shop.succeed("revert", "shop.db", "1", "--table", "invoice", "--key=2")
            #expect(row.output.contains("1 inserted"))
            try await shop.fail(
                65, "did not change the row id = 1 of invoice", "revert", "shop.db", "1", "--table", "invoice", "--key", "1")
            try await shop.fail(
                65, "inserted or deleted the row id = 2 of invoice", "revert", "shop.db", "1", "--table", "invoice", "--key", "2",
                "--column", "total")
            try await shop.fail(65, "the table nothing is not tracked", "revert", "shop.db", "1", "--table", "nothing")
            try await shop.fail(64, "has no column size", "revert", "shop.db", "1", "--table", "customer", "--column", "size")
            try await shop.fail(64, "the key of customer is id", "revert", "shop.db", "1", "--table", "customer", "--key", "1", "2")
            try await shop.fail(64, "--key and --column need --table", "revert", "shop.db", "1", "--key", "1")
            try await shop.fail(64, "name a transaction's number", "revert", "shop.db")
            try await shop.fail(64, "not both", "revert", "shop.db", "1", "--by", "Ann")
            try await shop.fail(64, "start is no date", "revert", "shop.db", "1", "--after", "start")
            try await shop.fail(
                65, "transaction 1 wrote nothing between these moments", "revert", "shop.db", "1", "--after", "2999-01-01T00:00:00Z")
            try await shop.succeed("verify", "shop.db")
        }
    }

    @Test func `a trial prints rows, or what is in the way and what to revert first`() async throws {
        try await Workshop.withTrackedShop { shop in
            try await shop.write(
                "UPDATE customer SET city = 'Rome';", "UPDATE customer SET city = 'Oslo' WHERE id = 1;",
                "UPDATE customer SET city = 'Bonn' WHERE id = 1;")
            let text = try await shop.annals("revert", "shop.db", "1", "--dry-run")
            #expect(text.status == 65)
            #expect(
                Array(text.lines.prefix(2)) == [
                    "in the way: customer id = 1: city changed by #3, #2", "revert first, in this order, or keep them with --skip-changed:",
                ])
            #expect(text.lines.dropFirst(2).map { $0.prefix(4) } == ["  #3", "  #2"])
            #expect(text.errors.contains("revert 3 (external, ") && text.errors.contains("first, in this order, or --skip-changed leaves"))
            let json = try await shop.annals("revert", "shop.db", "1", "--dry-run", "--json")
            #expect(json.status == 65)
            let document = try json.object()
            #expect(document["refused"] as? Bool == true && document["obstacleCount"] as? Int == 1 && document["dryRun"] as? Bool == true)
            let first = try #require((document["obstacles"] as? [[String: Any]])?.first)
            #expect(first["table"] as? String == "customer" && first["columns"] as? [String] == ["city"])
            #expect(first["transactions"] as? [Int] == [3, 2] && first["reason"] as? String == "changed")
            #expect((document["revertFirst"] as? [[String: Any]])?.map { $0["number"] as? Int } == [3, 2])
            let skipped = try await shop.succeed("revert", "shop.db", "1", "--dry-run", "--skip-changed", "--json").object()
            #expect(skipped["skipped"] as? Int == 1 && skipped["forced"] as? Int == 0)
            for number in ["3", "2", "1"] { try await shop.succeed("revert", "shop.db", number) }
            #expect(try await shop.shell("shop.db", "SELECT city FROM customer ORDER BY id;") == "Lyon\nCork")

            try await shop.write(
                """
                WITH RECURSIVE c(n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM c LIMIT 30)
                INSERT INTO customer(id, name) SELECT n, 'x' FROM c;
                """
            )
            let many = try await shop.succeed("revert", "shop.db", "7", "--dry-run")
            #expect(many.lines.count == 22 && many.lines[20] == "and 10 more rows; --json prints all")
            let rows = try await shop.succeed("revert", "shop.db", "7", "--dry-run", "--json").object()
            #expect((rows["rows"] as? [[String: Any]])?.count == 30 && rows["deleted"] as? Int == 30 && rows["number"] is NSNull)
            #expect(try await shop.shell("shop.db", "SELECT count(*) FROM customer WHERE id >= 100;") == "30")
        }
    }

    @Test func `the work of an author is reverted on another replica, and reaches all of them`() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await shop.shell("laptop.db", "UPDATE customer SET city = 'Rome' WHERE id = 1;")
            try await shop.succeed("sync", "laptop.db", "shop.db")
            try await shop.shell("laptop.db", "UPDATE customer SET name = 'N' WHERE id = 1; DELETE FROM invoice WHERE id = 2;")
            try await shop.succeed("sync", "laptop.db", "shop.db")
            let history = try await shop.succeed("history", "shop.db", "--origin", "imported", "--json").objects()
            let author = try #require(history.last?["replicaName"] as? String)
            let before = try #require(history.last?["number"] as? Int)
            let one = try await shop.succeed("revert", "shop.db", "--by", author, "--before", "\(before)", "--json").object()
            #expect(one["transactions"] as? Int == 1 && one["updated"] as? Int == 1 && one["by"] as? String == author)
            let rest = try await shop.succeed("revert", "shop.db", "--by", author)
            #expect(rest.output.hasPrefix("the work of \(author) in 2 transactions is reverted by "))
            #expect(try await customers(shop) == "Vera Lyon\nLuis Cork")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.succeed("sync", "shop.db")
            try await shop.expectEqual("shop.db", "laptop.db")
            #expect(try await shop.shell("laptop.db", "SELECT count(*) FROM invoice WHERE id = 2;") == "1")
            try await shop.fail(65, "history has no transaction of nobody", "revert", "shop.db", "--by", "nobody")
        }
    }

    @Test func `tables are restored in place, and untracked ones stay`() async throws {
        try await Workshop.withTrackedShop { shop in
            try await shop.shell("shop.db", "CREATE TABLE loose(a); INSERT INTO loose VALUES(1);")
            try await shop.write("UPDATE customer SET city = 'Rome';", "DELETE FROM invoice; UPDATE customer SET city = 'Oslo';")
            try await shop.shell("shop.db", "INSERT INTO loose VALUES(2);")
            let trial = try await shop.succeed("restore", "shop.db", "--to", "1", "customer", "--dry-run")
            #expect(
                trial.lines.prefix(2) == ["~ customer id = 1: city 'Oslo' → 'Rome'", "~ customer id = 2: city 'Oslo' → 'Rome'"])
            #expect(trial.lines.last?.hasSuffix("can be restored: 0 inserted, 2 updated, 0 deleted") == true)
            #expect(try await customers(shop).contains("Oslo"))
            let one = try await shop.succeed("restore", "shop.db", "--to", "1", "customer", "--json").object()
            #expect(one["number"] as? Int == 3 && one["updated"] as? Int == 2 && one["notes"] as? [String] == [])
            try await shop.succeed("restore", "shop.db", "--to", "start")
            #expect(try await shop.succeed("diff", "shop.db", "start", "latest").output.hasPrefix("no row differs"))
            #expect(try await shop.shell("shop.db", "SELECT a FROM loose;") == "1\n2")
            let history = try await shop.succeed("history", "shop.db", "--after", "3", "--json").objects()
            #expect((history.first?["context"] as? String)?.hasPrefix("restore to 0-") == true)
            #expect(try await shop.succeed("restore", "shop.db", "--to", "start").output.contains("nothing to restore"))
            try await shop.fail(65, "the table nothing is not tracked", "restore", "shop.db", "--to", "start", "nothing")
            try await shop.fail(65, "has no transaction 99", "restore", "shop.db", "--to", "99")
            try await shop.fail(64, "nonsense is not a point of history", "restore", "shop.db", "--to", "nonsense")
            try await shop.write("INSERT INTO customer(id, name) VALUES(9, 'new'); INSERT INTO invoice VALUES(9, 9, 1);")
            try await shop.fail(
                65, "the row id = 9 of invoice would have no parent in customer. Nothing was changed; name the table invoice as well",
                "restore", "shop.db", "--to", "start", "customer")
            try await shop.succeed("verify", "shop.db")
        }
    }
}
