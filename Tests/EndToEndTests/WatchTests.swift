import Foundation
import Testing

@Suite("sync --watch stays in touch", .timeLimit(.minutes(20)))
struct WatchTests {
    @Test("what another program commits here arrives there, in both journal modes", arguments: ["wal", "delete"])
    func bothWays(_ mode: String) async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            for file in ["shop.db", "laptop.db"] { try await shop.shell(file, "PRAGMA journal_mode = \(mode);") }
            let watches = try ["shop.db", "laptop.db"].map {
                try Program(Workshop.annals, ["sync", $0, "--watch", "--json", "--metrics", "\($0).prom"], in: shop.path)
            }
            for watch in watches { _ = try await watch.prints("\n") }
            try await shop.shell("shop.db", ".timeout 20000\nUPDATE customer SET city = 'Rome' WHERE id = 1;")
            try await eventually("the laptop has it") { try await Self.city(shop, "laptop.db", 1) == "Rome" }
            try await shop.shell("laptop.db", ".timeout 20000\nUPDATE customer SET city = 'Oslo' WHERE id = 2;")
            try await eventually("the shop has it") { try await Self.city(shop, "shop.db", 2) == "Oslo" }
            for watch in watches {
                watch.signal(SIGTERM)
                #expect(try await watch.end().status == 0)
                // The first exchange, one pushed and one pulled transaction. Its own commits cause no further lines.
                #expect(watch.output.split(separator: "\n").count == 3, "\(watch.output)")
            }
            try await shop.expectEqual("shop.db", "laptop.db")
            // One transaction in each direction.
            for file in ["shop.db", "laptop.db"] {
                let text = try String(contentsOfFile: shop.file("\(file).prom"), encoding: .utf8)
                for name in ["annals_agent_sent_seconds", "annals_agent_received_seconds"] {
                    #expect(text.contains("# TYPE \(name) histogram\n"))
                    #expect(text.contains("\(name)_count{store=\"\(file)\"} 1\n"), "\(text)")
                    #expect(text.contains("\(name)_bucket{store=\"\(file)\",le=\"+Inf\"} 1\n"))
                }
            }
        }
    }

    @Test func `a file for metrics that cannot be written ends it at once`() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            for (arguments, status) in [(["--watch", "--metrics", "none/a.prom"], 73), (["--metrics", "a.prom"], 64)] {
                let outcome = try await Program.run(Workshop.annals, ["sync", "shop.db"] + arguments, in: shop.path)
                #expect(outcome.status == Int32(status) && outcome.errors.split(separator: "\n").count <= 4, "\(outcome.errors)")
            }
        }
    }

    private static func city(_ shop: Workshop, _ file: String, _ id: Int) async throws -> String {
        try await shop.shell(file, ".timeout 20000\nSELECT city FROM customer WHERE id = \(id);")
    }

    @Test("it comes back by itself when the relay does")
    func relayAway() async throws {
        try await Workshop.with { shop in
            let (url, relay) = try await shop.startRelay(data: "relay-data", listen: "127.0.0.1:0")
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            let watch = try Program(Workshop.annals, ["sync", "shop.db", "--watch"], in: shop.path)
            _ = try await watch.prints("shop.db: ")
            relay.signal(SIGTERM)
            _ = try await relay.end()
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Rome' WHERE id = 1;")
            try await eventually("it says that the relay is away") { watch.errors.contains("retrying") }
            let port = try #require(url.split(separator: ":").last)
            _ = try await shop.startRelay(data: "relay-data", listen: "127.0.0.1:\(port)")
            _ = try await watch.prints("pushed 1 transaction")
            #expect(watch.errors.split(separator: "\n").count == 3, "in touch, away, in touch again: \(watch.errors)")
            watch.signal(SIGINT)
            #expect(try await watch.end().status == 0)
        }
    }
}
