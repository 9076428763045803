import Foundation
import Testing

/// A closed relay with a configuration file, as an operator runs it.
@Suite struct RelayAccessTests {
    private func write(_ text: String, _ path: String) throws { try Data(text.utf8).write(to: URL(fileURLWithPath: path)) }

    /// Writes a token with the scope write to each of these files.
    private func makeTokens(_ names: String..., in shop: Workshop) async throws {
        for name in names {
            let made = try await shop.succeed("relay", "token", "create", "--data", "relay-data", "--space", "shop")
            try write(made.output, shop.file(name))
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: shop.file(name))
        }
    }

    @Test("a token is written to a file of its own, and not made if the file cannot be")
    func tokenFile() async throws {
        try await Workshop.with { shop in
            let (url, _) = try await shop.startRelay(data: "relay-data", listen: "127.0.0.1:0", [])
            func create(_ arguments: String...) async throws -> Outcome {
                try await Program.run(Workshop.annals, ["relay", "token", "create", "--data", "relay-data"] + arguments, in: shop.path)
            }
            func count() async throws -> Int {
                try await shop.succeed("relay", "token", "list", "--data", "relay-data", "--json").objects().count
            }
            let made = try await create("--output", "shop.token", "--expires", "5m")
            #expect(made.status == 0 && made.output == "" && made.errors == "")
            let attributes = try FileManager.default.attributesOfItem(atPath: shop.file("shop.token"))
            #expect(attributes[.posixPermissions] as? Int == 0o600)
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop", "--credential-file", "shop.token")

            let first = try shop.bytes("shop.token")
            shop.expectFailure(try await create("--output", "shop.token"), 73, "shop.token already exists")
            shop.expectFailure(try await create("--output", "nowhere/shop.token"), 73, "nowhere/shop.token cannot be written")
            shop.expectFailure(try await create("--output", "/dev/null", "--force"), 73, "not a regular file")
            shop.expectFailure(try await create("--force"), 64, "--force needs --output")
            #expect(try await count() == 1 && shop.bytes("shop.token") == first)
            shop.expectFailure(try await create("--output", "other.token", "--renews", "99"), 66, "there is no token 99")
            #expect(!shop.exists("other.token"))

            let forced = try await create("--output", "shop.token", "--force", "--label", "till", "--json").object()
            #expect(forced["file"] as? String == "shop.token" && forced["label"] as? String == "till" && forced["token"] == nil)
            #expect(try await count() == 2 && shop.bytes("shop.token") != first)
            #expect(try shop.names().filter { $0.contains(".new-") }.isEmpty)
            let again = try FileManager.default.attributesOfItem(atPath: shop.file("shop.token"))
            #expect(again[.posixPermissions] as? Int == 0o600)
            try await shop.succeed("sync", "shop.db", "--credential-file", "shop.token", "--pull-only")
        }
    }

    @Test func `a space is deleted when its name is typed, or with --yes, also while the relay serves`() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            func delete(_ words: [String], typed: String = "") async throws -> Outcome {
                try await Program.run(
                    Workshop.annals, ["relay", "delete", "--data", "relay-data", "--space"] + words, in: shop.path, input: typed)
            }
            let wrong = try await delete(["shop"], typed: "shp\n")
            #expect(wrong.status == 64 && wrong.errors.contains("nothing was deleted"), "\(wrong.errors)")
            #expect(try await delete(["shop"]).status == 64)
            try await shop.succeed("sync", "shop.db")
            let done = try await delete(["shop", "--json"], typed: "shop\n")
            #expect(done.status == 0 && done.output.contains("\"space\":\"shop\""), "\(done.errors)\(done.output)")
            try await shop.fail(66, "there is no space shop", "relay", "delete", "--data", "relay-data", "--space", "shop", "--yes")
            try await shop.fail(66, "no such space", "sync", "shop.db")
            #expect(try await shop.succeed("relay", "audit", "--data", "relay-data").output.contains("space-delete"))
        }
    }

    @Test func `a sync that the relay refuses for its token does not replace the remembered token`() async throws {
        try await Workshop.with { shop in
            let url = try await shop.startRelay(["--data", "relay-data", "--listen", "127.0.0.1:0"]).url
            try await makeTokens("one", "two", in: shop)
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop", "--credential-file", "one")
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Bern' WHERE id = 1")
            try await shop.succeed("sync", "shop.db")
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Rome' WHERE id = 1")
            try await shop.fail(77, "belongs to another token", "sync", "shop.db", "--credential-file", "two")
            try await shop.succeed("sync", "shop.db")
        }
    }

    @Test func `an owner is quarantined while the relay serves: its sync says so, reads, and brings its work when that is lifted`()
        async throws
    {
        try await Workshop.with { shop in
            let (url, program) = try await shop.startRelay(["--data", "relay-data", "--listen", "127.0.0.1:0"])
            try await makeTokens("one", "two", in: shop)
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop", "--credential-file", "one")
            try await shop.succeed("clone", url, "shop", "till.db", "--credential-file", "two")
            func quarantine(_ words: String...) async throws -> Outcome {
                try await Program.run(Workshop.annals, ["relay", "quarantine", "--data", "relay-data"] + words, in: shop.path)
            }
            shop.expectFailure(try await quarantine("token 9", "--space", "shop"), 66, "the space shop has no owner token 9")
            shop.expectFailure(try await quarantine("token 2", "--space", "none"), 66, "there is no space none")
            shop.expectFailure(try await quarantine("2", "--space", "shop", "--lift"), 66, "token 2 is not quarantined in the space shop")
            let begun = try await quarantine("token 2", "--space", "shop")
            #expect(begun.status == 0 && begun.output == "shop: token 2 is quarantined: it may read but not write\n", "\(begun.errors)")

            try await shop.shell("shop.db", "UPDATE customer SET city = 'Bern' WHERE id = 1")
            try await shop.succeed("sync", "shop.db")
            try await shop.shell("till.db", "UPDATE customer SET city = 'Rome' WHERE id = 2")
            let words = "has quarantined token 2 in the space shop: it can read but not write; 1 local transaction waits"
            try await shop.fail(77, words, "sync", "till.db")
            // Also after a restart of the relay.
            program.signal(SIGTERM)
            _ = try await program.end()
            let port = try #require(url.split(separator: ":").last)
            _ = try await shop.startRelay(["--data", "relay-data", "--listen", "127.0.0.1:\(port)"])
            try await shop.fail(77, "Ask the relay's operator", "sync", "till.db")
            #expect(try await shop.shell("till.db", "SELECT city FROM customer ORDER BY id") == "Bern\nRome")
            let replicas = try await shop.succeed("relay", "replicas", "--data", "relay-data", "--space", "shop").output
            #expect(replicas.contains("quarantined 20"), "\(replicas)")
            let spaces = try await shop.succeed("relay", "spaces", "--data", "relay-data", "--json").output
            #expect(spaces.contains("\"quarantined\":[\"token 2\"]"), "\(spaces)")

            let lifted = try await quarantine("2", "--space", "shop", "--lift", "--json")
            #expect(
                lifted.output == "{\"space\":\"shop\",\"owner\":\"token 2\",\"quarantined\":null}\n", "\(lifted.output)\(lifted.errors)")
            try await shop.succeed("sync", "till.db")
            try await shop.succeed("sync", "shop.db")
            #expect(try await shop.shell("shop.db", "SELECT city FROM customer ORDER BY id") == "Bern\nRome")
            let audit = try await shop.succeed("relay", "audit", "--data", "relay-data", "--json").output
            #expect(audit.contains("owner-quarantine") && audit.contains("owner-lift"), "\(audit)")
        }
    }

    @Test func `with --auto-void 2 the space goes on when the second owner has reported an entry`() async throws {
        try await Workshop.with { shop in
            let (url, _) = try await shop.startRelay(["--data", "relay-data", "--listen", "127.0.0.1:0", "--auto-void", "2"])
            try await makeTokens("author", "one", "two", in: shop)
            try await shop.shell("author.db", "CREATE TABLE item (id TEXT PRIMARY KEY, pieces INTEGER CHECK (pieces >= 0))")
            try await shop.succeed("track", "author.db", "--all")
            try await shop.succeed("join", "author.db", "--relay", url, "--space", "shop", "--credential-file", "author")
            for name in ["one", "two"] {
                try await shop.succeed("clone", url, "shop", "\(name).db", "--credential-file", name)
            }
            try await shop.shell("author.db", "PRAGMA ignore_check_constraints = ON; INSERT INTO item VALUES ('bad', -1)")
            try await shop.succeed("sync", "author.db")
            try await shop.fail(65, "the entry at position 2", "sync", "one.db")
            try await shop.fail(65, "the entry at position 2", "sync", "one.db")
            try await shop.fail(65, "the entry at position 2", "sync", "two.db")
            for name in ["one", "two"] { try await shop.succeed("sync", "\(name).db") }
            let audit = try await shop.succeed("relay", "audit", "--data", "relay-data", "--json").output
            #expect(audit.contains("automatic") && audit.contains("reported by token 2, token 3"), "\(audit)")
        }
    }

    @Test func `a refused void names the replicas that have the entry, with their owners, and what to do`()
        async throws
    {
        try await Workshop.with { shop in
            let (url, _) = try await shop.startRelay(["--data", "relay-data", "--listen", "127.0.0.1:0"])
            try await makeTokens("author", "other", in: shop)
            try await shop.shell("author.db", "CREATE TABLE item (id TEXT PRIMARY KEY, pieces INTEGER)")
            try await shop.succeed("track", "author.db", "--all")
            try await shop.succeed("join", "author.db", "--relay", url, "--space", "shop", "--credential-file", "author")
            for (name, file) in [("second", "author"), ("other", "other")] {
                try await shop.succeed("clone", url, "shop", "\(name).db", "--name", name, "--credential-file", file)
            }
            try await shop.shell("author.db", "INSERT INTO item VALUES ('bad', 1)")
            try await shop.succeed("sync", "author.db")
            // The second exchange acknowledges the entries of the first one.
            for _ in 1...2 { try await shop.succeed("sync", "second.db", "other.db") }
            var listed: [[String: Any]] = []
            try await eventually("the relay has written down who was there") {
                listed = try await shop.succeed("relay", "replicas", "--data", "relay-data", "--space", "shop", "--json").objects()
                return listed.count { $0["position"] as? Int == 2 } >= 2
            }
            let owners = Dictionary(uniqueKeysWithValues: listed.map { ($0["name"] as? String, $0) })
            #expect(owners["second"]?["seenWith"] as? String == "token 1" && owners["second"]?["owner"] is NSNull)
            #expect(listed.contains { $0["owner"] as? String == "token 1" && $0["seenWith"] is NSNull })
            let table = try await shop.succeed("relay", "replicas", "--data", "relay-data", "--space", "shop").output
            #expect(table.contains("seen with token 1") && table.contains("seen with token 2"), "\(table)")

            let words = ["relay", "void", "2", "--data", "relay-data", "--space", "shop"]
            let refused = try await Program.run(Workshop.annals, words, in: shop.path)
            shop.expectFailure(refused, 65, "position 2 was acknowledged by other (token 2), second (token 1)")
            #expect(refused.errors.contains("These replicas have acknowledged the entry"), "\(refused.errors)")
            #expect(refused.errors.contains("annals relay quarantine \"token 2\""), "\(refused.errors)")
            for name in ["other", "second"] { try await shop.succeed("relay", "retire", name, "--data", "relay-data", "--space", "shop") }
            try await shop.succeed("relay", "void", "2", "--data", "relay-data", "--space", "shop")
        }
    }

    @Test func `a relay by its file; a replica keeps its token, is released, and goes on with the one that renews it`() async throws {
        try await Workshop.with { shop in
            try write("listen: 127.0.0.1:0\ndata: relay-data\nlimits:\n  spaces: 1\n", shop.file("relay.yaml"))
            let (url, _) = try await shop.startRelay(["--config", "relay.yaml"])
            func token(_ arguments: String...) async throws -> String {
                let outcome = try await Program.run(
                    Workshop.annals, ["relay", "token", "create", "--data", "relay-data"] + arguments, in: shop.path)
                try #require(outcome.status == 0, "\(outcome.errors)")
                return outcome.output
            }
            try write(try await token("--space", "shop"), shop.file("one.token"))
            try write(try await token("--space", "shop"), shop.file("two.token"))
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed(
                "join", "shop.db", "--relay", url, "--space", "shop", "--name", "till", "--credential-file", "one.token")

            // The same store with the token of another owner is refused until it is released.
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Bern' WHERE id = 1")
            let two = try String(contentsOfFile: shop.file("two.token"), encoding: .utf8)
            try write(two, shop.file("one.token"))
            try await shop.fail(77, "belongs to another token; 1 local transaction waits", "sync", "shop.db")
            let listed = try await shop.succeed("relay", "replicas", "--data", "relay-data", "--space", "shop", "--json").output
            #expect(listed.contains("\"owner\":\"token 1\""), "\(listed)")
            try await shop.succeed("relay", "release", "till", "--data", "relay-data", "--space", "shop")
            try await shop.succeed("sync", "shop.db")

            try write(try await token("--renews", "2", "--expires", "1d"), shop.file("one.token"))
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Rome' WHERE id = 1")
            try await shop.succeed("sync", "shop.db")
            try await shop.fail(66, "there is no token 99", "relay", "token", "create", "--data", "relay-data", "--renews", "99")
            try await shop.fail(
                64, "give --renews without them", "relay", "token", "create", "--data", "relay-data", "--renews", "1", "--space", "x")
            try await shop.fail(66, "has no replica", "relay", "release", "nobody", "--data", "relay-data", "--space", "shop")
        }
    }

    @Test func `a store goes on with the last credential file that the relay took, and with the environment where that is gone`()
        async throws
    {
        try await Workshop.with { shop in
            let (url, _) = try await shop.startRelay(["--data", "relay-data", "--listen", "127.0.0.1:0"])
            let token = try await shop.succeed("relay", "token", "create", "--data", "relay-data", "--space", "shop").output
            for name in ["one", "two"] { try write(token, shop.file(name)) }
            try write("no-token-of-this-relay", shop.file("other"))
            // Other users may read the earlier files, which causes a warning.
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: shop.file("other"))
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop", "--credential-file", "one")

            let warned = try await shop.succeed("sync", "shop.db", "--credential-file", "two")
            #expect(warned.errors.contains("other users can read or change the credential file two. Run chmod 600 two"), "\(warned.errors)")
            for mode in [0o600, 0o620, 0o602] {
                try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: shop.file("two"))
                let errors = try await shop.succeed("sync", "shop.db", "--credential-file", "two").errors
                #expect(errors.contains("chmod 600 two") == (mode != 0o600), "\(errors)")
            }
            try FileManager.default.removeItem(atPath: shop.file("one"))
            try await shop.succeed("sync", "shop.db")
            try await shop.fail(77, "token", "sync", "shop.db", "--credential-file", "other")
            try await shop.succeed("sync", "shop.db")

            try FileManager.default.removeItem(atPath: shop.file("two"))
            try await shop.fail(66, "there is no credential file", "sync", "shop.db")
            let word = token.trimmingCharacters(in: .whitespacesAndNewlines)
            let outcome = try await shop.annals("sync", "shop.db", environment: ["ANNALS_CREDENTIAL": word])
            #expect(outcome.status == 0, "\(outcome.errors)")
            try await shop.fail(77, "token", "sync", "shop.db", environment: ["ANNALS_CREDENTIAL": "no-token"])
        }
    }

    @Test func `a client that watches continues after its token is renewed in its file`() async throws {
        try await Workshop.with { shop in
            let (url, _) = try await shop.startRelay(["--data", "relay-data", "--listen", "127.0.0.1:0"])
            let first = try await shop.succeed("relay", "token", "create", "--data", "relay-data", "--space", "shop").output
            try write(first, shop.file("token"))
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop", "--credential-file", "token")
            let watch = try Program(Workshop.annals, ["sync", "shop.db", "--watch"], in: shop.path)
            _ = try await watch.prints("shop.db: ")
            let second = try await shop.succeed("relay", "token", "create", "--data", "relay-data", "--renews", "1").output
            try write(second, shop.file("token"))
            try await shop.succeed("relay", "token", "revoke", "1", "--data", "relay-data")
            // A running relay trusts a token for a second without checking it again.
            try await ContinuousClock().sleep(for: .milliseconds(1200))
            try await shop.shell("shop.db", ".timeout 20000\nUPDATE customer SET city = 'Bern' WHERE id = 1")
            _ = try await watch.prints("pushed 1 transaction")
            // Without a renewal it ends with an error.
            try await shop.succeed("relay", "token", "revoke", "2", "--data", "relay-data")
            try await ContinuousClock().sleep(for: .milliseconds(1200))
            try await shop.shell("shop.db", ".timeout 20000\nUPDATE customer SET city = 'Rome' WHERE id = 1")
            #expect(try await watch.end().status == 77)
            #expect(watch.errors.contains("the access token was revoked"), "\(watch.errors)")
        }
    }

    @Test func `a full relay: exit 75 with what waits, and what others wrote comes in`() async throws {
        try await Workshop.with { shop in
            let (url, program) = try await shop.startRelay(["--data", "relay-data", "--listen", "127.0.0.1:0", "--no-auth"])
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            try await shop.succeed("clone", url, "shop", "laptop.db")
            try await shop.shell("laptop.db", "UPDATE customer SET city = 'Bern' WHERE id = 1")
            try await shop.succeed("sync", "laptop.db")
            program.signal(SIGTERM)
            _ = try await program.end()
            // The same relay, with a disk reserve that is larger than the disk.
            let port = try #require(url.split(separator: ":").last)
            try write("limits:\n  disk-reserve-bytes: 9000000000000000000\n", shop.file("full.yaml"))
            _ = try await shop.startRelay(
                ["--config", "full.yaml", "--data", "relay-data", "--listen", "127.0.0.1:\(port)", "--no-auth"])
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Rome' WHERE id = 2")
            try await shop.fail(
                75, "the relay keeps 9000000000000000000 bytes of its disk free, and has no more room; 1 local transaction waits", "sync",
                "shop.db")
            #expect(try await shop.shell("shop.db", "SELECT city FROM customer ORDER BY id") == "Bern\nRome")
            try await shop.makeShop("other.db")
            try await shop.succeed("track", "other.db", "--all")
            try await shop.fail(75, "has no more room", "join", "other.db", "--relay", url, "--space", "other")
        }
    }

    @Test func `a wrong configuration is told with its line, and nothing is begun`() async throws {
        try await Workshop.with { shop in
            try write("data: relay-data\nlimits:\n  conections: 5\n", shop.file("relay.yaml"))
            try await shop.fail(
                78, "relay.yaml, line 3, has the unknown setting limits.conections", "relay", "serve", "--config", "relay.yaml")
            try await shop.fail(66, "none.yaml", "relay", "serve", "--config", "none.yaml")
            try await shop.fail(64, "either --data DIR or --postgres URL", "relay", "serve")
            try write("listen: 127.0.0.1:0\n", shop.file("nowhere.yaml"))
            try await shop.fail(78, "nowhere.yaml does not set the relay's storage", "relay", "serve", "--config", "nowhere.yaml")
            try await shop.fail(64, "--keep", "relay", "serve", "--data", "d", "--keep", "long")
            try await shop.fail(
                78, "ANNALS_RELAY_LIMITS_SPACES is \"few\"", "relay", "serve", "--data", "d",
                environment: ["ANNALS_RELAY_LIMITS_SPACES": "few"])
            try await shop.fail(
                78, "need an issuer", "relay", "serve", "--data", "d", "--listen", "127.0.0.1:0",
                environment: ["ANNALS_RELAY_JWT_KEYS": "keys.json"])
            #expect(!shop.exists("d/relay.db"))
        }
    }
}
