import Foundation
import Testing

/// A relay that serves HTTPS, and stores that sync with it.
@Suite struct TLSTests {
    private static let quiet = ["CURL_CA_BUNDLE": "", "SSL_CERT_FILE": "", "SSL_CERT_DIR": ""]

    /// A relay with a token, a tracked store that can join a space there, and the authority of the relay's certificate.
    private struct Scene {
        var shop: Workshop
        var authority: CertificateAuthority
        var url: String
        var relay: Program

        func annals(_ arguments: String..., environment: [String: String] = [:]) async throws -> Outcome {
            let all = TLSTests.quiet.merging(["ANNALS_CREDENTIAL": try token()]) { $1 }.merging(environment) { $1 }
            return try await Program.run(Workshop.annals, arguments, in: shop.path, environment: all)
        }

        func token() throws -> String {
            String(decoding: try shop.bytes("token"), as: UTF8.self)
        }
    }

    private func scene(_ body: (Scene) async throws -> Void) async throws {
        try await Workshop.with { shop in
            let authority = try await CertificateAuthority(in: shop)
            try await authority.issue("relay", for: "IP:127.0.0.1,DNS:relay.test")
            let (url, relay) = try await shop.startRelay([
                "--data", "relay-data", "--listen", "127.0.0.1:0", "--tls-cert", "relay.pem", "--tls-key", "relay.key",
            ])
            #expect(url.hasPrefix("https://127.0.0.1:"))
            let token = try await shop.succeed("relay", "token", "create", "--data", "relay-data", "--scope", "write")
            try Data(try #require(token.lines.first).utf8).write(to: URL(fileURLWithPath: shop.file("token")))
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await body(Scene(shop: shop, authority: authority, url: url, relay: relay))
        }
    }

    @Test func `join, clone, sync and replay over HTTPS; the store remembers the authority and the pin`() async throws {
        try await scene { scene in
            let (shop, url) = (scene.shop, scene.url)
            let pin = try await scene.authority.pin("relay")
            let join = try await scene.annals("join", "shop.db", "--relay", url, "--space", "shop", "--ca-file", "ca.pem", "--pin", pin)
            try #require(join.status == 0, "\(join.errors)")
            let clone = try await scene.annals("clone", url, "shop", "laptop.db", "--ca-file", "ca.pem")
            try #require(clone.status == 0, "\(clone.errors)")
            try await shop.shell("laptop.db", "UPDATE customer SET city = 'Oslo' WHERE id = 1;")
            let sync = try await scene.annals("sync", "laptop.db", "shop.db")
            #expect(sync.status == 0, "\(sync.errors)")
            try await shop.expectEqual("shop.db", "laptop.db")
            let replay = try await scene.annals(
                "replay", "--relay", url, "--space", "shop", "--to", "1", "--ca-file", "ca.pem", "--output", "then.db")
            #expect(replay.status == 0, "\(replay.errors)")

            // The store remembers pins only after a connection with one of them. `--pin none` removes all.
            let wrong = "sha256//" + Data(repeating: 1, count: 32).base64EncodedString()
            let pins = "SELECT value FROM annals_meta WHERE name = 'pins';"
            shop.expectFailure(try await scene.annals("sync", "shop.db", "--pin", wrong), 69, "is not a pinned key")
            #expect(try await scene.annals("sync", "shop.db").status == 0)
            #expect(try await scene.annals("sync", "shop.db", "--pin", wrong, "--pin", pin).status == 0)
            #expect(try await shop.shell("shop.db", pins).contains(wrong))
            #expect(try await scene.annals("sync", "shop.db", "--pin", "none").status == 0)
            #expect(try await shop.shell("shop.db", pins).isEmpty)

            // A store that leaves the space forgets the pins and the authority.
            try await shop.succeed("leave", "shop.db")
            #expect(try await shop.shell("shop.db", "SELECT count(*) FROM annals_meta WHERE name IN ('ca_file', 'pins');") == "0")
        }
    }

    @Test func `a relay that is not trusted is reported in one line, and nothing is changed`() async throws {
        try await scene { scene in
            let (shop, url) = (scene.shop, scene.url)
            let join = ["join", "shop.db", "--space", "shop", "--relay"]
            func fails(_ status: Int32, _ words: String, _ arguments: [String], _ environment: [String: String] = [:]) async throws {
                let all = Self.quiet.merging(["ANNALS_CREDENTIAL": try scene.token()]) { $1 }.merging(environment) { $1 }
                let outcome = try await Program.run(Workshop.annals, arguments, in: shop.path, environment: all)
                shop.expectFailure(outcome, status, words)
            }
            try await fails(69, "no trusted authority issued the certificate", join + [url])
            let elsewhere = url.replacing("127.0.0.1", with: "localhost")
            try await fails(69, "is for another host", join + [elsewhere, "--ca-file", "ca.pem"])
            try await fails(66, "there is no certificate file", join + [url, "--ca-file", "missing.pem"])
            try await fails(78, "contains no certificate", join + [url, "--ca-file", "shop.db"])
            try await fails(64, "is invalid for '--pin", join + [url, "--pin", "sha256//short"])
            let plain = url.replacing("https:", with: "http:")
            try await fails(64, "is not an https address", join + [plain, "--ca-file", "ca.pem"])
            try await fails(69, "cannot be reached", join + [plain])
            try await fails(69, "cannot be read", join + [url], ["CURL_CA_BUNDLE": "missing.pem"])
            try await fails(64, "need --relay", ["replay", "shop.db", "--to", "1", "--output", "x.db", "--ca-file", "ca.pem"])
            // Authorities of the environment are trusted, too.
            #expect(
                try await scene.annals("clone", url, "none", "x.db", environment: ["SSL_CERT_FILE": "ca.pem"]).errors.contains(
                    "no such space"))
            #expect(try await shop.shell("shop.db", "SELECT count(*) FROM annals_meta WHERE name = 'space';") == "0")
        }
    }

    @Test func `a pin alone does not make a self-made certificate trusted, and the error says what to add`() async throws {
        try await Workshop.with { shop in
            let authority = try await CertificateAuthority(in: shop)
            try await authority.makeSelfIssued("own")
            let (url, _) = try await shop.startRelay([
                "--data", "relay-data", "--listen", "127.0.0.1:0", "--no-auth", "--tls-cert", "own.pem", "--tls-key", "own.key",
            ])
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            let join = ["join", "shop.db", "--relay", url, "--space", "shop", "--pin", try await authority.pin("own")]
            let refused = try await Program.run(Workshop.annals, join, in: shop.path, environment: Self.quiet)
            shop.expectFailure(refused, 69, "add --ca-file with the certificate itself. --pin is checked in addition")
            let joined = try await Program.run(Workshop.annals, join + ["--ca-file", "own.pem"], in: shop.path, environment: Self.quiet)
            #expect(joined.status == 0, "\(joined.errors)")
            try await shop.succeed("sync", "shop.db")
        }
    }

    @Test func `SIGHUP does not end a relay without a certificate`() async throws {
        try await Workshop.with { shop in
            let relay = try await shop.startRelay(data: "relay-data", listen: "127.0.0.1:0").program
            relay.signal(SIGHUP)
            relay.signal(SIGTERM)
            #expect(try await relay.end().status == 0)
        }
    }

    @Test func `after SIGHUP new connections use the new certificate; an unusable certificate changes nothing`() async throws {
        try await scene { scene in
            let (shop, authority, url) = (scene.shop, scene.authority, scene.url)
            let pins = try await [authority.pin("relay")]
            let join = try await scene.annals("join", "shop.db", "--relay", url, "--space", "shop", "--ca-file", "ca.pem")
            try #require(join.status == 0, "\(join.errors)")
            #expect(try await scene.annals("clone", url, "shop", "laptop.db", "--ca-file", "ca.pem").status == 0)
            #expect(try await scene.annals("clone", url, "shop", "phone.db", "--ca-file", "ca.pem").status == 0)
            // Open connections: an event stream, and those of a store that syncs continuously.
            let watch = try Program(
                Workshop.annals, ["sync", "phone.db", "--watch"], in: shop.path, environment: ["ANNALS_CREDENTIAL": try scene.token()])
            try await eventually("a first exchange") { watch.errors.contains("connected to the relay") }
            let stream = try Program(
                "curl", ["-sN", "--cacert", "ca.pem", "-H", "Authorization: Bearer \(try scene.token())", "\(url)/v1/spaces/shop/events"],
                in: shop.path)
            _ = try await stream.prints("event: head\nid: 1/")

            try await authority.issue("second")
            try authority.put("second", inPlaceOf: "relay")
            scene.relay.signal(SIGHUP)
            try await eventually("the new certificate") { scene.relay.errors.contains("the certificate was reloaded") }
            shop.expectFailure(try await scene.annals("sync", "laptop.db", "--pin", pins[0]), 69, "is not a pinned key")
            #expect(try await scene.annals("sync", "laptop.db", "--pin", try await authority.pin("second")).status == 0)

            // A key that does not belong to the certificate, and an expired certificate.
            try await authority.issue("third")
            try shop.bytes("third.key").write(to: URL(fileURLWithPath: shop.file("relay.key")))
            scene.relay.signal(SIGHUP)
            try await eventually("the refusal") { scene.relay.errors.contains("does not belong to the certificate") }
            try await authority.issue("old", days: -1)
            try authority.put("old", inPlaceOf: "relay")
            scene.relay.signal(SIGHUP)
            try await eventually("the refusal") { scene.relay.errors.contains("relay.pem expired on") }
            #expect(scene.relay.errors.split(separator: "\n").filter { $0.contains("the old one remains in use") }.count == 2)

            // The connections from before the first SIGHUP are still open.
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Oslo' WHERE id = 1;")
            #expect(try await scene.annals("sync", "shop.db").status == 0)
            _ = try await stream.prints("event: head\nid: 2/")
            stream.signal(SIGTERM)
            try await eventually("the change of the other replica") {
                try await shop.shell("phone.db", "SELECT city FROM customer WHERE id = 1;") == "Oslo"
            }
            watch.signal(SIGTERM)
            _ = try await watch.end()
            #expect(!watch.errors.contains("retrying"), "\(watch.errors)")
        }
    }

    @Test func `an unusable certificate is reported before the relay serves`() async throws {
        try await Workshop.with { shop in
            let authority = try await CertificateAuthority(in: shop)
            for name in ["good", "other"] { try await authority.issue(name) }
            try await authority.issue("old", days: -1)
            func serve(_ certificate: String, _ key: String, _ words: String, _ status: Int32 = 78) async throws {
                try await shop.fail(
                    status, words, "relay", "serve", "--data", "data", "--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key",
                    key)
            }
            try await serve("missing.pem", "good.key", "does not exist")
            try await serve("good.pem", "missing.key", "does not exist")
            try await serve("good.key", "good.key", "contains no certificate")
            try await serve("good.pem", "good.pem", "contains no readable private key")
            try await serve("good.pem", "other.key", "does not belong")
            try await serve("old.pem", "old.key", "expired on")
            try await shop.fail(64, "give --tls-cert and --tls-key together", "relay", "serve", "--data", "data", "--tls-cert", "good.pem")
            #expect(!shop.exists("data"))
            // Addresses other than this machine's own need no further option with TLS.
            try await shop.fail(78, "unencrypted", "relay", "serve", "--data", "data", "--listen", "0.0.0.0:0")
            let (url, _) = try await shop.startRelay([
                "--data", "data", "--listen", "0.0.0.0:0", "--tls-cert", "good.pem", "--tls-key", "good.key",
            ])
            #expect(url.hasPrefix("https://0.0.0.0:"))
        }
    }

    @Test func `TLS is 1.2 or newer, and a connection without TLS is closed`() async throws {
        try await scene { scene in
            let port = try #require(scene.url.split(separator: ":").last.map(String.init))
            let outcome = try await Program.run("python3", ["-c", Self.probe, port], in: scene.shop.path)
            #expect(outcome.lines == ["1.1 refused", "1.2 TLSv1.2 http/1.1", "1.3 TLSv1.3 http/1.1", "plain closed"], "\(outcome.errors)")
            #expect(try await scene.annals("clone", scene.url, "none", "x.db", "--ca-file", "ca.pem").errors.contains("no such space"))
        }
    }

    private static let probe = """
        import socket, ssl, sys, warnings
        warnings.simplefilter("ignore")
        port = int(sys.argv[1])
        for name, version in (("1.1", ssl.TLSVersion.TLSv1_1), ("1.2", ssl.TLSVersion.TLSv1_2), ("1.3", ssl.TLSVersion.TLSv1_3)):
            context = ssl.create_default_context(cafile="ca.pem")
            context.set_ciphers("DEFAULT@SECLEVEL=0")
            context.set_alpn_protocols(["h2", "http/1.1"])
            context.minimum_version = context.maximum_version = version
            try:
                with context.wrap_socket(socket.create_connection(("127.0.0.1", port), 10), server_hostname="127.0.0.1") as secure:
                    print(name, secure.version(), secure.selected_alpn_protocol())
            except (ssl.SSLError, ConnectionError):
                print(name, "refused")
        with socket.create_connection(("127.0.0.1", port), 30) as plain:
            plain.sendall(b"GET /health/live HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
            data = b""
            try:
                while piece := plain.recv(4096): data += piece
            except ConnectionError: pass
            print("plain", "answered" if b"HTTP/" in data else "closed")
        """
}
