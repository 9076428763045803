import Foundation
import Testing

@Suite("Purging from the command line", .timeLimit(.minutes(20)))
struct PurgeTests {
    private func shop(_ shop: Workshop) async throws {
        try await shop.shell("shop.db", "CREATE TABLE item (id INTEGER PRIMARY KEY, n INT);")
        try await shop.succeed("track", "shop.db", "--all")
        for number in 1...6 {
            try await shop.shell("shop.db", "INSERT INTO item VALUES (\(number), 0);")
            try await shop.succeed("status", "shop.db")
        }
    }

    @Test("says what would go, what went, and who needs the rest")
    func purge() async throws {
        try await Workshop.with { shop in
            try await self.shop(shop)
            try await shop.succeed("consumers", "shop.db", "--register", "report", "--from", "4", "--lease", "14d")
            let dry = try await shop.succeed("purge", "shop.db", "--before", "3", "--dry-run").output
            #expect(dry.hasPrefix("shop.db: would drop 2 transactions with 2 changes, about "))
            let result = try await shop.succeed("purge", "shop.db", "--before", "latest", "--vacuum", "--json").object()
            #expect(result["transactions"] as? Int == 4)
            #expect(result["heldBackBy"] as? [String] == ["report"])
            let lines = try await shop.succeed("consumers", "shop.db").lines
            #expect(lines.last?.contains(/2w +live/) ?? false, "\(lines)")
            try await shop.fail(65, "The oldest token is 4-", "history", "shop.db", "--after", "2")
            try await shop.fail(65, "The oldest token is 4-", "replay", "shop.db", "--to", "2", "--output", "old.db")
            #expect(try await shop.succeed("history", "shop.db", "--consumer", "report", "--json").objects().count == 2)
            let forced = try await shop.succeed("purge", "shop.db", "--before", "latest", "--force").output
            #expect(forced.contains("must start over: report"))
            try await shop.fail(
                65, "history that the consumer report had not read was purged", "history", "shop.db", "--consumer", "report")
            #expect(try await shop.succeed("verify", "shop.db").output == "shop.db: no problems found\n")
            try await shop.fail(66, "no consumer named nobody", "consumers", "shop.db", "--remove", "nobody")
        }
    }

    @Test(
        "refuses what cannot be meant",
        arguments: [
            ["--before", "3", "--keep", "1d"], ["--keep", "all"], ["--remember"], ["--keep", "soon"], ["--share", "120%"],
            ["--keep", "1d", "--dry-run", "--vacuum"], ["--before", "yesterday"],
        ])
    func usage(_ arguments: [String]) async throws {
        try await Workshop.with { shop in
            try await self.shop(shop)
            let outcome = try await Program.run(Workshop.annals, ["purge", "shop.db"] + arguments, in: shop.path)
            #expect(outcome.status == 64)
            #expect(try await shop.succeed("status", "shop.db", "--json").object()["transactions"] as? Int == 6)
        }
    }

    @Test("a store remembers its rule")
    func remember() async throws {
        try await Workshop.with { shop in
            try await self.shop(shop)
            #expect(try await shop.succeed("status", "shop.db").output.contains("all of it; history takes "))
            let first = try await shop.succeed("purge", "shop.db", "--keep", "5m", "--remember")
            #expect(first.lines[0] == "the store's rule is now to keep 5m; it replaces the default, to keep all of it")
            let second = try await shop.succeed("purge", "shop.db", "--keep", "90d", "--share", "20%", "--remember")
            let both = "all of the last 90d, and older history up to 20 % of the file"
            #expect(second.lines[0] == "the store's rule is now to keep \(both); it replaces the rule to keep 5m")
            let third = try await shop.succeed("purge", "shop.db", "--keep", "1d", "--remember", "--json").object()
            #expect(third["rule"] as? String == "1d" && third["replacedRule"] as? String == both)
            let same = try await shop.succeed("purge", "shop.db", "--keep", "1d", "--remember")
            #expect(same.lines[0] == "the store's rule is to keep 1d, as before")
            let other = try await shop.succeed("purge", "shop.db", "--json").object()
            #expect(other["rule"] is NSNull && other["replacedRule"] is NSNull)
            let once = "the options applied only to this purge; the store's rule is still to keep 1d, and --remember replaces it"
            #expect(try await shop.succeed("purge", "shop.db", "--keep", "9d").lines.last == once)
            #expect(try await !shop.succeed("purge", "shop.db").lines.contains(once))
            try await shop.succeed("purge", "shop.db", "--keep", "90d", "--share", "20%", "--remember")
            #expect(try await shop.succeed("status", "shop.db", "--json").object()["retention"] as? String == both)
            try await shop.succeed("purge", "shop.db", "--keep", "all", "--remember")
            #expect(try await shop.succeed("status", "shop.db", "--json").object()["retention"] as? String == "all of it")
        }
    }
}
