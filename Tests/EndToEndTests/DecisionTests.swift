import Foundation
import Testing

@Suite("What people decide: policies and resolutions", .timeLimit(.minutes(20)))
struct DecisionTests {
    /// Both replicas change the city of one row. The shop's change is ordered first, the laptop's change is later.
    private func conflict(_ shop: Workshop, _ first: String = "Rome", _ second: String = "Oslo") async throws {
        try await shop.shell("shop.db", "UPDATE customer SET city = '\(first)' WHERE id = 1;")
        try await shop.shell("laptop.db", "UPDATE customer SET city = '\(second)' WHERE id = 1;")
        try await shop.succeed("sync", "shop.db", "laptop.db")
        try await shop.expectEqual("shop.db", "laptop.db")
    }

    private func conflicts(_ shop: Workshop, _ store: String, _ arguments: String...) async throws -> [[String: Any]] {
        if arguments.isEmpty { return try await shop.succeed("conflicts", store, "--json").objects() }
        return try await shop.succeed("conflicts", store, "--json", arguments[0]).objects()
    }

    @Test("the value that lost is taken back, on every replica")
    func takeTheLoser() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await conflict(shop)
            #expect(try await shop.shell("shop.db", "SELECT city FROM customer WHERE id = 1;") == "Oslo")
            let id = try #require(try await conflicts(shop, "shop.db").first?["id"] as? Int)
            try await shop.succeed("resolve", "shop.db", "\(id)", "--take", "stored")
            #expect(try await shop.shell("shop.db", "SELECT city FROM customer WHERE id = 1;") == "Rome")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.expectEqual("shop.db", "laptop.db")
            #expect(try await shop.shell("laptop.db", "SELECT city FROM customer WHERE id = 1;") == "Rome")
            for store in ["shop.db", "laptop.db"] {
                #expect(try await conflicts(shop, store).map { $0["resolved"] as? Bool } == [true])
                #expect(try await conflicts(shop, store).map { $0["resolution"] as? String } == ["stored"])
                // The mark moves to the side that the person took.
                let marked = try await shop.succeed("conflicts", store).lines.filter { $0.contains("✓") }
                #expect(marked.count == 1 && marked[0].contains("✓ stored   city = 'Rome'"), "\(marked)")
                #expect(try await conflicts(shop, store, "--unresolved").isEmpty)
            }
        }
    }

    @Test("a sum that a CHECK refuses says what was lost, and all stores of a sync count the same conflicts")
    func refusedSum() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await shop.shell(
                "shop.db",
                "CREATE TABLE item (id INTEGER PRIMARY KEY, stock INT CHECK (stock >= 0)); INSERT INTO item VALUES (1, 10);")
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            for name in ["laptop.db", "third.db"] { try await shop.succeed("clone", url, "shop", name) }
            try await shop.succeed("policy", "shop.db", "set", "item.stock", "sum")
            try await shop.succeed("sync", "shop.db", "laptop.db", "third.db")
            try await shop.shell("shop.db", "UPDATE item SET stock = stock - 6;")
            try await shop.shell("laptop.db", "UPDATE item SET stock = stock - 7;")
            let lines = try await shop.succeed("sync", "shop.db", "laptop.db", "third.db").lines
            #expect(lines.count == 5 && lines[0].contains(" 1 conflict, ") && lines[4].contains(" 1 conflict, "), "\(lines)")
            #expect(lines[1].contains(" 1 conflict (1 value of this store replaced), "), "\(lines)")
            #expect(
                lines[2] == "  item id = 1: the change of stock by -7 was not applied: sum gives stock = -3, which a constraint refuses",
                "\(lines)"
            )
            #expect(lines[3] == "  annals conflicts laptop.db lists both sides", "\(lines)")
            for store in ["shop.db", "laptop.db", "third.db"] {
                let report = try await shop.succeed("conflicts", store).lines
                #expect(report.first == "#1 item id = 1  check of stock, sum")
                #expect(report.contains { $0.hasPrefix("  ✓ stored   stock = 4  ") && $0.contains("shop.db") }, "\(report)")
                #expect(report.last == "    sum      stock = -3  refused by a constraint: the change of stock by -7 was not applied")
            }
            // A refused change waits for nobody, but somebody should look at it.
            let waiting = try await shop.succeed("conflicts", "shop.db", "--unresolved")
            #expect(waiting.output == "none waits, 1 settled\n")
            #expect(waiting.errors.contains("1 change of a replica was refused by a constraint: annals conflicts shop.db --kind unique"))
            #expect(try await shop.succeed("conflicts", "shop.db", "--kind", "check", "--table", "ITEM").lines.count == 5)
            #expect(try await shop.succeed("conflicts", "shop.db", "--kind", "update").output == "no conflicts\n")
            try await shop.fail(65, "the table itme is not tracked. Tracked are item", "conflicts", "shop.db", "--table", "itme")
            let status = try await shop.succeed("status", "laptop.db").lines
            #expect(status.contains { $0.hasPrefix("conflicts") && $0.hasSuffix("1 (1 refused by a constraint)") }, "\(status)")
            // A policy for whole rows would take the place of the sum.
            let rows = try await shop.succeed("policy", "third.db", "set", "item", "rollback", "--here")
            #expect(rows.errors.contains("note: item.stock sum has no effect, because item rollback settles whole rows"), "\(rows)")
            #expect(try await shop.succeed("policy", "third.db").errors.contains("item.stock sum has no effect"))
            try await shop.succeed("policy", "third.db", "set", "item", "default", "--here")
            // The value of the incoming side is from before the merge.
            try await shop.fail(64, "is a change of stock by -7, and no value", "resolve", "shop.db", "1", "--take", "incoming")
            try await shop.shell("shop.db", "UPDATE item SET stock = stock + 50;")
            // And the one of the stored side, from before the addition.
            try await shop.succeed("resolve", "laptop.db", "1", "--take", "stored")
            #expect(try await shop.shell("laptop.db", "SELECT stock FROM item") == "4")
            try await shop.succeed("sync", "shop.db", "laptop.db", "shop.db")
            #expect(try await shop.shell("shop.db", "SELECT stock FROM item") == "54")
            #expect(try await conflicts(shop, "shop.db").map { $0["resolution"] as? String } == ["stored"])
            try await shop.succeed("resolve", "shop.db", "1", "--take", "stored")
            #expect(try await shop.shell("shop.db", "SELECT stock FROM item") == "54")
            try await shop.succeed("resolve", "shop.db", "1", "--take", "incoming", "--set", "stock=47", "--again")
            #expect(try await shop.shell("shop.db", "SELECT stock FROM item") == "47")
        }
    }

    @Test("both sides of a conflict are named, and what was settled is counted if nothing waits")
    func names() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            #expect(try await shop.succeed("conflicts", "shop.db", "--unresolved").output == "no conflicts\n")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop", "--name", "till 3")
            try await shop.succeed("clone", url, "shop", "laptop.db", "--name", "laptop")
            try await conflict(shop)
            try await conflict(shop, "Bonn", "Turin")
            for store in ["shop.db", "laptop.db"] {
                for found in try await conflicts(shop, store) {
                    #expect((found["authors"] as? [String: Any])?.values.allSatisfy { $0 is NSNull } == true, "\(found)")
                    #expect(found["replicaNames"] as? [String: String] == ["stored": "till 3", "incoming": "laptop"])
                    let ids = try #require(found["replicas"] as? [String: String])
                    #expect(ids["stored"] != ids["incoming"] && ids["stored"]?.contains("till") == false)
                }
                let lines = try await shop.succeed("conflicts", store).lines
                #expect(lines.contains { $0.contains("stored   city = 'Rome'") && $0.hasSuffix("Z  on till 3") }, "\(lines)")
                #expect(lines.contains { $0.contains("incoming city = 'Oslo'") && $0.hasSuffix("Z  on laptop") }, "\(lines)")
                #expect(try await shop.succeed("conflicts", store, "--unresolved").output == "none waits, 2 settled\n")
                #expect(try await shop.succeed("conflicts", store, "--unresolved", "--json").output == "")
                try await shop.succeed("verify", store)
            }
            // A program that gives its name does not rename its replica.
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Kyiv' WHERE id = 1;")
            let named = "INSERT INTO annals_context(author) VALUES ('ann'); UPDATE customer SET city = 'Graz' WHERE id = 1;"
            try await shop.shell("laptop.db", "BEGIN; \(named) DELETE FROM annals_context; COMMIT;")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            let last = try #require(try await conflicts(shop, "shop.db").last)
            let authors = try #require(last["authors"] as? [String: Any])
            #expect(authors["stored"] is NSNull && authors["incoming"] as? String == "ann", "\(authors)")
            #expect(last["replicaNames"] as? [String: String] == ["stored": "till 3", "incoming": "laptop"])
            #expect(try await shop.succeed("conflicts", "laptop.db").lines.contains { $0.hasSuffix("Z  by ann on laptop") })
            // The author of a purged transaction is not known any more.
            try await shop.succeed("purge", "shop.db", "--before", "latest", "--force")
            let found = try #require(try await conflicts(shop, "shop.db").first)
            #expect((found["authors"] as? [String: Any])?["stored"] is NSNull)
            #expect((found["replicaNames"] as? [String: String])?["stored"] == "till 3")
            try await shop.succeed("leave", "laptop.db")
            #expect(try await shop.shell("laptop.db", "SELECT count(*) FROM annals_meta WHERE name LIKE 'named%';") != "0")
        }
    }

    @Test("the winner is confirmed, which changes no row, and a value of one's own is set")
    func confirmAndSet() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await conflict(shop)
            try await conflict(shop, "Bonn", "Turin")
            try await shop.succeed("resolve", "laptop.db", "2", "--take", "incoming")
            #expect(try await shop.shell("laptop.db", "SELECT city FROM customer WHERE id = 1;") == "Turin")
            try await shop.succeed("resolve", "laptop.db", "1", "--set", "city=Paris", "--set", "name='O''Hara'")
            try await shop.succeed("sync", "laptop.db", "shop.db")
            try await shop.expectEqual("shop.db", "laptop.db")
            #expect(try await shop.shell("shop.db", "SELECT city, name FROM customer WHERE id = 1;") == "Paris|O'Hara")
            #expect(try await conflicts(shop, "shop.db", "--unresolved").isEmpty)
        }
    }

    @Test("two people resolve one conflict while they are apart: both replicas keep the decision whose value is in the row")
    func resolvedTwice() async throws {
        for order in [["shop.db", "laptop.db"], ["laptop.db", "shop.db"]] {
            try await Workshop.with { shop in
                _ = try await shop.makeReplicas()
                try await conflict(shop)
                // This confirms the winner and changes no row. So it gives way to the other decision.
                try await shop.succeed("resolve", "shop.db", "1", "--take", "incoming")
                try await shop.succeed("resolve", "laptop.db", "1", "--set", "city=Paris")
                for store in order + order { try await shop.succeed("sync", store) }
                try await shop.expectEqual("shop.db", "laptop.db")
                #expect(try await shop.shell("shop.db", "SELECT city FROM customer WHERE id = 1;") == "Paris")
                for store in order {
                    let found = try #require(try await conflicts(shop, store).first)
                    #expect(found["resolution"] as? String == "values", "\(order)")
                }
            }
        }
    }

    @Test("a replica on which every write has an author has its name on the other replicas, too")
    func namedReplica() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            let write = "INSERT INTO annals_context(author) VALUES ('ann'); UPDATE customer SET city = 'Graz' WHERE id = 1;"
            try await shop.shell("laptop.db", "BEGIN; \(write) DELETE FROM annals_context; COMMIT;")
            try await shop.succeed("sync", "laptop.db", "shop.db")
            let line = try #require(try await shop.succeed("history", "shop.db", "--origin", "imported").lines.first)
            #expect(line.contains("imported at position 2, from ") && line.hasSuffix("/laptop.db  by ann"), "\(line)")
        }
    }

    @Test("a decision that cannot stand changes nothing")
    func refusedDecisions() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await conflict(shop)
            let before = try await shop.succeed("digest", "shop.db").output
            try await shop.fail(64, "there is no conflict 99", "resolve", "shop.db", "99", "--take", "stored")
            try await shop.fail(64, "no column nonsense", "resolve", "shop.db", "1", "--set", "nonsense=1")
            try await shop.fail(64, "give --take", "resolve", "shop.db", "1")
            try await shop.fail(65, "UNIQUE", "resolve", "shop.db", "1", "--set", "email=luis@example.org")
            #expect(try await shop.succeed("digest", "shop.db").output == before)
            #expect(try await conflicts(shop, "shop.db").map { $0["resolved"] as? Bool } == [false])
        }
    }

    @Test("a policy reaches every replica, and holds for what is settled after")
    func policyOfTheSpace() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            #expect(try await shop.succeed("policy", "shop.db").output.contains("no policy is set"))
            try await shop.succeed("policy", "shop.db", "set", "customer", "mergeByPropertyStoreTrump")
            let set = try await shop.succeed("policy", "shop.db", "set", "invoice.total", "sum")
            #expect(set.output == "invoice.total: update sum; the next sync carries it to the other replicas\n")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            let shown = try await shop.succeed("policy", "laptop.db", "show", "--json").objects()
            #expect(shown.map { $0["policy"] as? String } == ["mergeByPropertyStoreTrump", "sum"])
            try await conflict(shop)
            #expect(try await shop.shell("shop.db", "SELECT city FROM customer WHERE id = 1;") == "Rome")
            for (store, amount) in [("shop.db", "5"), ("laptop.db", "7")] {
                try await shop.shell(store, "UPDATE invoice SET total = total + \(amount) WHERE id = 2;")
            }
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.expectEqual("shop.db", "laptop.db")
            #expect(try await shop.shell("laptop.db", "SELECT total FROM invoice WHERE id = 2;") == "32.0")
            try await shop.succeed("policy", "laptop.db", "set", "customer", "default")
            #expect(try await shop.succeed("policy", "laptop.db", "--json").objects().count == 1)
        }
    }

    @Test("sum is refused for a column with texts, by its rows, and nothing is set")
    func sumOfTexts() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await shop.shell(
                "shop.db",
                "CREATE TABLE stock (id INTEGER PRIMARY KEY, pieces, size INT, label TEXT);"
                    + "INSERT INTO stock VALUES (1, 5, 1, 'a'), (2, 'many', 2, 'b'), (3, '7', NULL, 'c'), (4, X'00', 'L', 'd');")
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            try await shop.fail(64, "3 rows have a text or a blob in stock.pieces", "policy", "shop.db", "set", "stock.pieces", "sum")
            try await shop.fail(64, "1 row has a text or a blob in stock.size. Change", "policy", "shop.db", "set", "stock.size", "sum")
            try await shop.fail(64, "all its values are texts", "policy", "shop.db", "set", "stock.label", "sum")
            let file = "space: {delete: updateWins}\ntables:\n  stock:\n    columns:\n      size: sum\n"
            try Data(file.utf8).write(to: URL(fileURLWithPath: shop.file("sum.yaml")))
            try await shop.fail(64, "1 row has a text", "policy", "shop.db", "import", "sum.yaml")
            #expect(try await shop.succeed("policy", "shop.db", "--json").output == "")
            try await shop.shell("shop.db", "UPDATE stock SET size = 3 WHERE size = 'L';")
            let imported = try await shop.succeed("policy", "shop.db", "import", "sum.yaml")
            #expect(imported.output == "2 settings imported; the next sync carries them to the other replicas\n")
            let here = try await shop.succeed("policy", "shop.db", "set", "stock.label", "max", "--here")
            #expect(here.output == "stock.label: update max; only this replica follows it\n")
        }
    }

    @Test("an override settles this replica's own work only, and stays here")
    func override() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await shop.succeed("policy", "laptop.db", "set", "space", "mergeByPropertyStoreTrump", "--here")
            try await conflict(shop)
            #expect(try await shop.shell("shop.db", "SELECT city FROM customer WHERE id = 1;") == "Rome")
            #expect(try await shop.succeed("policy", "shop.db", "--json").objects().isEmpty)
        }
    }

    @Test("a file of policies is imported whole or not at all")
    func importing() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try Data(
                "space:\n  delete: updateWins\ntables:\n  customer:\n    whole: yes\n    columns:\n      city: \"sql: max(:stored, :incoming)\"\n"
                    .utf8
            )
            .write(to: URL(fileURLWithPath: shop.file("good.yaml")))
            try await shop.succeed("policy", "shop.db", "import", "good.yaml")
            let shown = try await shop.succeed("policy", "shop.db", "--json").objects()
            #expect(shown.map { $0["policy"] as? String } == ["updateWins", "yes", "sql: max(:stored, :incoming)"])
            for (text, words) in [
                ("tables:\n  customer:\n    update: frobnicate\n", "no policy frobnicate"), ("tables: 3\n", "line 1"),
                ("tables:\n  customer:\n    update: \"custom: mine\"\n", "no policy custom: mine"),
                ("a: [", "not valid YAML"),
                ("tables:\n  nobody:\n    update: sum\n", "no tracked table nobody"),
                ("space:\n  delete: manual\ntables:\n  customer:\n    columns:\n      city: \"sql: max(\"\n", "SQLite refuses sql: max("),
            ] {
                try Data(text.utf8).write(to: URL(fileURLWithPath: shop.file("bad.yaml")))
                let outcome = try await shop.annals("policy", "shop.db", "import", "bad.yaml")
                shop.expectFailure(outcome, words.contains("line") || words.contains("YAML") ? 78 : 64, words)
            }
            #expect(try await shop.succeed("policy", "shop.db", "--json").objects().count == 3)
            try await shop.fail(66, "no file", "policy", "shop.db", "import", "nowhere.yaml")
            try await shop.fail(64, "give show", "policy", "shop.db", "frobnicate")
        }
    }
}
