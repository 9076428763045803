import Foundation
import Testing

/// The log lines of a relay at the most verbose level.
@Suite struct RelayLogLinesTests {
    /// Syncs two stores with words that must not be in a log. Returns the log's lines, these words, and the id of a refused
    /// request as `sync --json` prints it.
    private func log(_ arguments: [String]) async throws -> (lines: [String], hidden: [String], refused: String) {
        var result: (lines: [String], hidden: [String], refused: String) = ([], [], "")
        try await Workshop.with { shop in
            let (url, relay) = try await shop.startRelay(
                ["--data", "relay-data", "--listen", "127.0.0.1:0", "--log-level", "trace"] + arguments)
            let made = try await shop.succeed("relay", "token", "create", "--data", "relay-data", "--scope", "write")
            let token = try #require(made.lines.first)
            try Data(token.utf8).write(to: URL(fileURLWithPath: shop.file("token")))
            try await shop.makeShop()
            try await shop.succeed("track", "shop.db", "--all")
            try await shop.succeed("join", "shop.db", "--relay", url, "--space", "shop", "--credential-file", "token")
            try await shop.succeed("clone", url, "shop", "laptop.db", "--credential-file", "token")
            try await shop.shell("shop.db", "UPDATE customer SET city = 'Payloadville' WHERE id = 1;")
            try await shop.succeed("sync", "shop.db", "laptop.db")
            try Data("ann_nonsense-that-is-no-token".utf8).write(to: URL(fileURLWithPath: shop.file("token")))
            try await shop.fail(77, "At the level info, the relay's log has it as request ", "sync", "shop.db")
            let refusal = try await shop.annals("sync", "shop.db", "--json")
            let object = try JSONSerialization.jsonObject(with: Data(refusal.output.utf8)) as? [String: Any]
            let refused = try #require((object?["error"] as? [String: Any])?["request"] as? String, "\(refusal)")
            relay.signal(SIGTERM)
            let outcome = try await relay.end()
            #expect(outcome.status == 0)
            result = (
                outcome.errorLines,
                [token, String(token.dropFirst(4)), "nonsense-that", "Payloadville", "Vera", "vera@example.org", "customer", "invoice"],
                refused
            )
        }
        return result
    }

    private func expectHidden(_ lines: [String], _ hidden: [String]) {
        for word in hidden {
            #expect(!lines.contains { $0.contains(word) }, "\(word)")
            // Also not in the form in which libraries print bytes.
            let encoded = Data(word.utf8).base64EncodedString().prefix(12)
            #expect(!lines.contains { $0.contains(encoded) }, "\(word)")
        }
    }

    @Test func `a line in text for every request, with its id, and never a token or a payload`() async throws {
        let (lines, hidden, refused) = try await log([])
        expectHidden(lines, hidden)
        let requests = lines.filter { $0.contains(" info request ") }
        #expect(
            requests.contains { $0.contains("method=POST") && $0.contains("route=/v1/spaces/{space}/push") && $0.contains("status=200") })
        #expect(requests.contains { $0.contains("status=401") && $0.contains("code=not-authenticated") })
        #expect(requests.contains { $0.contains("status=401") && $0.contains(" request=\(refused)") })
        #expect(requests.allSatisfy { $0.contains("microseconds=") && $0.contains(" request=") })
    }

    @Test func `with --log-format json every line is an object, and every request has an id of its own`() async throws {
        let (lines, hidden, refused) = try await log(["--log-format", "json"])
        expectHidden(lines, hidden)
        let objects = try lines.map { line in
            try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: String], "\(line)")
        }
        #expect(objects.allSatisfy { $0["time"] != nil && $0["level"] != nil && $0["message"] != nil })
        let requests = objects.filter { $0["message"] == "request" }
        #expect(requests.count > 5 && Set(requests.compactMap { $0["request"] }).count == requests.count)
        #expect(requests.contains { $0["request"] == refused && $0["status"] == "401" })
        #expect(requests.contains { $0["route"] == "/v1/spaces/{space}/push" && $0["space"] == "shop" && $0["status"] == "200" })
    }
}
