import Foundation
import Testing

@Suite("What a user can do, with other programs writing all the while", .timeLimit(.minutes(20)))
struct WholeStoryTests {
    @Test("track, serve, join, clone, edit elsewhere, sync, history, replay")
    func wholeStory() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            let tracked = try await shop.succeed("track", "shop.db", "--all")
            #expect(tracked.output.contains("customer  tracked"))
            let url = try await shop.relay()
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            try await shop.succeed("clone", url, "shop", "laptop.db")

            let before = try await shop.succeed("status", "shop.db", "--json").object()["latestToken"] as? String
            try await shop.shell("laptop.db", "UPDATE customer SET city = 'Nice' WHERE id = 1;")
            try await shop.shell("shop.db", "INSERT INTO customer (name, email) VALUES ('Mina', 'mina@example.org');")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.expectEqual("shop.db", "laptop.db")
            #expect(try await shop.shell("shop.db", "SELECT city FROM customer WHERE id = 1;") == "Nice")
            #expect(try await shop.shell("laptop.db", "SELECT count(*) FROM customer;") == "3")

            let history = try await shop.succeed("history", "shop.db", "--values")
            #expect(history.output.contains("city 'Lyon' → 'Nice'"))
            try await shop.succeed("replay", "shop.db", "--to", try #require(before), "--output", "yesterday.db")
            #expect(
                try await shop.shell("yesterday.db", "SELECT city FROM customer WHERE id = 1; SELECT count(*) FROM customer;") == "Lyon\n2")
            #expect(try await shop.shell("yesterday.db", "SELECT count(*) FROM sqlite_master WHERE name LIKE 'annals%';") == "0")
            for file in ["shop.db", "laptop.db"] { try await shop.succeed("verify", file) }

            // Two stores of one machine have different names.
            let names = try await shop.succeed("relay", "replicas", "--data", "relay-data", "--space", "shop", "--json").objects()
                .compactMap { $0["name"] as? String }.sorted()
            #expect(names.count == 2 && names[0].hasSuffix("/laptop.db") && names[1].hasSuffix("/shop.db"), "\(names)")
            let imported = try await shop.succeed("history", "shop.db", "--origin", "imported", "--json").objects()
            #expect(imported.map { $0["replicaName"] as? String } == [names[0]])
            #expect(imported.map { $0["author"] is NSNull } == [true])
            // A name of a replica means its writes without an author, here and there.
            for store in ["shop.db", "laptop.db"] {
                let found = try await shop.succeed("history", store, "--author", names[0], "--json").objects()
                #expect(found.count == 1 && found[0]["time"] as? String == imported[0]["time"] as? String, "\(store): \(found)")
            }
        }
    }

    @Test("one sync of several stores leaves them equal, whatever order they are named in")
    func oneSyncIsEnough() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await shop.shell("laptop.db", "UPDATE invoice SET total = 21 WHERE id = 2;")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.expectEqual("shop.db", "laptop.db")
        }
    }

    @Test("a store with other rows joins when it is said what becomes of them")
    func joiningWithOtherRows() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            let url = try #require(try await shop.succeed("status", "shop.db", "--json").object()["relay"] as? String)
            try await shop.makeShop("till.db")
            try await shop.shell("till.db", "INSERT INTO invoice (customer_id, total) VALUES (1, 77);")
            try await shop.shell("shop.db", "INSERT INTO invoice (customer_id, total) VALUES (2, 88);")
            try await shop.succeed("sync", "shop.db")
            try await shop.succeed("track", "till.db", "--all")
            try await shop.fail(65, "--existing", "join", "till.db", "--relay", url, "--space", "shop")
            let joined = try await shop.succeed(
                "join", "till.db", "--relay", url, "--space", "shop", "--existing", "separate", "--json"
            ).object()
            #expect(joined["outcome"] as? String == "merged" && joined["differing"] as? Int == 1)
            try await shop.succeed("sync", "till.db", "shop.db", "laptop.db")
            for other in ["shop.db", "laptop.db"] { try await shop.expectEqual("till.db", other) }
            #expect(try await shop.shell("till.db", "SELECT total FROM invoice ORDER BY id;") == "9.5\n20.0\n88.0\n77.0")
            try await shop.succeed("verify", "till.db")
        }
    }

    @Test("a store with fewer tables joins when that is asked for, keeps what it lacks, and leaves with a word to the relay")
    func joiningWithFewerTables() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            let url = try #require(try await shop.succeed("status", "shop.db", "--json").object()["relay"] as? String)
            try await shop.shell("old.db", "CREATE TABLE setting (name TEXT PRIMARY KEY NOT NULL, value TEXT);")
            try await shop.shell("shop.db", "CREATE TABLE setting (name TEXT PRIMARY KEY NOT NULL, value TEXT);")
            try await shop.succeed("sync", "shop.db")
            try await shop.succeed("track", "old.db", "--all")
            try await shop.fail(65, "--schema additions", "join", "old.db", "--relay", url, "--space", "shop")
            let foreseen = try await shop.succeed(
                "join", "old.db", "--relay", url, "--space", "shop", "--schema", "additions", "--dry-run"
            ).output
            #expect(foreseen.contains("the store does not have customer, invoice of the space"), "\(foreseen)")
            let joined = try await shop.succeed(
                "join", "old.db", "--relay", url, "--space", "shop", "--schema", "additions", "--json"
            ).object()
            #expect(joined["lacking"] as? [String] == ["customer", "invoice"])
            try await shop.shell("old.db", "INSERT INTO setting VALUES ('colour', 'red');")
            try await shop.succeed("sync", "old.db", "shop.db")
            #expect(try await shop.shell("shop.db", "SELECT value FROM setting;") == "red")
            try await shop.fail(65, "does not have customer, invoice", "leave", "old.db")
            let left = try await shop.succeed("leave", "old.db", "--force", "--json").object()
            #expect(left["relayInformed"] as? Bool == true)
        }
    }

    @Test("two stores that a tool migrated leave with unsent work, and meet in another space with both new rows")
    func movingWithUnsentWork() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await shop.shell("a.db", "CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT, shelf TEXT);")
            try await shop.shell("a.db", "INSERT INTO book VALUES (1, 'Emma', 'A'), (2, 'Dune', 'A');")
            try await shop.succeed("track", "a.db", "--all")
            try await shop.succeed("join", "a.db", "--relay", url, "--space", "old")
            try await shop.succeed("clone", url, "old", "b.db")
            try await shop.shell("a.db", "INSERT INTO book VALUES (3, 'From A', 'A');")
            try await shop.shell("b.db", "INSERT INTO book VALUES (3, 'From B', 'B'); UPDATE book SET title = 'Emma!' WHERE id = 1;")
            try await shop.shell("b.db", "DELETE FROM book WHERE id = 2;")
            for file in ["a.db", "b.db"] {
                try await shop.shell(
                    file,
                    """
                    BEGIN; CREATE TABLE new__book (id INTEGER PRIMARY KEY, title TEXT COLLATE NOCASE);
                    INSERT INTO new__book SELECT id, title FROM book; DROP TABLE book; ALTER TABLE new__book RENAME TO book; COMMIT;
                    """)
                try await shop.fail(65, "the column title", "sync", file)
                try await shop.fail(65, "annals join --existing same-key", "leave", file)
                let left = try await shop.succeed("leave", file, "--force").output
                #expect(left.contains("not sent: 1 transaction (annals join --existing same-key"), "\(left)")
                if file == "a.db" { try await shop.succeed("join", file, "--relay", url, "--space", "new") }
            }
            try await shop.fail(65, "--existing same-key", "join", "b.db", "--relay", url, "--space", "new")
            try await shop.succeed("join", "b.db", "--relay", url, "--space", "new", "--existing", "same-key")
            try await shop.succeed("sync", "b.db", "a.db")
            try await shop.expectEqual("a.db", "b.db")
            #expect(try await shop.shell("a.db", "SELECT title FROM book ORDER BY title;") == "Emma!\nFrom A\nFrom B")
            for file in ["a.db", "b.db"] { try await shop.succeed("verify", file) }
        }
    }

    @Test("a copy of a replica's rows joins the space and nothing is doubled")
    func joiningACopy() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await shop.makeShop("shop.db")
            try await shop.makeShop("copy.db")
            for file in ["shop.db", "copy.db"] { try await shop.succeed("track", file, "--all") }
            let foreseen = try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop", "--dry-run", "--json").object()
            #expect(foreseen["exists"] as? Bool == false)
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            let joined = try await shop.succeed("join", "copy.db", "--relay", url, "--space", "shop", "--json").object()
            #expect(joined["outcome"] as? String == "recognised")
            try await shop.shell("copy.db", "INSERT INTO invoice (customer_id, total) VALUES (1, 1);")
            try await shop.succeed("sync", "copy.db", "shop.db")
            try await shop.expectEqual("shop.db", "copy.db")
            #expect(try await shop.shell("shop.db", "SELECT count(*) FROM customer; SELECT count(*) FROM invoice;") == "2\n3")
        }
    }

    @Test("leave and untrack leave the file as it was before")
    func leavingNoTrace() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await shop.makeShop("never-tracked.db")
            try await shop.succeed("leave", "laptop.db")
            try await shop.succeed("untrack", "laptop.db")
            let all = "SELECT type, name, tbl_name, sql FROM sqlite_master; SELECT * FROM customer; SELECT * FROM invoice;"
            let dumps = try await [shop.shell("laptop.db", all), shop.shell("never-tracked.db", all)]
            #expect(dumps[0] == dumps[1])
        }
    }

    @Test("push-only sends and takes nothing, pull-only takes and sends nothing")
    func oneWay() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await shop.shell("shop.db", "UPDATE customer SET city = 'here' WHERE id = 1;")
            try await shop.shell("laptop.db", "UPDATE customer SET city = 'there' WHERE id = 2;")
            try await shop.succeed("sync", "laptop.db", "--push-only")
            #expect(try await shop.shell("laptop.db", "SELECT city FROM customer WHERE id = 1;") == "Lyon")
            try await shop.succeed("sync", "shop.db", "--pull-only")
            #expect(try await shop.shell("shop.db", "SELECT city FROM customer ORDER BY id;") == "here\nthere")
            #expect(try await shop.succeed("status", "shop.db", "--json").object()["outbox"] as? Int == 1)
        }
    }

    @Test("a relay with tokens serves those who show one")
    func tokens() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            let url = try await shop.startRelay(data: "relay-data", listen: "127.0.0.1:0", []).url
            try await shop.fail(77, "--credential-file", "join", "shop.db", "--relay", url, "--space", "shop")
            let token = try await shop.succeed("relay", "token", "create", "--data", "relay-data", "--space", "shop").lines[0]
            try Data((token + "\n").utf8).write(to: URL(fileURLWithPath: shop.file("token")))
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop", "--credential-file", "token")
            try await shop.succeed("sync", "shop.db")
            let clone = try await shop.annals("clone", url, "shop", "laptop.db", environment: ["ANNALS_CREDENTIAL": token])
            #expect(clone.status == 0)
            #expect(try await shop.annals("sync", "laptop.db", environment: ["ANNALS_CREDENTIAL": token]).status == 0)
            try await shop.fail(77, "--credential-file", "sync", "laptop.db", environment: ["ANNALS_CREDENTIAL": "ann_wrong"])
            try await shop.fail(77, "--credential-file", "clone", url, "other", "other.db", environment: ["ANNALS_CREDENTIAL": token])
            for name in try shop.names() where name.hasSuffix(".db") {
                #expect(try shop.bytes(name).range(of: Data(token.utf8)) == nil, "the token is in \(name)")
            }
            try await shop.succeed("relay", "token", "revoke", "1", "--data", "relay-data")
            try await eventually("the token is refused") {
                try await shop.annals("sync", "shop.db").status == 77
            }
        }
    }
}
