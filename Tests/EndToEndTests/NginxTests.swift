import Foundation
import Testing

/// nginx in front of a relay, with the settings of Documentation/relay.md: it sends full pages from its cache, and only to those to whom
/// the relay would send them.
@Suite struct NginxTests {
    /// One answer over HTTP.
    private struct Answer: Equatable {
        var status: Int
        /// MISS, HIT or BYPASS; nil if the relay answered by itself.
        var cache: String?
        var tag: String?
        var control: String?
        var clock: Int64?
        var body: Data
    }

    /// A relay with tokens, and nginx in front of it.
    private struct Scene {
        let shop: Workshop
        let relay: String
        let proxy: String
        let tokens: [String: String]

        /// Sends a request with curl.
        func ask(
            _ base: String, _ path: String, _ token: String?, head: Bool = false, unless tag: String? = nil
        ) async throws -> Answer {
            var arguments = ["--silent", "--show-error", "--noproxy", "*", "--dump-header", "answer-head", "--output", "answer-body"]
            if head { arguments.append("--head") }
            if let token { arguments += ["--header", "Authorization: Bearer \(tokens[token] ?? token)"] }
            if let tag { arguments += ["--header", "If-None-Match: \(tag)"] }
            try Data().write(to: URL(fileURLWithPath: shop.file("answer-body")))
            let outcome = try await Program.run("curl", arguments + [base + path], in: shop.path)
            try #require(outcome.status == 0, "\(outcome.errors)")
            let lines = String(decoding: try shop.bytes("answer-head"), as: UTF8.self).split(separator: "\r\n").map(String.init)
            func field(_ name: String) -> String? {
                lines.first { $0.lowercased().hasPrefix(name + ": ") }.map { String($0.dropFirst(name.count + 2)) }
            }
            return Answer(
                status: Int(lines.first?.split(separator: " ").dropFirst().first ?? "") ?? 0, cache: field("x-cache-status"),
                tag: field("etag"), control: field("cache-control"), clock: field("annals-time").flatMap { Int64($0) },
                body: head ? Data() : try shop.bytes("answer-body"))
        }

        /// The pages that the relay has sent by itself.
        func sentPages() async throws -> Int {
            let text = String(decoding: try await ask(relay, "/metrics", "operator").body, as: UTF8.self)
            let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("annals_relay_pulled_pages_total ") })
            return try #require(Int(line.split(separator: " ")[1]))
        }

        var keptFiles: Int {
            FileManager.default.enumerator(atPath: shop.file("nginx/cache"))?.compactMap { $0 as? String }
                .filter { $0.split(separator: "/").count == 3 }.count ?? 0
        }
    }

    /// The settings of the page with the paths of this test. One process, so that ending it by its id ends all of nginx.
    private static func settings(relay: String, port: Int) throws -> String {
        let lines = try TestedPage("Documentation/relay.md").section("Watching it").joined(separator: "\n")
        let blocks = lines.components(separatedBy: "```nginx\n").dropFirst().compactMap { $0.components(separatedBy: "```").first }
        try #require(blocks.count == 2)
        let address = relay.replacingOccurrences(of: "http://", with: "")
        return """
            daemon off;
            master_process off;
            pid nginx.pid;
            error_log stderr;
            events {}
            http {
                access_log off;
                \(["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \($0);" }.joined(separator: "\n"))
                upstream annals_relay { server \(address); keepalive 32; }
                \(blocks[0].replacingOccurrences(of: "/var/cache/nginx/annals", with: "cache"))
                server {
                    listen 127.0.0.1:\(port);
                    client_max_body_size 80m;
                    location / {
                        proxy_pass http://annals_relay;
                        proxy_http_version 1.1;
                        proxy_set_header Connection "";
                        proxy_buffering off;
                    }
                    \(blocks[1])
                }
            }
            """
    }

    /// A port that is free at the moment. nginx cannot choose one by itself.
    private static func freePort(in shop: Workshop) async throws -> Int {
        let script = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"
        return try #require(Int(try await Program.run("python3", ["-c", script], in: shop.path).lines.first ?? ""))
    }

    private static func scene(_ body: (Scene) async throws -> Void) async throws {
        let program = try #require(Nginx.path)
        try await Workshop.with { shop in
            let relay = try await shop.relay("--log-level", "info")
            var tokens: [String: String] = [:]
            for (name, arguments) in [
                ("writer", ["--space", "shop", "--scope", "write"]), ("reader", ["--space", "shop", "--scope", "read"]),
                ("revoked", ["--space", "shop", "--scope", "read"]), ("other", ["--space", "other", "--scope", "read"]),
                ("operator", ["--scope", "admin"]),
            ] {
                let made = try await Program.run(
                    Workshop.annals, ["relay", "token", "create", "--data", "relay-data"] + arguments, in: shop.path)
                tokens[name] = made.lines.first
            }
            try FileManager.default.createDirectory(atPath: shop.file("nginx"), withIntermediateDirectories: false)
            // Another program may take a free port before nginx does.
            for _ in 0..<5 {
                let port = try await Self.freePort(in: shop)
                try Data(try settings(relay: relay, port: port).utf8).write(to: URL(fileURLWithPath: shop.file("nginx/nginx.conf")))
                let nginx = try Program(program, ["-p", shop.file("nginx"), "-c", "nginx.conf", "-e", "stderr"], in: shop.path)
                let scene = Scene(shop: shop, relay: relay, proxy: "http://127.0.0.1:\(port)", tokens: tokens)
                let live = try await Program.run(
                    "curl",
                    [
                        "--silent", "--noproxy", "*", "--fail", "--retry", "30", "--retry-connrefused", "--retry-max-time", "60",
                        "\(scene.proxy)/health/live",
                    ],
                    in: shop.path)
                guard live.status == 0, nginx.isRunning else { continue }
                // It inherits a mask that blocks other signals, and has nothing to finish.
                defer { nginx.signal(SIGKILL) }
                return try await body(scene)
            }
            Issue.record("nginx does not start")
        }
    }

    /// A store in the space, with further transactions of so many bytes, each in a batch of its own.
    private static func fill(_ scene: Scene, bytes: [Int]) async throws {
        let (shop, writer) = (scene.shop, ["ANNALS_CREDENTIAL": scene.tokens["writer"] ?? ""])
        try await shop.makeShop()
        try await shop.succeed("track", "shop.db", "--all")
        let join = try await Program.run(
            Workshop.annals, ["join", "shop.db", "--relay", scene.relay, "--space", "shop"], in: shop.path, environment: writer)
        try #require(join.status == 0, "\(join.errors)")
        for (number, count) in bytes.enumerated() {
            let city = "hex(randomblob(\(count)))"
            try await shop.shell("shop.db", "INSERT INTO customer(name, city) VALUES('\(number)', \(city));")
            try await sync("shop.db", scene)
        }
    }

    private static func sync(_ store: String, _ scene: Scene) async throws {
        let sync = try await Program.run(
            Workshop.annals, ["sync", store], in: scene.shop.path, environment: ["ANNALS_CREDENTIAL": scene.tokens["writer"] ?? ""])
        try #require(sync.status == 0, "\(sync.errors)")
    }

    @Test(.enabled(if: Nginx.path != nil, "nginx is not installed"))
    func `a page comes from the cache for whoever may read it, and for nobody else`() async throws {
        try await Self.scene { scene in
            try await Self.fill(scene, bytes: [10, 10, 10])
            let page = "/v1/spaces/shop/entries?after=1&limit=1"
            let direct = try await scene.ask(scene.relay, page, "reader")
            let sent = try await scene.sentPages()
            let first = try await scene.ask(scene.proxy, page, "reader")
            #expect(first.status == 200 && first.cache == "MISS" && first.body == direct.body && first.tag == direct.tag)
            #expect(try await scene.sentPages() == sent + 1 && scene.keptFiles == 1)
            let second = try await scene.ask(scene.proxy, page + "&wait=30", "writer")
            #expect(second.cache == "HIT" && second.body == direct.body && second.tag == direct.tag)
            #expect(second.control == "private, max-age=86400, immutable")
            #expect(try #require(second.clock) > #require(first.clock))
            #expect(try await scene.sentPages() == sent + 1)
            #expect(try await scene.ask(scene.proxy, page, "reader", unless: direct.tag).status == 304)
            #expect(try await scene.ask(scene.proxy, page, "reader", head: true).status == 200)

            // What the relay refuses, it refuses in the same words through nginx.
            _ = try await scene.shop.succeed("relay", "token", "revoke", "3", "--data", "relay-data")
            for (token, status) in [(nil, 401), ("nonsense", 401), ("revoked", 401), ("other", 403)] as [(String?, Int)] {
                let (straight, proxied) = (
                    try await scene.ask(scene.relay, page, token), try await scene.ask(scene.proxy, page, token)
                )
                #expect(straight.status == status && proxied == straight, "\(token ?? "none")")
            }
            for path in ["/v1/spaces/shop/entries", "/v1/spaces/shop/entries?after=99"] {
                #expect(try await scene.ask(scene.proxy, path, "reader") == scene.ask(scene.relay, path, "reader"))
            }

            // A page that ends at the head is never kept.
            for _ in 0..<2 {
                let newest = try await scene.ask(scene.proxy, "/v1/spaces/shop/entries?after=3&limit=1", "reader")
                #expect(newest.status == 200 && newest.cache == "BYPASS" && newest.control == "no-store" && newest.clock != nil)
            }
            #expect(scene.keptFiles == 1)
            try await Self.fillMore(scene)
            #expect(try await scene.ask(scene.proxy, page, "reader").cache == "HIT")
        }
    }

    /// Another entry, so that the head moves.
    private static func fillMore(_ scene: Scene) async throws {
        try await scene.shop.shell("shop.db", "UPDATE customer SET city = 'Oslo' WHERE id = 1;")
        try await sync("shop.db", scene)
    }

    @Test(.enabled(if: Nginx.path != nil, "nginx is not installed"))
    func `the second clone gets full pages from the cache; after a purge the relay's answer counts`() async throws {
        try await Self.scene { scene in
            let shop = scene.shop
            // Each is most of a page, and together they are less than what makes a snapshot due.
            try await Self.fill(scene, bytes: [1_500_000, 1_500_000, 1_500_000, 1_500_000])
            let reader = ["ANNALS_CREDENTIAL": scene.tokens["reader"] ?? ""]
            func clone(_ name: String) async throws -> Int {
                let before = try await scene.sentPages()
                let clone = try await Program.run(
                    Workshop.annals, ["clone", scene.proxy, "shop", name], in: shop.path, environment: reader)
                try #require(clone.status == 0, "\(clone.errors)")
                try await shop.expectEqual("shop.db", name)
                return try await scene.sentPages() - before
            }
            let all = try await clone("one.db")
            let kept = scene.keptFiles
            #expect(kept >= 2 && all > kept)
            #expect(try await clone("two.db") == all - kept && scene.keptFiles == kept)

            let page = "/v1/spaces/shop/entries?after=1&limit=\(2 << 20)"
            #expect(try await scene.ask(scene.proxy, page, "reader").cache == "HIT")
            // The log becomes long enough for a snapshot, and all before it is dropped.
            for _ in 0..<3 {
                try await shop.shell("shop.db", "INSERT INTO customer(name, city) VALUES('more', hex(randomblob(1500000)));")
                try await Self.sync("shop.db", scene)
            }
            try await shop.succeed("relay", "purge", "--data", "relay-data", "--space", "shop", "--force")
            let (straight, proxied) = (
                try await scene.ask(scene.relay, page, "reader"), try await scene.ask(scene.proxy, page, "reader")
            )
            #expect(straight.status == 410 && proxied == straight)
            #expect(try await scene.ask(scene.proxy, page, "revoked").status == 410)
        }
    }
}

/// The program nginx: of the system, or in the folder in which Scripts/install-dependencies puts it.
enum Nginx {
    static let path: String? = {
        let own = TestedPage.root.appendingPathComponent(".build/nginx/usr/sbin/nginx").path
        return [own, "/usr/sbin/nginx", "nginx"].first { Command.works($0, ["-v"]) }
    }()
}
