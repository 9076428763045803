import Foundation
import Testing

@Suite("A transfer whose program was killed goes on where it broke off", .timeLimit(.minutes(20)))
struct KilledTransferTests {
    /// The state of the bytes that the killed program left.
    enum Left: CaseIterable { case asItWas, damaged, ofAnother, sealed }

    /// The options to create or to join an encrypted space.
    private static let key = ["--space-key-file", "space.key"]

    @Test("a clone's download, if what it left is part of what the relay has; else it begins anew", arguments: Left.allCases)
    func down(_ left: Left) async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            let size = try await shop.makeLargeShop()
            try await shop.succeed("track", "shop.db", "--all")
            let key = left == .sealed ? Self.key : []
            if left == .sealed { try await shop.succeed("key", "new", "--output", "space.key") }
            try await succeed(shop, ["join", "shop.db", "--relay", url, "--space", "shop"] + key)
            try await kill(shop, ["clone", "URL", "shop", "clone.db"] + key, url, "down") { try shop.partialBytes() > 11 << 20 }
            let part = try #require(try shop.partialFiles().first)
            switch left {
            case .asItWas, .sealed: break
            case .damaged:
                let file = try #require(FileHandle(forWritingAtPath: part))
                try file.seek(toOffset: 5 << 20)
                try file.write(contentsOf: Data("damage".utf8))
                try file.close()
            case .ofAnother: try Data("\"another\"".utf8).write(to: URL(fileURLWithPath: part + ".tag"))
            }
            let proxy = try await CuttingProxy.start(to: url, "down", after: 0, times: 0, in: shop.path)
            try await succeed(shop, ["clone", proxy.url, "shop", "clone.db"] + key)
            let bytes = try await proxy.end().bytes
            switch left {
            case .asItWas, .sealed: #expect(bytes < size - (11 << 20) + (2 << 20), "\(bytes) bytes")
            case .damaged: #expect(bytes < 2 * size - (11 << 20) + (2 << 20), "\(bytes) bytes")
            case .ofAnother: #expect(bytes > size && bytes < size + (2 << 20), "\(bytes) bytes")
            }
            try await shop.expectEqual("shop.db", "clone.db")
            #expect(try shop.names().filter { $0.hasPrefix(".annals-") }.isEmpty)
        }
    }

    @Test("the upload of a join that makes a space, though a program wrote meanwhile", arguments: [false, true])
    func up(isSealed: Bool) async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            let size = try await shop.makeLargeShop()
            try await shop.succeed("track", "shop.db", "--all")
            let key = isSealed ? Self.key : []
            if isSealed { try await shop.succeed("key", "new", "--output", "space.key") }
            try await kill(shop, ["join", "shop.db", "--relay", "URL", "--space", "shop"] + key, url, "up") { true }
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Bern' WHERE id = 1;")
            let proxy = try await CuttingProxy.start(to: url, "up", after: 0, times: 0, in: shop.path)
            try await succeed(shop, ["join", "shop.db", "--relay", proxy.url, "--space", "shop"] + key)
            // Parts of four megabytes. The relay had two or three of them.
            let bytes = try await proxy.end().bytes
            #expect(bytes < size - (8 << 20) + (2 << 20), "\(bytes) bytes")
            try await shop.shell("shop.db", "UPDATE annals_meta SET value = '\(url)' WHERE name = 'relay';")
            try await shop.succeed("sync", "shop.db")
            try await succeed(shop, ["clone", url, "shop", "clone.db"] + key)
            try await shop.expectEqual("shop.db", "clone.db")
            #expect(try await shop.shell("clone.db", "SELECT city FROM customer WHERE id = 1;") == "Bern")
            #expect(try shop.names().filter { $0.hasPrefix(".annals-") }.isEmpty)
        }
    }

    @Test("a relay that goes away keeps what has come, and says so")
    func relayGone() async throws {
        try await Workshop.with { shop in
            let (url, relay) = try await shop.startRelay(data: "relay-data", listen: "127.0.0.1:0")
            let size = try await shop.makeLargeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            let proxy = try await CuttingProxy.start(to: url, "down", after: 12 << 20, times: 1, stalls: true, in: shop.path)
            let clone = try Program(Workshop.annals, ["clone", proxy.url, "shop", "clone.db"], in: shop.path)
            try await proxy.stalls()
            relay.signal(SIGTERM)
            _ = try await relay.end()
            _ = try await proxy.end()
            shop.expectFailure(try await clone.end(), 69, "Run the command again to resume")
            let (again, _) = try await shop.startRelay(data: "relay-data", listen: "127.0.0.1:0")
            let counting = try await CuttingProxy.start(to: again, "down", after: 0, times: 0, in: shop.path)
            try await shop.succeed("clone", counting.url, "shop", "clone.db")
            let bytes = try await counting.end().bytes
            #expect(bytes < size - (11 << 20) + (2 << 20), "\(bytes) bytes")
            #expect(try shop.names().filter { $0.hasPrefix(".annals-") }.isEmpty)
        }
    }

    private func succeed(_ shop: Workshop, _ arguments: [String]) async throws {
        let outcome = try await Program.run(Workshop.annals, arguments, in: shop.path)
        try #require(outcome.status == 0, "\(arguments): \(outcome.errors)")
    }

    /// Runs a command over a network that stalls after twelve megabytes. Then kills it.
    private func kill(
        _ shop: Workshop, _ arguments: [String], _ url: String, _ way: String, when condition: () throws -> Bool
    ) async throws {
        let proxy = try await CuttingProxy.start(to: url, way, after: 12 << 20, times: 1, stalls: true, in: shop.path)
        let program = try Program(Workshop.annals, arguments.map { $0 == "URL" ? proxy.url : $0 }, in: shop.path)
        try await proxy.stalls()
        try await eventually("what was passed on is there", condition)
        program.signal(SIGKILL)
        _ = try await program.end()
        _ = try await proxy.end()
    }
}
