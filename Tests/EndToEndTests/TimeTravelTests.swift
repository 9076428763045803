import Foundation
import Testing

@Suite("diff, blame, revert and watch", .timeLimit(.minutes(20)))
struct TimeTravelTests {
    @Test func `diff prints rows for people, as JSON, and as SQL that the shell runs`() async throws {
        try await Workshop.withTrackedShop { shop in
            try await shop.write(
                "UPDATE customer SET city = 'Rome', email = 'luis@' WHERE id = 1; INSERT INTO customer (name) VALUES ('Ann');",
                "UPDATE customer SET city = 'Lyon' WHERE id = 1; DELETE FROM invoice WHERE id = 2;")
            let people = try await shop.annals("diff", "shop.db", "start", "latest")
            #expect(people.status == 1 && people.errors == "")
            #expect(
                people.lines.dropLast() == [
                    "~ customer id = 1: email 'vera@example.org' → 'luis@'", "+ customer id = 3: id 3, name 'Ann', email NULL, city NULL",
                    "- invoice id = 2: id 2, customer_id 2, total 20.0",
                ])
            #expect(people.lines.last?.hasSuffix(": 1 inserted, 1 updated, 1 deleted") == true)
            let json = try await shop.annals("diff", "shop.db", "2", "0", "--json")
            #expect(json.status == 1)
            let objects = try json.objects()
            #expect(objects.map { $0["kind"] as? String } == ["update", "delete", "insert"])
            for object in objects { #expect(Set(object.keys) == ["table", "key", "kind", "columns", "old", "new"]) }
            #expect(objects[0]["old"] as? [String: String] == ["email": "luis@"] && objects[0]["columns"] as? [String] == ["email"])
            #expect(objects[1]["new"] is NSNull && objects[2]["old"] is NSNull)

            try await shop.succeed("replay", "shop.db", "--to", "start", "--output", "old.db")
            let sql = try await shop.annals("diff", "shop.db", "start", "latest", "--sql")
            #expect(sql.status == 1)
            try await shop.shell("old.db", sql.output)
            for table in ["customer", "invoice"] {
                let rows = try await [shop.shell("old.db", "SELECT * FROM \(table);"), shop.shell("shop.db", "SELECT * FROM \(table);")]
                #expect(rows[0] == rows[1])
            }
            let same = try await shop.succeed("diff", "shop.db", "1", "1")
            #expect(same.output.hasPrefix("no row differs"))
            #expect(try await shop.succeed("diff", "shop.db", "2", "2", "--json").output == "")
            #expect(try await shop.succeed("diff", "shop.db", "2", "2", "--sql").output == "")
            try await shop.fail(64, "cannot be combined", "diff", "shop.db", "1", "2", "--sql", "--json")
            try await shop.fail(64, "nonsense is not a point of history", "diff", "shop.db", "1", "nonsense")
            try await shop.fail(65, "has no transaction 99", "diff", "shop.db", "1", "99")
        }
    }

    @Test func `diff is restricted to tables, a row and columns, and so is its exit status`() async throws {
        try await Workshop.withTrackedShop { shop in
            try await shop.write(
                "UPDATE customer SET city = 'Rome', email = 'luis@' WHERE id = 1; UPDATE invoice SET total = 1 WHERE id = 2;")
            func diff(_ status: Int32, _ filter: String...) async throws -> [String] {
                let outcome = try await Program.run(Workshop.annals, ["diff", "shop.db", "start", "latest"] + filter, in: shop.path)
                #expect(outcome.status == status && outcome.errors == "", "\(outcome.errors)")
                return outcome.lines.dropLast()
            }
            #expect(try await diff(1, "--table", "invoice") == ["~ invoice id = 2: total 20.0 → 1.0"])
            #expect(try await diff(1, "--table", "invoice", "--table", "customer").count == 2)
            #expect(
                try await diff(1, "--table", "customer", "--key", "1", "--column", "city") == ["~ customer id = 1: city 'Lyon' → 'Rome'"])
            #expect(try await diff(0, "--table", "customer", "--key", "2") == [])
            #expect(try await diff(0, "--column", "name") == [])
            let json = try await shop.annals("diff", "shop.db", "start", "latest", "--column", "email", "--json").objects()
            #expect(json.count == 1 && json[0]["columns"] as? [String] == ["email"])
            try await shop.fail(65, "the table nothing is not tracked", "diff", "shop.db", "start", "latest", "--table", "nothing")
            try await shop.fail(64, "no tracked table has a column nothing", "diff", "shop.db", "start", "latest", "--column", "nothing")
            try await shop.fail(64, "--key needs one --table", "diff", "shop.db", "start", "latest", "--key", "1")
            try await shop.fail(64, "SQL is for whole rows", "diff", "shop.db", "start", "latest", "--sql", "--column", "city")
        }
    }

    @Test func `text that looks like a number is found as a key, and a date in the future is refused`() async throws {
        try await Workshop.with { shop in
            try await shop.shell("shop.db", "CREATE TABLE book(id TEXT PRIMARY KEY, n INT); INSERT INTO book VALUES('007', 1), ('7', 2);")
            try await shop.succeed("track", "shop.db", "--all")
            for (key, number) in [("007", "1"), ("7", "2"), ("'007'", "1")] {
                #expect(try await shop.succeed("blame", "shop.db", "book", key).lines.contains { $0.contains("n ") && $0.contains(number) })
            }
            try await shop.fail(64, "no row of book has this key", "blame", "shop.db", "book", "07")
            let future = "2999-01-01T00:00:00.000Z is in the future"
            try await shop.fail(64, future, "restore", "shop.db", "--to", "2999-01-01")
            try await shop.fail(64, future, "replay", "shop.db", "--to", "2999-01-01", "--output", "then.db")
            try await shop.fail(64, future, "diff", "shop.db", "start", "2999-01-01")
            try await shop.fail(64, future, "purge", "shop.db", "--before", "2999-01-01")
            try await shop.succeed("history", "shop.db", "--before", "2999-01-01")
        }
    }

    @Test func `blame tells who wrote each column`() async throws {
        try await Workshop.withTrackedShop { shop in
            try await shop.write("UPDATE customer SET city = 'Rome' WHERE id = 1;", "DELETE FROM invoice WHERE id = 2;")
            let lines = try await shop.succeed("blame", "shop.db", "customer", "1").lines
            #expect(lines.count == 6 && lines[0].hasPrefix("column  value"))
            #expect(lines[2].contains("before history") && lines[5].contains("Rome") && lines[5].hasSuffix("#1 external"))
            let gone = try await shop.succeed("blame", "shop.db", "invoice", "2", "--json").object()
            let end = try #require(gone["end"] as? [String: Any])
            #expect(end["kind"] as? String == "deleted" && (end["transaction"] as? [String: Any])?["number"] as? Int == 2)
            let columns = try #require(gone["columns"] as? [[String: Any]])
            #expect(columns.map { $0["column"] as? String } == ["id", "customer_id", "total"])
            for column in columns { #expect(column["writer"] as? String == "beforeHistory" && column["transaction"] is NSNull) }
            #expect(try await shop.succeed("blame", "shop.db", "invoice", "2").lines[0].contains("was deleted by #2"))
            try await shop.fail(64, "no row of customer has this key", "blame", "shop.db", "customer", "9")
            try await shop.fail(64, "the key of customer is id", "blame", "shop.db", "customer", "1", "2")
            try await shop.fail(65, "the table nothing is not tracked", "blame", "shop.db", "nothing", "1")
        }
    }

    @Test func `revert is a new transaction, and refuses to lose later work`() async throws {
        try await Workshop.withTrackedShop { shop in
            try await shop.write("UPDATE customer SET city = 'Rome';")
            let trial = try await shop.succeed("revert", "shop.db", "1", "--dry-run")
            #expect(
                trial.lines == [
                    "~ customer id = 1: city 'Rome' → 'Lyon'", "~ customer id = 2: city 'Rome' → 'Cork'",
                    "transaction 1 can be reverted: 0 inserted, 2 updated, 0 deleted",
                ])
            try await shop.write("UPDATE customer SET city = 'Bonn' WHERE id = 2;")
            try await shop.fail(
                65, "rows were changed after it: id = 2 of customer (city). Nothing was changed; revert 2 (external, 20", "revert",
                "shop.db", "1")
            #expect(try await shop.shell("shop.db", "SELECT city FROM customer;") == "Rome\nBonn")
            let forced = try await shop.succeed("revert", "shop.db", "1", "--force", "--json").object()
            #expect(forced["number"] as? Int == 3 && forced["updated"] as? Int == 2 && forced["forced"] as? Int == 1)
            #expect(forced["skipped"] as? Int == 0)
            #expect(try await shop.shell("shop.db", "SELECT city FROM customer;") == "Lyon\nCork")
            let history = try await shop.succeed("history", "shop.db", "--after", "2", "--json").objects()
            #expect(
                history.count == 1 && (history[0]["context"] as? String)?.hasPrefix("revert of 1-") == true
                    && history[0]["origin"] as? String == "local")
            #expect(try await shop.succeed("revert", "shop.db", "1").output.contains("nothing to revert"))
            try await shop.fail(65, "history has no transaction 9", "revert", "shop.db", "9")
            try await shop.succeed("verify", "shop.db")
        }
    }

    @Test func `a revert reaches the other replicas`() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await shop.shell("laptop.db", "UPDATE customer SET city = 'Rome', name = 'V' WHERE id = 1;")
            try await shop.succeed("sync", "laptop.db", "shop.db")
            try await shop.shell("laptop.db", "UPDATE customer SET name = 'W' WHERE id = 1;")
            let imported = try await shop.succeed("history", "shop.db", "--origin", "imported", "--json").objects()
            let number = try #require(imported.last?["number"] as? Int)
            try await shop.succeed("revert", "shop.db", "\(number)")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.succeed("sync", "shop.db")
            try await shop.expectEqual("shop.db", "laptop.db")
            #expect(try await shop.shell("laptop.db", "SELECT city FROM customer WHERE id = 1;") == "Lyon")
            for store in ["shop.db", "laptop.db"] { try await shop.succeed("verify", store) }
            let blame = try await shop.succeed("blame", "laptop.db", "customer", "1", "--json").object()
            let city = try #require((blame["columns"] as? [[String: Any]])?.last?["transaction"] as? [String: Any])
            let column = try #require((blame["columns"] as? [[String: Any]])?.last)
            #expect(column["time"] as? String == city["time"] as? String, "the author's time")
            let line = try #require(try await shop.succeed("blame", "laptop.db", "customer", "1").lines.last)
            let name = try #require(city["replicaName"] as? String)
            #expect(name.hasSuffix("/shop.db") && line.contains("  \(name)  revert of \(number)-") && line.contains("imported at position"))
            let received = try await shop.succeed("history", "shop.db", "--origin", "imported")
            #expect(received.lines.first?.contains("imported at position 2, from ") == true, "\(received.output)")
            #expect(received.lines.first?.contains("/laptop.db") == true, "\(received.output)")
            #expect(city["origin"] as? String == "imported" && (city["context"] as? String)?.hasPrefix("revert of \(number)-") == true)
        }
    }

    @Test("watch prints each transaction once as it commits, until Ctrl-C", arguments: ["wal", "delete"])
    func watch(mode: String) async throws {
        try await Workshop.withTrackedShop { shop in
            try await shop.shell("shop.db", "PRAGMA journal_mode = \(mode);")
            try await shop.write("UPDATE customer SET city = 'Rome' WHERE id = 1;")
            let watch = try Program(Workshop.annals, ["watch", "shop.db", "--json", "--values", "--after", "start"], in: shop.path)
            let fromNow = try Program(Workshop.annals, ["watch", "shop.db", "--after", "1"], in: shop.path)
            _ = try await watch.prints("\n")
            try await shop.shell("shop.db", ".timeout 20000\nUPDATE customer SET city = 'Bonn' WHERE id = 1;")
            _ = try await watch.prints("\"Bonn\"")
            try await shop.shell("shop.db", ".timeout 20000\nUPDATE customer SET city = 'Oslo' WHERE id = 1;")
            _ = try await watch.prints("\"Oslo\"")
            _ = try await fromNow.prints("#3")
            for program in [watch, fromNow] {
                program.signal(SIGINT)
                let end = try await program.end()
                #expect(end.status == 0 && end.errors == "")
            }
            let lines = watch.output.split(separator: "\n")
            #expect(lines.count == 3 && lines.enumerated().allSatisfy { $1.hasPrefix("{\"number\":\($0 + 1),") })
            #expect(fromNow.output.split(separator: "\n").filter { $0.hasPrefix("#") }.map { $0.prefix(2) } == ["#2", "#3"])
        }
    }
}
