import Foundation
import Testing

@Suite("Bad input gives one clear line, the right status, and nothing half done", .timeLimit(.minutes(20)))
struct BadInputTests {
    @Test(
        "a file that is no database", arguments: ["track --all", "status", "history", "verify", "digest", "sync", "untrack", "conflicts"])
    func notADatabase(_ command: String) async throws {
        try await Workshop.with { shop in
            let text = Data("hello, this is a text and no database at all; it is long enough to have a header of a hundred bytes".utf8)
            try text.write(to: URL(fileURLWithPath: shop.file("a.db")))
            var words = command.split(separator: " ").map(String.init)
            words.insert("a.db", at: 1)
            let outcome = try await Program.run(Workshop.annals, words, in: shop.path)
            shop.expectFailure(outcome, 65, "is not a SQLite database, or it is encrypted")
            #expect(try shop.bytes("a.db") == text)
            #expect(try shop.names() == ["a.db"])
        }
    }

    @Test("an encrypted file")
    func encrypted() async throws {
        try await Workshop.with { shop in
            var generator = SystemRandomNumberGenerator()
            let noise = Data((0..<8192).map { _ in UInt8.random(in: 0...255, using: &generator) })
            try noise.write(to: URL(fileURLWithPath: shop.file("a.db")))
            try await shop.fail(65, "is not a SQLite database, or it is encrypted", "track", "a.db", "--all")
            #expect(try shop.bytes("a.db") == noise)
        }
    }

    @Test("no file, an empty one, and a folder")
    func noFile() async throws {
        try await Workshop.with { shop in
            try await shop.fail(66, "the file a.db does not exist", "track", "a.db", "--all")
            #expect(try shop.names().isEmpty)
            try Data().write(to: URL(fileURLWithPath: shop.file("empty.db")))
            try await shop.fail(65, "empty.db is empty", "track", "empty.db", "--all")
            try await shop.fail(65, "is a folder", "status", ".")
        }
    }

    @Test("a clone with an empty key file, and where a link leads nowhere")
    func clone() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            try Data().write(to: URL(fileURLWithPath: shop.file("empty.key")))
            try await shop.fail(78, "empty.key contains no key", "clone", url, "shop", "b.db", "--space-key-file", "empty.key")
            try FileManager.default.createSymbolicLink(atPath: shop.file("b.db"), withDestinationPath: "nowhere.db")
            try await shop.fail(73, "b.db already exists. Choose another name", "clone", url, "shop", "b.db")
            #expect(!shop.exists("nowhere.db"))
        }
    }

    @Test("a file that grows beyond what the system allows is named, and it is the one that is written")
    func fileSize() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeLargeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Bern' WHERE id = 1")
            try await shop.succeed("history", "shop.db")
            let command = "ulimit -f 2000; exec '\(Workshop.annals)' replay shop.db --to 1 --output old.db"
            let outcome = try await Program.run("/bin/sh", ["-c", command], in: shop.path)
            shop.expectFailure(outcome, 73, "old.db cannot be written")
            #expect(try !shop.names().contains { $0.hasPrefix("old.db") })
        }
    }

    @Test(
        "a file's name is a path, also where SQLite takes it for something else",
        arguments: ["file:zz.db", "file:zz.db?mode=memory", ":memory:"])
    func names(_ name: String) async throws {
        try await Workshop.with { shop in
            try await shop.fail(66, "does not exist", "track", name, "--all")
            #expect(try shop.names().isEmpty)
            try await shop.makeShop()
            try FileManager.default.moveItem(atPath: shop.file("shop.db"), toPath: shop.file(name))
            try await shop.succeed("track", name, "--all", "--wal")
            try await shop.shell("./\(name)", "UPDATE customer SET city = 'Bern' WHERE id = 1")
            #expect(try await shop.succeed("history", name, "--json").output.split(separator: "\n").count == 1)
            try await shop.succeed("replay", name, "--to", "1", "--output", "file:copy.db")
            #expect(try await shop.shell("./file:copy.db", "SELECT city FROM customer WHERE id = 1") == "Bern")
            let made = Set(try shop.names()).subtracting(["-wal", "-shm"].map { name + $0 })
            #expect(made == [name, "file:copy.db"])
        }
    }

    @Test("a file that may only be read (needs setpriv where the tests run as root)", .enabled(if: OtherUser.isThere))
    func readOnly() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.makeShop("tracked.db")
            try await shop.succeed("track", "tracked.db", "--all")
            for command in [["track", "shop.db", "--all"], ["untrack", "tracked.db"]] {
                let bytes = try shop.bytes(command[1])
                let outcome = try await OtherUser.run(command, in: shop)
                shop.expectFailure(outcome, 77, "cannot be written")
                #expect(try shop.bytes(command[1]) == bytes)
            }
        }
    }

    @Test("a file that another program has locked")
    func locked() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            let other = try Program("sqlite3", ["-batch", "shop.db"], in: shop.path)
            other.write("BEGIN EXCLUSIVE;\nSELECT 'it is mine';\n")
            _ = try await other.prints("it is mine")
            try await shop.fail(75, "shop.db is locked by another program", "track", "shop.db", "--all")
            other.write("COMMIT;\n")
            other.endInput()
            _ = try await other.end()
            #expect(try await shop.shell("shop.db", "SELECT count(*) FROM sqlite_master WHERE name LIKE 'annals%';") == "0")
            try await shop.succeed("track", "shop.db", "--all")
        }
    }

    @Test("a table without a primary key is named and skipped, with how to mend it")
    func noPrimaryKey() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.shell("shop.db", "CREATE TABLE note (text TEXT);")
            let all = try await shop.succeed("track", "shop.db", "--all")
            #expect(
                all.lines.contains { $0.hasPrefix("note") && $0.contains("skipped: it has no primary key") && $0.contains("PRIMARY KEY") })
            try await shop.fail(65, "the table note cannot be tracked: it has no primary key", "track", "shop.db", "note")
        }
    }

    @Test("a virtual table is named and skipped, and refused when it is asked for")
    func virtualTable() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.shell("shop.db", "CREATE VIRTUAL TABLE place USING rtree (id, x0, x1);")
            try await shop.fail(65, "the table place cannot be tracked: it is a virtual table", "track", "shop.db", "place")
            #expect(try await shop.shell("shop.db", "SELECT count(*) FROM sqlite_master WHERE name LIKE 'annals%';") == "0")
            let all = try await shop.succeed("track", "shop.db", "--all")
            #expect(all.lines.contains { $0.hasPrefix("place ") && $0.contains("skipped: it is a virtual table") })
        }
    }

    @Test("a table that is not there, and one whose parent is not tracked")
    func refusedTables() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.fail(65, "the table nobody cannot be tracked: there is no such table", "track", "shop.db", "nobody")
            try await shop.fail(
                65, "the table invoice cannot be tracked: its foreign key refers to customer", "track", "shop.db", "invoice")
            try await shop.fail(64, "give --all", "track", "shop.db")
            try await shop.fail(64, "not both", "track", "shop.db", "invoice", "--all")
        }
    }

    @Test("a full disk (needs a small file system to mount)", .enabled(if: SmallDisk.isThere))
    func fullDisk() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.shell("shop.db", "UPDATE customer SET name = hex(zeroblob(300000));")
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.shell("shop.db", "UPDATE customer SET city = hex(zeroblob(300000));")
            let replayed = try await SmallDisk.run(
                ["replay", "../shop.db", "--to", "start", "--output", "old.db"], kibibytes: 512, in: shop, then: "ls -A")
            shop.expectFailure(replayed, 73, "the disk is full")
            #expect(replayed.output == "", "nothing is left behind")
        }
    }

    @Test("a full disk under the store itself (needs a small file system to mount)", .enabled(if: SmallDisk.isThere))
    func fullDiskOfTheStore() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.shell("shop.db", "UPDATE customer SET name = hex(zeroblob(100000));")
            let tracked = try await SmallDisk.run(
                ["track", "shop.db", "--all"], kibibytes: 440, in: shop, copying: "shop.db",
                then: "sqlite3 shop.db \"SELECT count(*) FROM sqlite_master WHERE name LIKE 'annals%'\"")
            shop.expectFailure(tracked, 73, "the disk is full")
            #expect(tracked.output == "0\n", "nothing half done")
        }
    }

    @Test("a relay that answers with a web page, or hangs up", arguments: [FakeRelay.html, .nothing])
    func noRelay(_ kind: FakeRelay) async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            let (url, program) = try await kind.start(in: shop.path)
            defer { program.endInput() }
            let words = kind == .html ? "the address does not belong to an Annals relay" : "the relay cannot be reached"
            try await shop.fail(69, words, "join", "shop.db", "--relay", url, "--space", "shop")
            try await shop.fail(69, words, "clone", url, "shop", "laptop.db")
            #expect(try shop.names() == ["shop.db"])
            #expect(try await shop.succeed("status", "shop.db", "--json").object()["space"] is NSNull)
        }
    }

    @Test("a wrong address")
    func wrongAddress() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.fail(69, "cannot be reached", "join", "shop.db", "--relay", "http://127.0.0.1:1", "--space", "shop")
            try await shop.fail(69, "cannot be reached", "clone", "http://nowhere.invalid", "shop", "laptop.db")
            for address in ["127.0.0.1:8640", "ftp://127.0.0.1", "http://", "http://user:secret@127.0.0.1", "nonsense"] {
                try await shop.fail(64, "is not a valid relay address", "clone", address, "shop", "laptop.db")
            }
            try await shop.fail(64, "'a/b' is invalid", "clone", "http://127.0.0.1:1", "a/b", "laptop.db")
            #expect(try shop.names() == ["shop.db"])
        }
    }

    @Test("a space that does not exist")
    func noSpace() async throws {
        try await Workshop.with { shop in
            let url = try await shop.relay()
            try await shop.fail(66, "no such space", "clone", url, "nowhere", "laptop.db")
            #expect(try shop.names() == ["relay-data"])
        }
    }

    @Test("a clone never overwrites a file, nor does a replay")
    func neverOverwrites() async throws {
        try await Workshop.with { shop in
            let url = try await shop.makeReplicas()
            let bytes = try shop.bytes("laptop.db")
            try await shop.fail(73, "laptop.db already exists", "clone", url, "shop", "laptop.db")
            try await shop.fail(73, "laptop.db already exists", "replay", "shop.db", "--to", "start", "--output", "laptop.db")
            #expect(try shop.bytes("laptop.db") == bytes)
            try await shop.fail(73, "cannot create a file in", "clone", url, "shop", "no/such/folder/laptop.db")
        }
    }

    @Test("a corrupt batch from the relay is not applied")
    func corruptBatch() async throws {
        try await Workshop.with { shop in
            _ = try await shop.makeReplicas()
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Rome';")
            try await shop.succeed("sync", "shop.db")
            let changed = try await shop.shell(
                "relay-data/relay.db",
                """
                UPDATE annals_runs SET batch = cast(substr(batch, 1, length(batch) - 20) || zeroblob(20) AS BLOB)
                WHERE position = (SELECT max(position) FROM annals_runs);
                SELECT changes();
                """)
            #expect(changed == "1")
            let digest = try await shop.succeed("digest", "laptop.db").output
            try await shop.fail(65, "position 2 cannot be applied", "sync", "laptop.db")
            #expect(try await shop.succeed("digest", "laptop.db").output == digest)
            #expect(try await shop.succeed("status", "laptop.db", "--json").object()["position"] as? Int == 1)
        }
    }

    @Test("a store of a newer format", arguments: ["status", "history", "sync", "untrack", "verify"])
    func newerFormat(_ command: String) async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.shell("shop.db", "UPDATE annals_meta SET value = 99 WHERE name = 'format';")
            let bytes = try shop.bytes("shop.db")
            try await shop.fail(65, "newer", command, "shop.db")
            #expect(try shop.bytes("shop.db") == bytes)
        }
    }

    @Test("a store that is not tracked, not joined, or joined already")
    func wrongState() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.fail(65, "Run annals track first", "history", "shop.db")
            try await shop.fail(65, "Run annals track first", "digest", "shop.db")
            let url = try await shop.relay()
            try await shop.fail(65, "Run annals track first", "join", "shop.db", "--relay", url, "--space", "shop")
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.fail(65, "not joined", "sync", "shop.db")
            try await shop.fail(65, "not joined", "leave", "shop.db")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            try await shop.fail(65, "has already joined a space", "join", "shop.db", "--relay", url, "--space", "shop")
            try await shop.fail(65, "has joined a space", "untrack", "shop.db")
        }
    }

    @Test("rows that differ from the space's are counted, and nothing is changed")
    func rowsDiffer() async throws {
        try await Workshop.with { shop in
            let url = try await shop.makeReplicas()
            try await shop.makeShop("other.db")
            try await shop.shell("other.db", "UPDATE customer SET city = 'Oslo' WHERE id = 2; DELETE FROM invoice WHERE id = 2;")
            try await shop.succeed("track", "other.db", "--all")
            let digest = try await shop.succeed("digest", "other.db").output
            let foreseen = try await shop.succeed("join", "other.db", "--relay", url, "--space", "shop", "--dry-run", "--json").object()
            let tables = try #require(foreseen["tables"] as? [[String: Any]])
            #expect(foreseen["equal"] as? Bool == false && tables.map { $0["differing"] as? Int } == [1, 0])
            #expect(tables.map { $0["onlyThere"] as? Int } == [0, 1])
            try await shop.fail(65, "customer 0 only here, 0 only there, 1 differ", "join", "other.db", "--relay", url, "--space", "shop")
            #expect(try await shop.succeed("digest", "other.db").output == digest)
            #expect(try await shop.succeed("status", "other.db", "--json").object()["space"] is NSNull)
        }
    }

    @Test("tokens of other stores, of no store, and before the beginning")
    func badTokens() async throws {
        try await Workshop.with { shop in
            for name in ["shop.db", "other.db"] {
                try await shop.makeShop(name)
                try await shop.succeed("track", name, "--all")
            }
            let foreign = try #require(try await shop.succeed("status", "other.db", "--json").object()["latestToken"] as? String)
            try await shop.fail(65, "belongs to another store", "history", "shop.db", "--after", foreign)
            try await shop.fail(64, "is not a point of history", "replay", "shop.db", "--to", "yesterday", "--output", "old.db")
            try await shop.fail(65, "has no transaction 99", "replay", "shop.db", "--to", "99", "--output", "old.db")
            try await shop.fail(65, "has no transaction 99", "show", "shop.db", "99")
            try await shop.fail(
                65, "2001-01-01 is older than the recorded history. The first moment is 20", "show", "shop.db", "2001-01-01")
            try await shop.fail(65, "and start names it", "diff", "shop.db", "2001-01-01", "latest")
            try await shop.fail(65, "older than the recorded", "replay", "shop.db", "--to", "2001-01-01", "--output", "old.db")
            #expect(try await shop.succeed("history", "shop.db", "--after", "2001-01-01").errors == "")
            try await shop.fail(64, "an empty text is not a point of history", "show", "shop.db", "")
            try await shop.fail(66, "the name of the file is empty", "status", "")
            try await shop.fail(64, "an empty text is not a valid relay address", "join", "shop.db", "--relay", "", "--space", "shop")
            try await shop.fail(64, "See annals policy --help", "policy", "shop.db", "set", "customer")
            try await shop.fail(64, "there is no command 'blam'. Did you mean 'blame'? See annals --help", "blam", "shop.db", "customer")
            try await shop.fail(64, "there is no command 'blam'", "blam")
            try await shop.fail(64, "there is no command 'snyc'. Did you mean 'sync'? See annals --help", "snyc", "shop.db")
            try await shop.fail(64, "there is no command 'unrelated'. See annals --help", "unrelated")
            try await shop.fail(64, "give a number and a unit, such as 5m, 12h, 30d or 8w", "purge", "shop.db", "--keep", "30")
            try await shop.fail(64, "give a share up to 100%, such as 20%", "purge", "shop.db", "--share", "150%")
            try await shop.fail(64, "'--stpes'. Did you mean '--steps'? See annals history --help", "history", "shop.db", "--stpes")
            #expect(!shop.exists("old.db"))
        }
    }

    @Test("words that annals does not know", arguments: ["", "frobnicate", "track", "track shop.db --wat", "history shop.db --limit many"])
    func usage(_ line: String) async throws {
        try await Workshop.with { shop in
            let outcome = try await Program.run(Workshop.annals, line.split(separator: " ").map(String.init), in: shop.path)
            if line.isEmpty {
                #expect(outcome.status == 0 && outcome.output.contains("USAGE"))
            } else {
                shop.expectFailure(outcome, 64, "--help")
            }
        }
    }

    @Test("an open relay is refused, and so is an address that cannot be listened at")
    func relayConfiguration() async throws {
        try await Workshop.with { shop in
            try await shop.fail(78, "unencrypted", "relay", "serve", "--data", "d", "--listen", "0.0.0.0:0")
            try await shop.fail(78, "--no-auth", "relay", "serve", "--data", "d", "--listen", "0.0.0.0:0", "--allow-plaintext", "--no-auth")
            let url = try await shop.relay()
            let port = try #require(url.split(separator: ":").last)
            try await shop.fail(78, "cannot listen", "relay", "serve", "--data", "d", "--listen", "127.0.0.1:\(port)", "--no-auth")
            try await shop.fail(
                75, "another relay serves", "relay", "serve", "--data", "relay-data", "--listen", "127.0.0.1:0", "--no-auth")
            try await shop.fail(66, "is not a relay's folder", "relay", "spaces", "--data", "nothing")
        }
    }

    @Test("a credential file that is missing or holds no token")
    func credentials() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            let join = ["join", "shop.db", "--relay", "http://127.0.0.1:1", "--space", "shop"]
            var outcome = try await Program.run(Workshop.annals, join + ["--credential-file", "none"], in: shop.path)
            shop.expectFailure(outcome, 66, "there is no credential file")
            try Data("two words".utf8).write(to: URL(fileURLWithPath: shop.file("bad")))
            outcome = try await Program.run(Workshop.annals, join + ["--credential-file", "bad"], in: shop.path)
            shop.expectFailure(outcome, 78, "does not contain an access token")
            #expect(!outcome.errors.contains("two words"))
        }
    }
}
