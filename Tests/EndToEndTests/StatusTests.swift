import Foundation
import Testing

@Suite("How a command ends says what happened", .timeLimit(.minutes(20)))
struct StatusTests {
    @Test("a relay that is ill is to be tried again")
    func ill() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            let (url, program) = try await FakeRelay.ill.start(in: shop.path)
            defer { program.endInput() }
            try await shop.fail(75, "status 500", "clone", url, "shop", "other.db")
            try await shop.shell("shop.db", "UPDATE annals_meta SET value = '\(url)' WHERE name = 'relay';")
            try await shop.fail(75, "status 500", "sync", "shop.db", "laptop.db")
        }
    }

    @Test("output that cannot be written is no success", .enabled(if: FileManager.default.fileExists(atPath: "/dev/full")))
    func fullOutput() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            for command in ["status shop.db", "--help"] {
                let outcome = try await Program.run("bash", ["-c", "'\(Workshop.annals)' \(command) > /dev/full"], in: shop.path)
                shop.expectFailure(outcome, 73, "the output cannot be written: No space left on device")
            }
        }
    }

    @Test("a full disk while a clone is made (needs a small file system to mount)", .enabled(if: SmallDisk.isThere), arguments: [64, 512])
    func fullDisk(_ kibibytes: Int) async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            // Half a megabyte, and some hundred kilobytes compressed.
            try await shop.shell("shop.db", "UPDATE customer SET name = hex(randomblob(150000));")
            let url = try await shop.relay()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            let outcome = try await SmallDisk.run(["clone", url, "shop", "clone.db"], kibibytes: kibibytes, in: shop, then: "ls -A")
            shop.expectFailure(outcome, 73, "the disk is full")
            #expect(outcome.output == "", "nothing is left behind")
        }
    }

    @Test("a full disk while a join copies its rows makes no space (needs a small file system to mount)", .enabled(if: SmallDisk.isThere))
    func fullDiskOfAJoin() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.shell("shop.db", "UPDATE customer SET name = hex(randomblob(80000));")
            let url = try await shop.relay()
            try await shop.succeed("track", "shop.db", "--all")
            let join = ["join", "shop.db", "--relay", url, "--space", "shop"]
            let outcome = try await SmallDisk.run(join, kibibytes: 560, in: shop, copying: "shop.db", then: "ls -A")
            shop.expectFailure(outcome, 73, "the disk is full")
            #expect(outcome.output == "shop.db\n", "nothing is left behind")
            #expect(try await shop.succeed("relay", "spaces", "--data", "relay-data").output == "no spaces\n")
        }
    }

    @Test("a token that may only read pulls, and says what waits")
    func readingToken() async throws {
        try await Workshop.with { shop in
            let (url, _) = try await shop.startRelay(data: "relay-data", listen: "127.0.0.1:0", [])
            func token(_ scope: String) async throws -> [String: String] {
                let created = try await shop.succeed("relay", "token", "create", "--data", "relay-data", "--scope", scope)
                return ["ANNALS_CREDENTIAL": created.lines[0]]
            }
            let (writing, reading) = (try await token("write"), try await token("read"))
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            #expect(try await shop.annals("join", "shop.db", "--relay", url, "--space", "shop", environment: writing).status == 0)
            #expect(try await shop.annals("clone", url, "shop", "laptop.db", environment: reading).status == 0)
            try await shop.shell("laptop.db", "UPDATE customer SET city = 'laptop' WHERE id = 1;")
            for city in ["one", "two"] {
                try await shop.shell("shop.db", "UPDATE customer SET city = '\(city)' WHERE id = 2;")
                #expect(try await shop.annals("sync", "shop.db", environment: writing).status == 0)
                try await shop.fail(
                    77, "1 local transaction waits; the changes of other replicas were applied", "sync", "laptop.db", environment: reading)
                let lines = try await shop.succeed("status", "laptop.db").lines
                #expect(lines.contains { $0.hasPrefix("last sync") && $0.contains("Z: ") && $0.contains("1 local transaction waits") })
                let problem = try await shop.succeed("status", "laptop.db", "--json").object()["syncProblem"] as? [String: Any]
                #expect(problem?["code"] as? String == "notPermitted" && problem?["time"] is String && problem?["message"] is String)
                #expect(try await shop.shell("laptop.db", "SELECT city FROM customer ORDER BY id;") == "laptop\n\(city)")
            }
            #expect(try await shop.annals("sync", "laptop.db", "--pull-only", environment: reading).status == 0)
            #expect(try await shop.annals("sync", "laptop.db", environment: writing).status == 0)
            #expect(try await shop.succeed("status", "laptop.db", "--json").object()["syncProblem"] is NSNull)
            // Without a token there is no request, and that stands in the way, too.
            #expect(try await shop.annals("sync", "laptop.db", "--credential-file", "nowhere").status == 66)
            let missing = try await shop.succeed("status", "laptop.db", "--json").object()["syncProblem"] as? [String: Any]
            #expect((missing?["message"] as? String)?.contains("there is no credential file") == true)
        }
    }

    @Test("a token is made for a relay that is there, not for a name that was mistyped")
    func mistypedRelay() async throws {
        try await Workshop.with { shop in
            try await shop.fail(66, "typo is not a relay's folder", "relay", "token", "create", "--data", "typo")
            #expect(try shop.names().isEmpty)
        }
    }

    @Test("a file that cannot be written is named by verify (needs setpriv where the tests run as root)", .enabled(if: OtherUser.isThere))
    func readOnly() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Bern';")
            let outcome = try await OtherUser.run(["verify", "shop.db"], in: shop)
            shop.expectFailure(outcome, 77, "shop.db cannot be written")
        }
    }

    @Test("show takes what history prints")
    func show() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Bern';")
            let token = try #require(try await shop.succeed("history", "shop.db", "--json").objects()[0]["token"] as? String)
            let shown = try await shop.succeed("show", "shop.db", "1").output
            for name in [token, "latest", "2099-01-01"] { #expect(try await shop.succeed("show", "shop.db", name).output == shown) }
            try await shop.fail(64, "is not a point of history", "show", "shop.db", "nonsense")
        }
    }

    @Test("an address in use is told in plain words")
    func addressInUse() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            let port = try #require(url.split(separator: ":").last)
            try await shop.fail(
                78, "cannot listen at 127.0.0.1:\(port): address already in use. Another program", "relay", "serve", "--data", "d",
                "--listen",
                "127.0.0.1:\(port)", "--no-auth")
        }
    }

    @Test func `a table that was created since the last look can be untracked, and later ones stay untracked`() async throws {
        try await Workshop.with { shop in
            try await shop.shell("u.db", "CREATE TABLE person(id INTEGER PRIMARY KEY)")
            try await shop.succeed("track", "u.db", "--all")
            try await shop.shell("u.db", "CREATE TABLE salary(id INTEGER PRIMARY KEY)")
            #expect(try await shop.succeed("untrack", "u.db", "salary").output == "salary: no longer tracked\n")
            try await shop.shell("u.db", "CREATE TABLE secret(id INTEGER PRIMARY KEY)")
            let status = try await shop.succeed("status", "u.db", "--json").object()
            #expect(status["tracked"] as? [String] == ["person"], "\(status)")
        }
    }
}
