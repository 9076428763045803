import Foundation
import Testing

@Suite("A space that is sealed end to end", .timeLimit(.minutes(20)))
struct SealedSpaceTests {
    /// Data that neither the relay nor the network may see: values, tables, columns, names, and the key.
    private static let secrets = [
        "confidential", "ledgerbook", "headline", "sheet", "remark", "zelda-host", "zelda-laptop", "annals-key-1",
    ]

    private func makeBooks(_ shop: Workshop) async throws {
        try await shop.shell(
            "books.db",
            """
            CREATE TABLE ledgerbook (id INTEGER PRIMARY KEY, headline TEXT UNIQUE, pieces INTEGER);
            CREATE TABLE sheet (id INTEGER PRIMARY KEY, book INTEGER REFERENCES ledgerbook (id), remark TEXT);
            INSERT INTO ledgerbook VALUES (1, 'confidential one', 1), (2, 'confidential two', 2);
            INSERT INTO sheet VALUES (1, 1, 'confidential remark');
            """)
        try await shop.succeed("track", "books.db", "--all")
    }

    /// Makes a key, a relay, and a space that books.db created with this key.
    private func makeSpace(_ shop: Workshop, _ url: String) async throws {
        try await makeBooks(shop)
        try await shop.succeed("key", "new", "--output", "books.key")
        try await shop.succeed(
            "join", "books.db", "--relay", url, "--space", "books", "--space-key-file", "books.key", "--name", "zelda-host")
    }

    private func secrets(in data: Data) -> [String] {
        Self.secrets.filter { data.range(of: Data($0.utf8)) != nil }
    }

    private func expectNothingSecret(_ shop: Workshop, _ folder: String, location: SourceLocation = #_sourceLocation) throws {
        var count = 0
        for name in try FileManager.default.subpathsOfDirectory(atPath: shop.file(folder)) {
            guard let data = FileManager.default.contents(atPath: shop.file("\(folder)/\(name)")) else { continue }
            #expect(secrets(in: data).isEmpty, "\(name)", sourceLocation: location)
            count += data.count
        }
        #expect(count > 10_000, "the folder must contain data", sourceLocation: location)
    }

    @Test("the relay's folder, the network traffic and the relay's messages contain no readable data")
    func story() async throws {
        try await Workshop.with { shop in
            let (address, relay) = try await shop.startRelay(data: "relay-data", listen: "127.0.0.1:0")
            let proxy = try await RecordingProxy.start(to: address, in: shop.path)
            let url = proxy.url
            try await makeSpace(shop, url)
            try await shop.succeed("clone", url, "books", "laptop.db", "--space-key-file", "books.key", "--name", "zelda-laptop")
            try await shop.shell(
                "books.db", "UPDATE ledgerbook SET pieces = 10 WHERE id = 1; INSERT INTO sheet VALUES (2, 2, 'confidential here');")
            try await shop.shell(
                "laptop.db", "UPDATE ledgerbook SET pieces = 20 WHERE id = 1; INSERT INTO sheet VALUES (2, 1, 'confidential there');")
            try await shop.succeed("sync", "books.db", "laptop.db")
            try await shop.succeed("sync", "books.db", "laptop.db")
            try await shop.expectEqual("books.db", "laptop.db")
            #expect(try await shop.shell("books.db", "SELECT count(*) FROM sheet;") == "3")
            try await shop.succeed("policy", "books.db", "set", "ledgerbook.pieces", "max")
            let conflicts = try await shop.succeed("conflicts", "books.db", "--json").objects()
            #expect(!conflicts.isEmpty)

            let watch = try Program(Workshop.annals, ["sync", "laptop.db", "--watch"], in: shop.path)
            _ = try await watch.prints("laptop.db")
            try await shop.shell("books.db", "UPDATE ledgerbook SET headline = 'confidential three' WHERE id = 2;")
            try await shop.succeed("sync", "books.db")
            try await eventually("the watching replica applies the change") {
                // The watching process may be writing.
                try await shop.shell("laptop.db", ".timeout 10000\nSELECT headline FROM ledgerbook WHERE id = 2;") == "confidential three"
            }
            watch.signal(SIGTERM)
            #expect(try await watch.end().status == 0)
            try await shop.expectEqual("books.db", "laptop.db")

            try await shop.succeed(
                "replay", "--relay", url, "--space", "books", "--to", "1", "--output", "then.db", "--space-key-file", "books.key")
            #expect(
                try await shop.shell("then.db", "SELECT group_concat(headline) FROM ledgerbook;") == "confidential one,confidential two")
            #expect(try await shop.succeed("verify", "laptop.db").status == 0)
            relay.signal(SIGTERM)
            let ended = try await relay.end()
            let traffic = try await proxy.end()
            #expect(traffic.count > 10_000 && traffic.range(of: Data("/push".utf8)) != nil)
            #expect(secrets(in: traffic).isEmpty)
            #expect(secrets(in: Data((ended.output + ended.errors).utf8)).isEmpty)
            try expectNothingSecret(shop, "relay-data")
            // No store contains the key either.
            let key = try #require(String(decoding: shop.bytes("books.key"), as: UTF8.self).split(separator: ":").last)
            for store in ["books.db", "laptop.db"] { #expect(try shop.bytes(store).range(of: Data(key.utf8)) == nil) }
        }
    }

    @Test("a missing key, another key, or a key for a space that is not sealed: one line, status 78, and no new file")
    func refusals() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await makeSpace(shop, url)
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            try await shop.shell("own.db", "CREATE TABLE ledgerbook(id INTEGER PRIMARY KEY);")
            try await shop.succeed("track", "own.db", "--all")
            try await shop.succeed("key", "new", "--output", "other.key")
            try Data("secret words\n".utf8).write(to: URL(fileURLWithPath: shop.file("bad.key")))
            let before = try shop.names()
            try await shop.fail(78, "no key is given", "clone", url, "books", "x.db")
            try await shop.fail(78, "which is not in", "clone", url, "books", "x.db", "--space-key-file", "other.key")
            try await shop.fail(78, "there is no space key file", "clone", url, "books", "x.db", "--space-key-file", "no.key")
            try await shop.fail(78, "line 1 is not a key", "clone", url, "books", "x.db", "--space-key-file", "bad.key")
            try await shop.fail(78, "not encrypted", "clone", url, "shop", "x.db", "--space-key-file", "books.key")
            try await shop.fail(78, "no key is given", "join", "own.db", "--relay", url, "--space", "books")
            try await shop.fail(
                78, "which is not in", "join", "own.db", "--relay", url, "--space", "books", "--existing", "theirs", "--space-key-file",
                "other.key")
            try await shop.fail(
                78, "not encrypted", "join", "own.db", "--relay", url, "--space", "shop", "--dry-run", "--space-key-file", "books.key")
            try await shop.fail(
                78, "no key is given", "replay", "--relay", url, "--space", "books", "--to", "1", "--output", "x.db")
            try await shop.fail(
                64, "needs --relay", "replay", "own.db", "--to", "latest", "--output", "x.db", "--space-key-file", "books.key")
            #expect(try shop.names() == before)

            // A replica without its key file, and then with another key file.
            try await shop.shell("books.db", "UPDATE ledgerbook SET pieces = 3 WHERE id = 1;")
            try FileManager.default.moveItem(atPath: shop.file("books.key"), toPath: shop.file("kept.key"))
            try await shop.fail(78, "there is no space key file", "sync", "books.db")
            #expect(try await shop.succeed("status", "books.db", "--json").object()["outbox"] as? Int == 1)
            try FileManager.default.copyItem(atPath: shop.file("other.key"), toPath: shop.file("books.key"))
            try await shop.fail(78, "which is not in", "sync", "books.db")
            try FileManager.default.removeItem(atPath: shop.file("books.key"))
            try FileManager.default.moveItem(atPath: shop.file("kept.key"), toPath: shop.file("books.key"))
            #expect(try await shop.succeed("sync", "books.db").output.contains("pushed 1 transaction"))
        }
    }

    @Test("annals key new: only the owner can read the file, and it is never overwritten; --add appends a key")
    func keys() async throws {
        try await Workshop.with { shop in
            let printed = try await shop.succeed("key", "new")
            #expect(printed.lines.count == 2 && printed.lines[1].hasPrefix("annals-key-1:"))
            #expect(try await shop.succeed("key", "new").output != printed.output)
            try await shop.succeed("key", "new", "--output", "a.key")
            let first = try shop.bytes("a.key")
            let facts = try FileManager.default.attributesOfItem(atPath: shop.file("a.key"))
            #expect((facts[.posixPermissions] as? NSNumber)?.intValue == 0o600)
            try await shop.fail(73, "already exists", "key", "new", "--output", "a.key")
            #expect(try shop.bytes("a.key") == first)
            let added = try await shop.succeed("key", "new", "--add", "a.key", "--json").object()
            let both = try shop.bytes("a.key")
            #expect(both.starts(with: first) && both.count > first.count + 50)
            #expect((added["id"] as? String)?.count == 16 && added["file"] as? String == "a.key" && added["text"] == nil)
            try await shop.fail(78, "there is no space key file", "key", "new", "--add", "no.key")
            try await shop.fail(64, "cannot be combined", "key", "new", "--add", "a.key", "--output", "b.key")
            #expect(try shop.names() == ["a.key"])
        }
    }

    @Test("a new key: a replica with the old key file stops, also while watching, and continues with the new file")
    func rotation() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await makeSpace(shop, url)
            try FileManager.default.copyItem(atPath: shop.file("books.key"), toPath: shop.file("laptop.key"))
            try await shop.succeed("clone", url, "books", "laptop.db", "--space-key-file", "laptop.key")
            let watch = try Program(Workshop.annals, ["sync", "laptop.db", "--watch"], in: shop.path)
            _ = try await watch.prints("laptop.db")
            try await shop.succeed("key", "new", "--add", "books.key")
            try await shop.shell("books.db", "UPDATE ledgerbook SET pieces = 3 WHERE id = 1;")
            try await shop.succeed("sync", "books.db")
            let stopped = try await watch.end()
            #expect(stopped.status == 78 && stopped.errors.contains("is encrypted with the key"), "\(stopped)")
            try await shop.fail(78, "which is not in", "sync", "laptop.db")
            try FileManager.default.removeItem(atPath: shop.file("laptop.key"))
            try FileManager.default.copyItem(atPath: shop.file("books.key"), toPath: shop.file("laptop.key"))
            try await shop.succeed("sync", "laptop.db")
            try await shop.expectEqual("books.db", "laptop.db")
            try await shop.succeed("clone", url, "books", "late.db", "--space-key-file", "books.key")
            try await shop.expectEqual("books.db", "late.db")
        }
    }

    @Test("the next sync continues a sync that was killed at any time")
    func kills() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await makeSpace(shop, url)
            try await shop.succeed("clone", url, "books", "laptop.db", "--space-key-file", "books.key")
            for round in 1...12 {
                for (number, store) in ["books.db", "laptop.db"].enumerated() {
                    try await shop.shell(
                        store,
                        "UPDATE ledgerbook SET pieces = \(round * 10 + number) WHERE id = 1; INSERT INTO sheet (book, remark) VALUES (2, 'confidential \(round)');"
                    )
                    let sync = try Program(Workshop.annals, ["sync", store], in: shop.path)
                    try await ContinuousClock().sleep(for: .milliseconds(round * 12 + number * 5))
                    sync.signal(SIGKILL)
                    _ = try await sync.end()
                }
            }
            try await shop.succeed("sync", "books.db", "laptop.db")
            try await shop.succeed("sync", "books.db", "laptop.db")
            try await shop.expectEqual("books.db", "laptop.db")
            #expect(try await shop.shell("books.db", "SELECT count(*) FROM sheet;") == "25")
            try expectNothingSecret(shop, "relay-data")
        }
    }
}

@Suite("An entry that no replica can open", .timeLimit(.minutes(20)))
struct VoidTests {
    @Test("annals relay void, beside a serving relay: all replicas continue, and the author sends its changes again")
    func void() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("key", "new", "--output", "shop.key")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop", "--space-key-file", "shop.key")
            try FileManager.default.copyItem(atPath: shop.file("shop.key"), toPath: shop.file("laptop.key"))
            try await shop.succeed("clone", url, "shop", "laptop.db", "--space-key-file", "laptop.key")
            // A key that no other replica gets.
            try await shop.succeed("key", "new", "--add", "laptop.key")
            try await shop.shell("laptop.db", "INSERT INTO customer (name) VALUES ('Ida');")
            try await shop.succeed("sync", "laptop.db")
            try await shop.fail(78, "the entry at position 2 is encrypted with the key", "sync", "shop.db")
            try await shop.fail(64, "has no entry at position 9", "relay", "void", "9", "--data", "relay-data", "--space", "shop")
            try await shop.fail(66, "there is no space", "relay", "void", "2", "--data", "relay-data", "--space", "other")
            let voided = try await shop.succeed("relay", "void", "2", "--data", "relay-data", "--space", "shop", "--json")
            #expect(try voided.object()["voided"] as? [Int] == [2] && voided.object()["entry"] as? Int == 3)
            let audit = try await shop.succeed("relay", "audit", "--data", "relay-data", "--json").objects()
            #expect(audit.first?["action"] as? String == "entry-void" && (audit.first?["actor"] as? String)?.hasPrefix("cli (") == true)
            try await shop.fail(64, "is already void", "relay", "void", "2", "--data", "relay-data", "--space", "shop")
            try await shop.succeed("sync", "shop.db")
            #expect(try await shop.shell("shop.db", "SELECT count(*) FROM customer WHERE name = 'Ida';") == "0")
            // The last line of the file is the key for new data. It is the common key again.
            let lines = try String(decoding: shop.bytes("laptop.key"), as: UTF8.self).split(separator: "\n").filter { !$0.hasPrefix("#") }
            try Data((lines.reversed().joined(separator: "\n") + "\n").utf8).write(to: URL(fileURLWithPath: shop.file("laptop.key")))
            try await shop.succeed("sync", "laptop.db")
            try await shop.succeed("sync", "shop.db")
            try await shop.expectEqual("shop.db", "laptop.db")
            #expect(try await shop.shell("shop.db", "SELECT count(*) FROM customer WHERE name = 'Ida';") == "1")
            try await shop.succeed("clone", url, "shop", "late.db", "--space-key-file", "shop.key")
            try await shop.expectEqual("shop.db", "late.db")
            // A pull after the entry acknowledges it.
            try await shop.succeed("sync", "shop.db")
            let replica = try await shop.succeed("status", "shop.db", "--json").object()["replica"] as? String
            try await eventually("the relay has stored the acknowledgement") {
                try await shop.succeed("relay", "replicas", "--data", "relay-data", "--space", "shop", "--json").objects().contains {
                    $0["replica"] as? String == replica && $0["position"] as? Int == 4
                }
            }
            try await shop.fail(65, "was acknowledged by", "relay", "void", "4", "--data", "relay-data", "--space", "shop")
        }
    }
}
