import Foundation
import Testing

@Suite("a relay that is restored from a backup is followed", .timeLimit(.minutes(20)))
struct RestoredRelayTests {
    /// Stops the relay, restores the backup and serves it, at the same address.
    private func restore(_ shop: Workshop, _ url: String, _ program: Program) async throws {
        program.signal(SIGTERM)
        _ = try await program.end()
        try await shop.fail(73, "add --force", "relay", "restore", "backup", "--to", "relay-data")
        let restored = try await shop.succeed("relay", "restore", "backup", "--to", "relay-data", "--force", "--json").object()
        let space = try #require((restored["spaces"] as? [[String: Any]])?.first)
        #expect(space["space"] as? String == "shop" && space["head"] as? Int == 1 && space["missing"] as? Int == 2)
        let replaced = try #require(restored["replaced"] as? String)
        #expect(FileManager.default.fileExists(atPath: replaced + "/relay.db"))
        let port = try #require(url.split(separator: ":").last)
        _ = try await shop.startRelay(data: "relay-data", listen: "127.0.0.1:\(port)")
    }

    /// Three replicas of one relay. The third was offline when the others wrote after the backup.
    private func prepare(_ shop: Workshop) async throws {
        let (url, program) = try await shop.startRelay(data: "relay-data", listen: "127.0.0.1:0")
        try await shop.makeShop()
        try await shop.succeed("track", "shop.db", "--all")
        try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop", "--name", "till")
        for name in ["laptop", "phone"] { try await shop.succeed("clone", url, "shop", "\(name).db", "--name", name) }
        try await shop.succeed("relay", "backup", "--data", "relay-data", "--output", "backup")
        try await shop.shell("shop.db", "INSERT INTO customer(name) VALUES ('Ada'); UPDATE customer SET city = 'Rome' WHERE id = 1;")
        for store in ["shop.db", "laptop.db"] { try await shop.succeed("sync", store) }
        try await shop.shell("laptop.db", "INSERT INTO invoice(customer_id, total) VALUES (3, 7);")
        for store in ["laptop.db", "shop.db"] { try await shop.succeed("sync", store) }
        try await restore(shop, url, program)
    }

    private func expectWhole(_ shop: Workshop, customers: String) async throws {
        for other in ["laptop.db", "phone.db"] { try await shop.expectEqual("shop.db", other) }
        #expect(try await shop.shell("phone.db", "SELECT group_concat(name) FROM (SELECT name FROM customer ORDER BY name);") == customers)
        let invoices = "SELECT name FROM invoice JOIN customer ON customer.id = customer_id WHERE total = 7;"
        #expect(try await shop.shell("phone.db", invoices) == "Ada")
        for store in ["shop.db", "laptop.db", "phone.db"] { try await shop.succeed("verify", store) }
    }

    @Test("one command sends again what the relay lost; nothing doubles, and work at the restored relay stays")
    func commands() async throws {
        try await Workshop.with { shop in
            try await prepare(shop)
            // It has nothing that the relay lost. Its new row has the key of a row that will come back.
            try await shop.shell("phone.db", "INSERT INTO customer(name) VALUES ('Eve');")
            try await shop.succeed("sync", "phone.db")
            try await shop.shell("shop.db", "INSERT INTO customer(name) VALUES ('Uma');")
            try await shop.fail(65, "annals sync --follow-relay", "sync", "shop.db")
            let outcome = try await shop.succeed("sync", "shop.db", "--follow-relay", "--json").object()
            #expect(outcome["followed"] as? Int == 1 && outcome["returned"] as? Int == 2)
            let line = try await shop.succeed("sync", "laptop.db", "--follow-relay")
            #expect(line.output.contains("2 transactions after position 1 sent again"), "\(line.output)")
            for store in ["phone.db", "shop.db", "laptop.db"] { try await shop.succeed("sync", store) }
            try await expectWhole(shop, customers: "Ada,Eve,Luis,Uma,Vera")
        }
    }

    @Test("an agent does it by itself where its file says so")
    func agents() async throws {
        try await Workshop.with { shop in
            try await prepare(shop)
            let text = "follow-relay: true\nstores: [shop.db, laptop.db, phone.db]\n"
            try text.write(toFile: shop.file("agent.yaml"), atomically: true, encoding: .utf8)
            let watch = try Program(Workshop.annals, ["sync", "--watch", "--config", "agent.yaml"], in: shop.path)
            try await eventually("the phone has what came back") {
                try await shop.shell("phone.db", ".timeout 20000\nSELECT count(*) FROM invoice WHERE total = 7;") == "1"
            }
            watch.signal(SIGTERM)
            #expect(try await watch.end().status == 0)
            try await shop.succeed("sync", "shop.db", "laptop.db", "phone.db")
            try await expectWhole(shop, customers: "Ada,Luis,Vera")
            try "follow-relay: maybe\nstores: [shop.db]\n".write(toFile: shop.file("agent.yaml"), atomically: true, encoding: .utf8)
            try await shop.fail(78, "line 1: expected true or false", "sync", "--config", "agent.yaml")
        }
    }
}
