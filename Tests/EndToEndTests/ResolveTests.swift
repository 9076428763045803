import Foundation
import Testing

@Suite("Conflicts that people settle", .timeLimit(.minutes(20)))
struct ResolveTests {
    private func conflicts(_ shop: Workshop, _ store: String) async throws -> [[String: Any]] {
        try await shop.succeed("conflicts", store, "--json").objects()
    }

    private func renumbered(_ shop: Workshop, _ store: String) async throws -> [[String: Any]] {
        try await shop.succeed("conflicts", store, "--kind", "renumber", "--json").objects()
    }

    /// Both replicas write; the shop's work is ordered first.
    private func conflict(_ shop: Workshop, shop first: String, laptop second: String) async throws {
        try await shop.shell("shop.db", first)
        try await shop.shell("laptop.db", second)
        try await shop.succeed("sync", "shop.db", "laptop.db")
    }

    private func cityConflict(_ shop: Workshop) async throws {
        try await conflict(
            shop, shop: "UPDATE customer SET city = 'Rome' WHERE id = 1;", laptop: "UPDATE customer SET city = 'Oslo' WHERE id = 1;")
    }

    private func city(_ shop: Workshop) async throws -> String {
        try await shop.shell("shop.db", "SELECT city FROM customer WHERE id = 1;")
    }

    private func transactions(_ shop: Workshop) async throws -> Int? {
        try await shop.succeed("status", "shop.db", "--json").object()["transactions"] as? Int
    }

    @Test("a row that was changed since gets what is taken, the winner's values too")
    func changedSince() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await cityConflict(shop)
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Bonn' WHERE id = 1;")
            // The change since is printed, because it is overwritten.
            #expect(
                try await shop.succeed("resolve", "shop.db", "1", "--take", "incoming").lines == [
                    "conflict 1 is resolved; the next sync carries it to the other replicas",
                    "  ~ customer id = 1: city 'Bonn' → 'Oslo'",
                ])
            #expect(try await city(shop) == "Oslo")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.expectEqual("shop.db", "laptop.db")
        }
    }

    @Test("only what a list prints or counts is marked as printed, and digests of several files are one list")
    func marked() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            let insert = "INSERT INTO customer(name, city) VALUES ('New', 'Ulm');"
            try await conflict(shop, shop: insert, laptop: insert)
            try await cityConflict(shop)
            func unseen() async throws -> String {
                try await shop.shell("laptop.db", "SELECT group_concat(id) FROM annals_conflicts WHERE seen = 0;")
            }
            let (renumbered, update) = try await (renumbered(shop, "laptop.db"), conflicts(shop, "shop.db"))
            #expect(renumbered.count == 1 && update.count == 1)
            try await shop.shell("laptop.db", "UPDATE annals_conflicts SET seen = 0;")
            try await shop.succeed("conflicts", "laptop.db", "--kind", "check")
            #expect(try await unseen() == "1,2")
            try await shop.succeed("conflicts", "laptop.db", "--kind", "update")
            #expect(try await unseen() == "1")
            try await shop.succeed("conflicts", "laptop.db")
            #expect(try await unseen() == "")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            let digests = try await shop.succeed("digest", "shop.db", "laptop.db").lines
            #expect(digests.count == 2 && Set(digests.map { $0.prefix(64) }).count == 1)
        }
    }

    @Test("a conflict that is settled again: nothing where the row holds that already, else what was asked")
    func again() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await cityConflict(shop)
            let agreed = try await shop.succeed("resolve", "shop.db", "1", "--take", "incoming").output
            #expect(agreed == "conflict 1 is resolved; the row had these values already\n")
            let twice = "conflict 1 was resolved before, here or on another replica. Nothing was changed. --again decides it once more"
            try await shop.fail(64, twice, "resolve", "shop.db", "1", "--take", "stored")
            #expect(try await city(shop) == "Oslo")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.fail(64, twice, "resolve", "laptop.db", "1", "--set", "city=Bonn")
            try await shop.succeed("resolve", "shop.db", "1", "--take", "stored", "--again")
            #expect(try await city(shop) == "Rome")
            let before = try await transactions(shop)
            let again = try await shop.succeed("resolve", "shop.db", "1", "--take", "stored").output
            #expect(again == "conflict 1 was resolved before, and the row has these values; nothing was changed. --again moves the mark\n")
            #expect(try await transactions(shop) == before)
            try await shop.succeed("resolve", "shop.db", "1", "--set", "city=Paris", "--again")
            #expect(try await city(shop) == "Paris")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.expectEqual("shop.db", "laptop.db")
        }
    }

    @Test("values of one's own leave the row's other columns alone")
    func onlyWhatIsSet() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await shop.succeed("policy", "shop.db", "set", "customer", "rollback")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await conflict(
                shop, shop: "UPDATE customer SET city = 'Rome', name = 'V' WHERE id = 1;",
                laptop: "UPDATE customer SET city = 'Oslo', name = 'W' WHERE id = 1;")
            let id = try #require(try await conflicts(shop, "shop.db").first?["id"] as? Int)
            try await shop.succeed("resolve", "shop.db", "\(id)", "--set", "email=w@example.org")
            #expect(try await shop.shell("shop.db", "SELECT * FROM customer WHERE id = 1;") == "1|V|w@example.org|Rome")
        }
    }

    @Test("a number taken twice can be agreed with, and is never given to two rows")
    func renumbered() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await conflict(
                shop, shop: "INSERT INTO customer (id, name) VALUES (3, 'Ann');",
                laptop: "INSERT INTO customer (id, name) VALUES (3, 'Bo');")
            #expect(try await renumbered(shop, "shop.db").map { $0["kind"] as? String } == ["renumber"])
            // Both rows exist, so this is no conflict.
            let list = try await shop.succeed("conflicts", "shop.db")
            #expect(list.output == "no conflicts\n")
            #expect(list.errors.contains("1 row got another number: annals conflicts shop.db --kind renumber"), "\(list)")
            let status = try await shop.succeed("status", "shop.db").lines
            #expect(status.contains { $0.hasPrefix("conflicts") && $0.hasSuffix("none") }, "\(status)")
            #expect(status.contains { $0.hasSuffix("1 row got another number") }, "\(status)")
            let counts = try await shop.succeed("status", "shop.db", "--json").object()
            #expect(counts["conflicts"] as? Int == 0 && counts["renumbered"] as? Int == 1)
            let rows = try await shop.shell("shop.db", "SELECT id, name FROM customer;")
            try await shop.fail(64, "id = 3 of customer belongs to another row", "resolve", "shop.db", "1", "--take", "stored")
            #expect(try await shop.shell("shop.db", "SELECT id, name FROM customer;") == rows)
            try await shop.succeed("resolve", "shop.db", "1", "--set", "city=Bonn")
            #expect(try await shop.shell("shop.db", "SELECT name, city FROM customer WHERE id > 2;") == "Ann|\nBo|Bonn")
            try await shop.succeed("resolve", "shop.db", "1", "--take", "incoming")
            #expect(try await renumbered(shop, "shop.db").map { $0["resolved"] as? Bool } == [true])
        }
    }

    @Test("what a renumbered row lost goes to that row, and not to whom has its old number")
    func lossOfTheRenumbered() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await shop.shell("laptop.db", "INSERT INTO customer (id, name) VALUES (3, 'Bo');")
            try await shop.succeed("history", "laptop.db")
            try await conflict(
                shop, shop: "INSERT INTO customer (id, name, email) VALUES (3, 'Ann', 'x@example.org');",
                laptop: "UPDATE customer SET email = 'x@example.org' WHERE id = 3;")
            let lost = try #require(try await conflicts(shop, "shop.db").first { $0["kind"] as? String == "unique" })
            // Both name the row that has the value.
            #expect(lost["holder"] as? [String: Int] == ["id": 3])
            #expect(try await shop.succeed("conflicts", "shop.db").output.contains("holder   id = 3 has email = 'x@example.org' now"))
            try await shop.shell("shop.db", "UPDATE customer SET email = NULL WHERE name = 'Ann';")
            try await shop.succeed("resolve", "shop.db", "\(try #require(lost["id"] as? Int))", "--take", "incoming")
            #expect(try await shop.shell("shop.db", "SELECT name, email FROM customer WHERE id > 2;") == "Ann|\nBo|x@example.org")
        }
    }

    @Test("a row whose parent was set aside too does not get another parent")
    func parentSetAside() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await conflict(
                shop, shop: "INSERT INTO customer (id, name, email) VALUES (3, 'Ann', 'x@example.org'), (4, 'Bo', 'y@example.org');",
                laptop: "INSERT INTO customer (id, name, email) VALUES (3, 'Cy', 'y@example.org'); INSERT INTO invoice VALUES (3, 3, 9);")
            let lost = try #require(try await conflicts(shop, "shop.db").first { $0["kind"] as? String == "foreignKey" })
            let id = "\(try #require(lost["id"] as? Int))"
            try await shop.fail(
                65, "the row id = 3 of customer, to which the row of conflict \(id) refers, was set aside too", "resolve", "shop.db", id,
                "--take",
                "incoming")
            #expect(try await shop.shell("shop.db", "SELECT count(*) FROM invoice WHERE id > 2;") == "0")
            try await shop.succeed("resolve", "shop.db", id, "--take", "incoming", "--set", "customer_id=4")
            #expect(
                try await shop.shell(
                    "shop.db", "SELECT name, total FROM invoice AS i JOIN customer AS c ON c.id = customer_id WHERE i.id = 3;")
                    == "Bo|9.0")
        }
    }

    @Test("a constraint in the way is told with table, key and constraint, and nothing is changed")
    func refused() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await shop.shell("shop.db", "INSERT INTO customer (id, name) VALUES (3, 'Ann');")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await shop.shell("laptop.db", "DELETE FROM customer WHERE id = 3;")
            try await shop.succeed("history", "laptop.db")
            try await conflict(shop, shop: "UPDATE customer SET city = 'Rome' WHERE id = 3;", laptop: "SELECT 1;")
            #expect(try await conflicts(shop, "shop.db").map { $0["winner"] as? String } == ["stored"])
            try await shop.shell("shop.db", "INSERT INTO invoice (customer_id, total) VALUES (3, 1);")
            let before = try await shop.succeed("digest", "shop.db").output
            try await shop.fail(
                65, "the row id = 3 of customer cannot be deleted: rows of invoice refer to it by FOREIGN KEY (customer_id)",
                "resolve", "shop.db", "1", "--take", "incoming")
            try await shop.fail(
                65, "the row id = 3 of customer cannot have these values: UNIQUE constraint failed: customer.email",
                "resolve", "shop.db", "1", "--set", "email=luis@example.org")
            try await shop.fail(
                65, "the row id = 3 of customer cannot have these values: NOT NULL constraint failed: customer.name",
                "resolve", "shop.db", "1", "--set", "name=NULL")
            #expect(try await shop.succeed("digest", "shop.db").output == before)
            #expect(try await conflicts(shop, "shop.db").map { $0["resolved"] as? Bool } == [false])
        }
    }

    @Test("unresolved are those that wait for a person, and no others")
    func waiting() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            func waiting(_ store: String) async throws -> [Int?] {
                [
                    try await shop.succeed("status", store, "--json").object()["unresolvedConflicts"] as? Int,
                    try await shop.succeed("conflicts", store, "--unresolved", "--json").objects().count,
                ]
            }
            try await cityConflict(shop)
            #expect(try await waiting("shop.db") == [0, 0])
            try await shop.succeed("policy", "shop.db", "set", "customer", "manual")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try await conflict(
                shop, shop: "UPDATE customer SET city = 'Bonn' WHERE id = 1;", laptop: "UPDATE customer SET city = 'Turin' WHERE id = 1;")
            try await shop.succeed("sync", "shop.db")
            for store in ["shop.db", "laptop.db"] {
                #expect(try await waiting(store) == [1, 1])
                #expect(try await conflicts(shop, store).map { $0["waiting"] as? Bool } == [false, true])
            }
            try await shop.succeed("resolve", "laptop.db", "2", "--take", "incoming")
            try await shop.succeed("sync", "laptop.db", "shop.db")
            for store in ["shop.db", "laptop.db"] { #expect(try await waiting(store) == [0, 0]) }
            try await shop.expectEqual("shop.db", "laptop.db")
        }
    }

    @Test("sync tells of conflicts on both sides: who settled them, and whose value lost")
    func told() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Rome' WHERE id = 1;")
            try await shop.succeed("sync", "shop.db")
            try await shop.shell("laptop.db", "UPDATE customer SET city = 'Oslo' WHERE id = 1;")
            let winner = try await shop.succeed("sync", "laptop.db", "--json").object()
            #expect(winner["conflicts"] as? Int == 1 && winner["lost"] as? Int == 0)
            let loser = try await shop.succeed("sync", "shop.db").output
            #expect(loser.contains("1 conflict (1 value of this store replaced)"))
            let quiet = try await shop.succeed("sync", "shop.db", "--json").object()
            #expect(quiet["conflicts"] as? Int == 0 && quiet["lost"] as? Int == 0)
            try await shop.succeed("sync", "laptop.db")
            // For a child without a parent, the action of its foreign key is done.
            try await shop.shell("shop.db", "INSERT INTO invoice (customer_id, total) VALUES (77, 1);")
            #expect(try await shop.succeed("sync", "shop.db", "--json").object()["conflicts"] as? Int == 1)
        }
    }
}
