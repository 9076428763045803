import AnnalsCore
import AnnalsWire
import HTTPTypes
import Foundation
import RelayLog
import RelayTestSupport
import Testing

@testable import Relay

/// Wrong requests to every endpoint over a plain connection: a problem with its code, or a clean close. The relay continues.
@Suite(.timeLimit(.minutes(20))) struct RawInputTests {
    let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    /// The expected answer.
    enum Expected: Sendable {
        case problem(Int, String)
        case status(Int)
        /// No answer, or a short refusal, and then the end of the connection.
        case closed
    }

    struct Case: Sendable {
        var name: String
        var bytes: String
        var expected: Expected
        /// The client ends sending.
        var isHalfClosed = false
    }

    static let types = ["push": Endpoints.MediaType.batch, "snapshot": Endpoints.MediaType.snapshot]

    static func request(
        _ method: String, _ path: String, _ headers: [String] = [], body: String? = nil, token: String = "TOKEN"
    ) -> String {
        var lines = ["\(method) \(path) HTTP/1.1", "Host: localhost", "Connection: close"] + headers
        if !token.isEmpty { lines.append("Authorization: Bearer \(token)") }
        if let body { lines.append("Content-Length: \(body.utf8.count)") }
        return (lines + ["", body ?? ""]).joined(separator: "\r\n")
    }

    private static let shop = "/v1/spaces/shop"
    private static let batch = "Content-Type: \(Endpoints.MediaType.batch)"
    private static let snapshot = "Content-Type: \(Endpoints.MediaType.snapshot)"

    /// Every address of the API, with its methods.
    private static let every: [(path: String, methods: Set<String>)] = {
        var methods: [String: Set<String>] = [:]
        for operation in APIOperations.all {
            let path = operation.path.replacing(/{(\w+)}/) { $0.output.1 == "space" ? "shop" : "1" }
            methods[path, default: []].insert(operation.method.rawValue)
            if operation.method == .get { methods[path, default: []].insert("HEAD") }
        }
        return methods.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }()

    static var cases: [Case] {
        var cases: [Case] = []
        func add(_ name: String, _ bytes: String, _ expected: Expected, halfClosed: Bool = false) {
            cases.append(Case(name: name, bytes: bytes, expected: expected, isHalfClosed: halfClosed))
        }
        for (path, methods) in every {
            for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] where !methods.contains(method) {
                add("method \(method) \(path) ", request(method, path, body: ""), .problem(405, "method-not-allowed"))
            }
        }
        let endpoints: [(path: String, methods: Set<String>)] = [
            ("/health/live", ["GET", "HEAD"]), ("/health/ready", ["GET", "HEAD"]), (shop, ["GET", "HEAD", "PUT"]),
            (shop + "/push", ["POST"]),
            (shop + "/entries?after=0", ["GET", "HEAD"]), (shop + "/events", ["GET", "HEAD"]),
            (shop + "/snapshot", ["GET", "HEAD", "PUT"]),
        ]
        for (path, methods) in endpoints {
            guard !path.hasPrefix("/health") else { continue }
            let method = methods.contains("GET") ? "GET" : "POST"
            add("no token \(path)", request(method, path, token: ""), .problem(401, "not-authenticated"))
            add("wrong token \(path)", request(method, path, token: "ann_wrong"), .problem(401, "not-authenticated"))
            add("a web token \(path)", request(method, path, token: "e30.e30."), .problem(401, "not-authenticated"))
            add("scope \(path)", request(method, path.replacing("shop", with: "other")), .problem(403, "not-permitted"))
            add("absent space \(path)", request(method, path.replacing("shop", with: "none")), .problem(403, "not-permitted"))
            for name in ["a%20b", "%00", "%FF%FE", "..%2f..%2fetc", "x%ZZ", String(repeating: "n", count: 65), "%E2%82%AC"] {
                let wrong = path.replacing("shop", with: name)
                add("name \(name) \(path)", request(method, wrong), .problem(400, "bad-request"))
            }
        }
        for path in ["/v1/spaces", "/v1/spaces/"] {
            add("an operator's \(path)", request("GET", path), .problem(403, "not-permitted"))
        }
        for path in ["/", "//", "/v1/spaces/shop/../../etc/passwd", "/metrics/x", "/v1/%2e%2e/x"] {
            add("nowhere \(path)", request("GET", path), .problem(404, "not-found"))
        }
        // Types and encodings.
        for type in ["", "Content-Type: text/plain", "Content-Type: ;;;"] {
            let header = type.isEmpty ? [] : [type]
            add("type \(type)", request("POST", shop + "/push", header, body: "x"), .problem(415, "unsupported-media-type"))
            add("type \(type)", request("PUT", shop + "/snapshot?position=0", header, body: "x"), .problem(415, "unsupported-media-type"))
        }
        for encoding in ["gzip", "br", "zstd", "nonsense"] {
            let headers = [batch, "Content-Encoding: \(encoding)"]
            add("encoding \(encoding)", request("POST", shop + "/push", headers, body: "x"), .problem(415, "unsupported-media-type"))
        }
        // Lengths.
        let push = request("POST", shop + "/push", [batch])
        func framed(_ header: String, _ body: String = "") -> String { push.replacing("\r\n\r\n", with: "\r\n\(header)\r\n\r\n") + body }
        add("no length, no body", push, .problem(422, "corrupt-batch"))
        add("length 0", framed("Content-Length: 0"), .problem(422, "corrupt-batch"))
        for length in ["-1", "x", "1e3", "99999999999999999999999", "0x10", "1, 2", "+5"] {
            add("length \(length)", framed("Content-Length: \(length)", "x"), .closed)
        }
        add("two lengths", framed("Content-Length: 1\r\nContent-Length: 2", "xy"), .closed)
        add("length and chunks", framed("Content-Length: 1\r\nTransfer-Encoding: chunked", "0\r\n\r\n"), .closed)
        for coding in ["xchunked", "chunkedx", "chunked, chunked", "gzip, chunked", "x, chunked"] {
            add("transfer encoding \(coding)", framed("Transfer-Encoding: \(coding)", "0\r\n\r\n"), .closed, halfClosed: true)
        }
        add("transfer encoding xchunked of a GET", request("GET", shop, ["Transfer-Encoding: xchunked"]), .problem(400, "bad-request"))
        add("another transfer encoding", framed("Transfer-Encoding: gzip", "x"), .closed, halfClosed: true)
        add("too long", framed("Content-Length: 20001", String(repeating: "x", count: 20_001)), .problem(413, "too-large"))
        add("announced too long", framed("Content-Length: 9000000000"), .problem(413, "too-large"), halfClosed: true)
        let chunk = "1000\r\n" + String(repeating: "x", count: 0x1000) + "\r\n"
        let chunks = String(repeating: chunk, count: 6) + "0\r\n\r\n"
        add("too long in chunks", framed("Transfer-Encoding: chunked", chunks), .problem(413, "too-large"))
        add("chunks", framed("Transfer-Encoding: chunked", chunk + "0\r\n\r\n"), .problem(422, "corrupt-batch"))
        for wrong in ["zz\r\nx\r\n", "-1\r\nx\r\n", "FFFFFFFFFFFFFFFFF\r\nx\r\n", "5\r\nabc"] {
            add("chunk \(wrong.prefix(3))", framed("Transfer-Encoding: chunked", wrong), .closed, halfClosed: true)
        }
        add("half a body", framed("Content-Length: 100", "half"), .closed, halfClosed: true)
        add("half a head", String(push.prefix(60)), .closed, halfClosed: true)
        add("nothing", "", .closed, halfClosed: true)
        add("half closed behind a whole request", request("GET", shop), .status(200), halfClosed: true)
        // Positions, digests, identities.
        for after in ["", "x", "-1", "1.5", "9223372036854775808", "%00", "1e9", "0&after=x"] {
            let expected: Expected = after == "0&after=x" ? .status(200) : .problem(400, "bad-request")
            add("after \(after)", request("GET", shop + "/entries?after=\(after)"), expected)
        }
        add("no after", request("GET", shop + "/entries"), .problem(400, "bad-request"))
        add("after the head", request("GET", shop + "/entries?after=9223372036854775807"), .problem(409, "log-rolled-back"))
        for header in ["Annals-Lineage: x", "Annals-Replica: x", "Annals-Lineage: 00000000-0000-0000-0000-000000000000\r\nAnnals-Seen: x"] {
            add("header \(header.prefix(20))", request("GET", shop + "/entries?after=0", [header]), .problem(400, "bad-request"))
        }
        let digest = "Annals-Digest: \(String(repeating: "0", count: 64))"
        for position in ["", "?position=", "?position=x", "?position=-1"] {
            let put = request("PUT", shop + "/snapshot" + position, [snapshot, digest], body: "x")
            add("snapshot at \(position)", put, .problem(400, "bad-request"))
        }
        add("snapshot, digest", request("PUT", shop + "/snapshot?position=0", [snapshot, digest], body: "x"), .problem(422, "bad-digest"))
        add(
            "snapshot, no digest", request("PUT", shop + "/snapshot?position=0", [snapshot], body: "x"), .problem(400, "bad-request"))
        for range in ["bytes 5-2/9", "bytes 0-9/5", "x", "bytes 0-99999999999999999999/5"] {
            let put = request("PUT", shop + "/snapshot?position=0", [snapshot, digest, "Content-Range: \(range)"], body: "x")
            add("part \(range)", put, .problem(400, "bad-request"))
        }
        // Oversize and not HTTP.
        let long = String(repeating: "y", count: 20_000)
        add("long address", request("GET", shop + "?" + long), .closed)
        add("long header", request("GET", shop, ["X: " + long]), .closed)
        add("many headers", request("GET", shop, (0..<300).map { "X-\($0): 1" }), .closed)
        for junk in [
            "\u{16}\u{3}\u{1}\u{2}\u{0}", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\r\n\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            ": :\r\n\r\n",
        ] {
            add("junk", junk, .closed, halfClosed: true)
        }
        add("a header without a name", "GET \(shop) HTTP/1.1\r\n: x\r\n\r\n", .closed, halfClosed: true)
        add("a header with a space", "GET \(shop) HTTP/1.1\r\nA b: x\r\n\r\n", .closed, halfClosed: true)
        add(
            "a folded header", "GET \(shop) HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\nConnection: close\r\n\r\n", .closed,
            halfClosed: true)
        return cases
    }

    @Test func `a correct problem or a clean close, one after another, and the log is as it was`() async throws {
        var limits = RelayLimits()
        limits.batch.batchBytes = 20_000
        let secret = try await token()
        try await RunningRelay.run(directory, limits: limits, noAuthorization: false) { relay in
            try await Self.put("shop", relay.port, secret)
            for one in Self.cases { try await Self.check(one, relay.port, secret) }
            let text = try await Self.exchange(Self.request("GET", Self.shop).replacing("TOKEN", with: secret), relay.port)
            #expect(text.contains("\"head\":0,"))
        }
    }

    /// A token for the space `shop`. There is another space too.
    private func token() async throws -> String {
        let log = try RelayLog(directory: directory.path, logger: .silent)
        let (secret, _) = try await log.tokens.create(space: .shop, scope: .write)
        _ = try await log.createSpace(.other)
        await log.close()
        return secret
    }

    static func put(_ space: String, _ port: Int, _ secret: String) async throws {
        let text = try await exchange(request("PUT", "/v1/spaces/\(space)", body: "").replacing("TOKEN", with: secret), port)
        #expect(text.hasPrefix("HTTP/1.1 201"))
    }

    static func exchange(_ text: String, _ port: Int, halfClosed: Bool = false) async throws -> String {
        let connection = try RawConnection(port: port)
        // A relay that refuses early may close before everything is sent.
        try? connection.send(text)
        if halfClosed { connection.finishSending() }
        return try await connection.read(until: nil)
    }

    static func check(_ one: Case, _ port: Int, _ secret: String) async throws {
        let text: String
        do {
            text = try await exchange(one.bytes.replacing("TOKEN", with: secret), port, halfClosed: one.isHalfClosed)
        } catch {
            // An early refusal can end as a reset if bytes were still under way.
            guard case .closed = one.expected, "\(error)".contains("reset") else { throw error }
            return
        }
        let status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) }
        switch one.expected {
        case .status(let expected): #expect(status == expected, "\(one.name): \(text.prefix(200))")
        case .closed: #expect(text.isEmpty || (400..<500).contains(status ?? 0), "\(one.name): \(text.prefix(200))")
        case .problem(let expected, let code):
            #expect(status == expected, "\(one.name): \(text.prefix(300))")
            #expect(text.lowercased().contains("content-type: application/problem+json"), "\(one.name): \(text.prefix(300))")
            #expect(text.contains("\"code\":\"\(code)\"") || one.bytes.hasPrefix("HEAD"), "\(one.name): \(text.prefix(500))")
            #expect(!text.contains(secret), "\(one.name)")
        }
    }

    // MARK: Slow clients

    @Test func `a head that drips in is cut off, and so is a body`() async throws {
        var limits = RelayLimits()
        (limits.idleSeconds, limits.slowSeconds, limits.slowBytesPerSecond) = (1, 1, 1000)
        try await RunningRelay.run(directory, limits: limits) { relay in
            let lineage = try await ServerTests.create(relay.port)
            let head = "POST /v1/spaces/shop/push HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/vnd.annals.batch\r\n"
            async let first = Self.drip(head, "X-A: b\r\n", relay.port)
            async let second = Self.drip(head + "Content-Length: 100000\r\n\r\n", "12345", relay.port)
            // Another client is served meanwhile.
            var replica = TestReplica(1)
            try await ServerTests.push(replica.batch(lineage, base: .zero, .writing(1)), port: relay.port)
            _ = try await (first, second)
        }
    }

    /// Sends a piece every tenth of a second, until the other side closes. A test that waits forever fails at its time limit.
    private static func drip(_ start: String, _ piece: String, _ port: Int) async throws {
        let connection = try RawConnection(port: port)
        try connection.send(start)
        let ended = Task { _ = try? await connection.read(until: nil) }
        let sending = Task {
            while !Task.isCancelled {
                guard (try? connection.send(piece)) != nil else { return }
                try await ContinuousClock().sleep(for: .milliseconds(100))
            }
        }
        await ended.value
        sending.cancel()
    }

    @Test func `a reader that takes nothing of its answer is cut off`() async throws {
        var limits = RelayLimits()
        (limits.stalledSeconds, limits.slowSeconds) = (1, 1)
        try await RunningRelay.run(directory, limits: limits) { relay in
            let lineage = try await ServerTests.create(relay.port)
            var replica = TestReplica(1)
            let payload = (0..<(8 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            try await ServerTests.push(replica.batch(lineage, base: .zero, .writing(1), payload: payload), port: relay.port)
            let connection = try RawConnection(port: relay.port)
            try connection.send("GET /v1/spaces/shop/entries?after=0 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            // Only the connection of this check is left.
            while try await ServerTests.metric("annals_relay_connections", relay.port) != 1 {}
            // Only the bytes that the system had accepted arrive.
            let text = (try? await connection.readCount()) ?? 0
            #expect(text < 8 << 20)
            #expect(try await ServerTests.health(relay.port).hasPrefix("HTTP/1.1 200"))
        }
    }

    @Test func `connections beyond the limit wait until one closes`() async throws {
        var limits = RelayLimits()
        limits.connections = 2
        try await RunningRelay.run(directory, limits: limits) { relay in
            var held: [RawConnection] = []
            for _ in 0..<2 {
                let connection = try RawConnection(port: relay.port)
                try connection.send("GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                #expect(try await connection.read(until: "live\"}").contains("200"))
                held.append(connection)
            }
            let third = try RawConnection(port: relay.port, timeoutSeconds: 1)
            try third.send("GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await #expect(throws: RawConnection.Failure.self) { try await third.read(until: "live") }
            held = []
            var answer: String?
            for _ in 0..<1200 where answer == nil { answer = try? await third.read(until: "live\"}") }
            #expect(answer?.contains("200") == true)
        }
    }
}
