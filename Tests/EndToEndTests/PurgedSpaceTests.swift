import Foundation
import Testing

@Suite("A space whose log is purged, and transfers that break", .timeLimit(.minutes(20)))
struct PurgedSpaceTests {
    @Test("a replica that was away for too long resyncs with one sync, and the space is replayed without a store")
    func away() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay("--no-auth", "--snapshot-after-positions", "3")
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop", "--name", "till")
            try await shop.succeed("clone", url, "shop", "laptop.db", "--name", "laptop")
            try await shop.succeed("sync", "laptop.db")
            try await shop.shell(
                "laptop.db", "UPDATE customer SET city = 'Oslo' WHERE id = 1; INSERT INTO invoice(customer_id, total) VALUES (2, 7);")
            for number in 1...3 {
                try await shop.shell("shop.db", "INSERT INTO invoice(customer_id, total) VALUES (1, \(number));")
                let outcome = try await shop.succeed("sync", "shop.db")
                #expect(outcome.output.contains("sent the relay a snapshot at position 4") == (number == 3), "\(outcome.output)")
            }
            // The relay stores the acknowledgements of replicas when it stops, at the latest.
            try await shop.fail(66, "there is no space other", "relay", "purge", "--data", "relay-data", "--space", "other")
            let rehearsal = try await shop.succeed(
                "relay", "purge", "--data", "relay-data", "--space", "shop", "--force", "--dry-run", "--json"
            ).object()
            #expect(rehearsal["horizon"] as? Int == 4 && rehearsal["dryRun"] as? Bool == true)
            let kept = try await shop.succeed("relay", "purge", "--data", "relay-data", "--space", "shop")
            #expect(kept.output.contains("nothing was dropped"), "\(kept.output)")
            let purged = try await shop.succeed("relay", "purge", "--data", "relay-data", "--space", "shop", "--force")
            #expect(purged.output.contains("begins after position 4"), "\(purged.output)")

            let summary = try await shop.succeed("sync", "laptop.db", "--json").object()
            #expect(summary["cameBack"] as? Int == 4 && summary["outbox"] as? Int == 0, "\(summary)")
            try await shop.succeed("sync", "shop.db")
            try await shop.expectEqual("shop.db", "laptop.db")
            #expect(try await shop.shell("shop.db", "SELECT city FROM customer WHERE id = 1;") == "Oslo")
            #expect(try await shop.shell("shop.db", "SELECT count(*) FROM invoice;") == "6")

            try await shop.succeed("replay", "--relay", url, "--space", "shop", "--to", "4", "--output", "then.db")
            #expect(
                try await shop.shell(
                    "then.db", "SELECT count(*) FROM invoice; SELECT count(*) FROM sqlite_master WHERE name LIKE 'annals%';") == "5\n0")
            try await shop.fail(
                65, "Choose a position from 4 to", "replay", "--relay", url, "--space", "shop", "--to", "3", "--output", "gone.db")
            try await shop.fail(64, "--relay needs --space", "replay", "--relay", url, "--to", "3", "--output", "gone.db")
            #expect(!shop.exists("gone.db"))
            // A replica is listed only after the relay has stored it. Retiring an unknown replica is an error.
            try await shop.fail(66, "has no replica nobody", "relay", "retire", "nobody", "--data", "relay-data", "--space", "shop")
        }
    }

    @Test("a snapshot goes up through a network that breaks, and only the part under way is sent again")
    func up() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            let size = try await shop.makeLargeShop()
            let proxy = try await CuttingProxy.start(to: url, "up", after: 6 << 20, times: 3, in: shop.path)
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", proxy.url, "--space", "shop")
            let (bytes, cuts) = try await proxy.end()
            #expect(cuts == 3)
            #expect(bytes < size + 4 * (5 << 20), "\(bytes) bytes for \(size)")
            try await shop.succeed("clone", url, "shop", "clone.db")
            let digests = try await [shop.succeed("digest", "clone.db", "--json"), shop.succeed("digest", "shop.db", "--json")]
            #expect(try digests[0].object()["digest"] as? String == digests[1].object()["digest"] as? String)
        }
    }

    @Test("a snapshot comes down through a network that breaks, and goes on where it broke off")
    func down() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            let size = try await shop.makeLargeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            let proxy = try await CuttingProxy.start(to: url, "down", after: 6 << 20, times: 2, in: shop.path)
            try await shop.succeed("clone", proxy.url, "shop", "clone.db")
            let (bytes, cuts) = try await proxy.end()
            #expect(cuts == 2)
            #expect(bytes < size + (2 << 20), "\(bytes) bytes for \(size)")
            let digests = try await [shop.succeed("digest", "clone.db", "--json"), shop.succeed("digest", "shop.db", "--json")]
            #expect(try digests[0].object()["digest"] as? String == digests[1].object()["digest"] as? String)
        }
    }
}
