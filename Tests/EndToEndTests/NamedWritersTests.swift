import Foundation
import Testing

@Suite("Writers that give their names in SQL, from the command line", .timeLimit(.minutes(20)))
struct NamedWritersTests {
    private func author(_ transaction: [String: Any]) -> String { transaction["author"] as? String ?? "–" }

    @Test func `the examples of the page about writers run as they stand`() async throws {
        let page = try TestedPage("Documentation/writers.md")
        try await Workshop.with { shop in
            try await shop.shell(
                "shop.db", "CREATE TABLE product(id INTEGER PRIMARY KEY, price); INSERT INTO product VALUES(1, 1), (2, 2000)")
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.shell("shop.db", page.block("sql").joined(separator: "\n"))
            let python = try await Program.run("python3", ["-"], in: shop.path, input: page.block("python").joined(separator: "\n"))
            #expect(python.status == 0, "\(python.errors)")
            try await shop.shell("shop.db", "INSERT INTO product VALUES(3, 5)")
            let shell = try await Program.run("sh", ["-s"], in: shop.path, input: page.block("sh").joined(separator: "\n") + "\n")
            #expect(shell.status == 0 && shell.errors.isEmpty, "\(shell.errors)")

            let history = try await shop.succeed("history", "shop.db", "--json").objects()
            #expect(history.map { $0["context"] as? String ?? "–" } == ["price import", "price import", "–", "nightly clean-up"])
            #expect(history.map(author).prefix(3) == ["ann", "ann", "–"])
            let user = try await Program.run("id", ["-un"], in: shop.path).output.trimmingCharacters(in: .newlines)
            #expect(history.last.map(author) == user)
            #expect(history.allSatisfy { $0["origin"] as? String == "external" })
            let blame = try await shop.succeed("blame", "shop.db", "product", "1")
            #expect(blame.output.contains("ann"), "\(blame.output)")
            #expect(try await shop.succeed("verify", "shop.db").status == 0)
        }
    }

    @Test func `who changed this cell, and what was there in between`() async throws {
        try await Workshop.with { shop in
            let url = try await shop.makeReplicas()
            try await shop.shell("shop.db", "UPDATE customer SET city = 'x' WHERE id = 1")
            for (name, city) in [("ann", "Ann wrote"), ("bob", "Bob wrote")] {
                try await shop.shell(
                    "shop.db",
                    """
                    BEGIN; INSERT INTO annals_context VALUES('\(name)', 'form'); UPDATE customer SET city = '\(city)' WHERE id = 1;
                    DELETE FROM annals_context; COMMIT;
                    """)
            }
            try await shop.succeed("sync", "shop.db")
            try await shop.succeed("sync", "laptop.db")
            try await shop.expectEqual("shop.db", "laptop.db")
            for store in ["shop.db", "laptop.db"] {
                let history = try await shop.succeed("history", store, "--table", "customer", "--values", "--json").objects().suffix(3)
                #expect(history.dropFirst().map(author) == ["ann", "bob"], "\(store)")
                let changes = history.compactMap { ($0["changes"] as? [[String: Any]])?.first }
                #expect(changes.map { ($0["new"] as? [String: Any])?["city"] as? String } == ["x", "Ann wrote", "Bob wrote"])
                #expect(try await shop.succeed("blame", store, "customer", "1").output.contains("bob"))
            }
            // A new replica takes part with a view of its own.
            try await shop.succeed("clone", url, "shop", "third.db")
            try await shop.shell(
                "third.db",
                "BEGIN; INSERT INTO annals_context VALUES('eve', NULL); DELETE FROM invoice; DELETE FROM annals_context; COMMIT;")
            try await shop.succeed("sync", "third.db")
            try await shop.succeed("sync", "shop.db")
            let last = try #require(try await shop.succeed("history", "shop.db", "--json").objects().last)
            #expect(author(last) == "eve")
            for store in ["shop.db", "third.db"] { #expect(try await shop.succeed("verify", store).status == 0) }
        }
    }

    @Test func `authors stay where a parent's row is replaced`() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            for (name, sql) in [
                ("ann", "REPLACE INTO customer(id, name) VALUES(1, 'ann')"), ("eve", "UPDATE customer SET name = 'eve' WHERE id = 2"),
                ("bob", "REPLACE INTO customer(id, name) VALUES(1, 'bob')"),
            ] {
                try await shop.shell(
                    "shop.db", "BEGIN; INSERT INTO annals_context VALUES('\(name)', NULL); \(sql); DELETE FROM annals_context; COMMIT;")
            }
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.expectEqual("shop.db", "laptop.db")
            #expect(try await shop.succeed("history", "laptop.db", "--json").objects().map(author) == ["ann", "eve", "bob"])
        }
    }

    @Test func `a row and its parent in two transactions without foreign keys arrive together`() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await shop.shell(
                "shop.db",
                """
                BEGIN; INSERT INTO annals_context VALUES('ann', NULL); INSERT INTO invoice VALUES(9, 7, 1); DELETE FROM annals_context; COMMIT;
                BEGIN; INSERT INTO annals_context VALUES('bob', NULL); INSERT INTO customer(id, name) VALUES(7, 'Zoe');
                DELETE FROM annals_context; COMMIT;
                BEGIN; INSERT INTO annals_context VALUES('eve', NULL); UPDATE customer SET city = 'Bari' WHERE id = 7;
                DELETE FROM annals_context; COMMIT;
                """)
            try await shop.succeed("sync", "shop.db")
            try await shop.succeed("sync", "laptop.db")
            try await shop.expectEqual("shop.db", "laptop.db")
            #expect(try await shop.shell("laptop.db", "SELECT * FROM invoice WHERE id = 9") == "9|7|1.0")
            let history = try await shop.succeed("history", "shop.db", "--json").objects().suffix(2)
            #expect(history.map(author) == ["–", "eve"])
            #expect((history.first?["context"] as? String)?.hasPrefix("no authors: a row and its parent") == true)
        }
    }
}
