import Foundation
import Testing

@Suite("Interrupted in the middle, a command leaves nothing half done", .timeLimit(.minutes(20)))
struct InterruptionTests {
    @Test("Ctrl-C in the middle of a clone's download", arguments: [(SIGINT, 130), (SIGTERM, 143)] as [(Int32, Int32)])
    func clone(_ signal: Int32, _ status: Int32) async throws {
        try await Workshop.with { shop in
            let (url, relay) = try await FakeRelay.stall.start(in: shop.path)
            defer { relay.endInput() }
            let clone = try Program(Workshop.annals, ["clone", url, "shop", "laptop.db"], in: shop.path)
            try await eventually("the download is under way") { try shop.partialBytes() > 0 }
            clone.signal(signal)
            let outcome = try await clone.end()
            #expect(outcome.status == status, "\(outcome.errors)")
            #expect(outcome.errors == "" && outcome.output == "")
            #expect(try shop.names().isEmpty, "the file and its temporary folder are gone")
        }
    }

    @Test("Ctrl-C while a relay does not answer a sync; the next sync sends the same work, once")
    func syncThatHangs() async throws {
        try await Workshop.with { shop in
            let url = try await shop.makeReplicas()
            let (silent, relay) = try await FakeRelay.silence.start(in: shop.path)
            defer { relay.endInput() }
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Bern' WHERE id = 1;")
            try await shop.shell("shop.db", "UPDATE annals_meta SET value = '\(silent)' WHERE name = 'relay';")
            let sync = try Program(Workshop.annals, ["sync", "shop.db"], in: shop.path)
            _ = try await relay.prints("/push")
            sync.signal(SIGINT)
            let outcome = try await sync.end()
            #expect(outcome.status == 130 && outcome.errors == "", "\(outcome)")

            try await shop.shell("shop.db", "UPDATE annals_meta SET value = '\(url)' WHERE name = 'relay';")
            let next = try await shop.succeed("sync", "shop.db", "laptop.db", "--json").objects()
            #expect((next[0]["pushed"] as? [String: Any])?["transactions"] as? Int == 1)
            try await shop.expectEqual("shop.db", "laptop.db")
        }
    }

    @Test("Ctrl-C while a relay does not answer a join; the store is as it was")
    func joinThatHangs() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            let (silent, relay) = try await FakeRelay.silence.start(in: shop.path)
            defer { relay.endInput() }
            let join = try Program(Workshop.annals, ["join", "shop.db", "--relay", silent, "--space", "shop"], in: shop.path)
            _ = try await relay.prints("/spaces/shop")
            join.signal(SIGINT)
            let outcome = try await join.end()
            #expect(outcome.status == 130 && outcome.errors == "", "\(outcome)")
            #expect(try shop.names() == ["shop.db"])
            let url = try await shop.relay()
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
        }
    }

    @Test("Ctrl-C in the middle of a replay leaves no file")
    func replay() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            // So much history that undoing it is not finished when the signal arrives.
            try await shop.shell(
                "shop.db",
                """
                INSERT INTO customer (name) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
                    SELECT 'customer ' || i FROM n;
                UPDATE customer SET city = 'a' || id;
                """)
            let digest = try await shop.succeed("digest", "shop.db").output
            let before = try shop.names()
            let replay = try Program(Workshop.annals, ["replay", "shop.db", "--to", "start", "--output", "old.db"], in: shop.path)
            try await eventually("the new file is begun") { try shop.names() != before }
            replay.signal(SIGINT)
            let outcome = try await replay.end()
            #expect(outcome.status == 130 && outcome.errors == "", "\(outcome)")
            let after = try shop.names()
            #expect(after == before)
            #expect(try await shop.succeed("digest", "shop.db").output == digest)
        }
    }

    @Test("Ctrl-C in the middle of the demonstration leaves no folder")
    func demo() async throws {
        try await Workshop.with { shop in
            // It runs for a second or two. On a busy machine it may end before the test checks, and then the test runs it again.
            var status: Int32 = 0
            for _ in 0..<50 where status == 0 {
                let demo = try Program(Workshop.annals, ["demo"], in: shop.path, environment: ["TMPDIR": shop.path])
                try await eventually("its relay has begun") {
                    try !demo.isRunning || shop.names().contains { shop.exists("\($0)/relay/relay.db") }
                }
                demo.signal(SIGINT)
                status = try await demo.end().status
                #expect(try shop.names().isEmpty)
            }
            #expect(status == 130)
        }
    }

    @Test("a relay that is told to stop ends with status 0, and so does a watching sync")
    func services() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            let (url, relay) = try await shop.startRelay(data: "relay-data", listen: "127.0.0.1:0")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop")
            let watch = try Program(Workshop.annals, ["sync", "shop.db", "--watch"], in: shop.path)
            _ = try await watch.prints("shop.db: ")
            watch.signal(SIGTERM)
            #expect(try await watch.end().status == 0)
            relay.signal(SIGTERM)
            let outcome = try await relay.end()
            #expect(outcome.status == 0 && outcome.errorLines.count == 1, "\(outcome)")
            #expect(outcome.errors.contains(" notice the relay serves ") && outcome.errors.contains("no-auth=true"), "\(outcome)")
        }
    }

    @Test("a reader that goes away ends a listing quietly")
    func brokenPipe() async throws {
        try await Workshop.with { shop in
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.shell(
                "shop.db",
                """
                INSERT INTO customer (name) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                    SELECT 'customer ' || i FROM n;
                """)
            let script = "set -o pipefail; '\(Workshop.annals)' history shop.db --values | head -1; echo ${PIPESTATUS[0]}"
            let outcome = try await Program.run("bash", ["-c", script], in: shop.path)
            #expect(
                outcome.lines.count == 2 && outcome.lines.last == "0" && outcome.errors == "",
                "\(outcome.lines.last ?? "") \(outcome.errors)")
        }
    }
}
