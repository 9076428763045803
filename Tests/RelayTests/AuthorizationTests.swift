import AnnalsCore
import AnnalsWire
import HTTPTypes
import Hummingbird
import Logging
import RelayLog
import RelayTestSupport
import Testing

@testable import Relay

/// A relay is closed by default: permissions of tokens.
@Suite struct AuthorizationTests {
    static let requests: [(HTTPRequest.Method, String)] = [
        (.get, "/v1/spaces/shop"), (.put, "/v1/spaces/shop"), (.post, "/v1/spaces/shop/push"), (.get, "/v1/spaces/shop/entries?after=0"),
        (.get, "/v1/spaces/shop/events"), (.get, "/v1/spaces/shop/snapshot"), (.put, "/v1/spaces/shop/snapshot?position=0"),
        (.get, "/nowhere"), (.delete, "/v1/spaces/shop"),
    ]

    @Test func `without a known token every address is closed, also those that do not exist`() async throws {
        var limits = RelayLimits()
        limits.failedLoginsPerMinute = 1_000
        let fixture = try RelayFixture(noAuthorization: false, limits: limits)
        _ = try await fixture.log.createSpace(.shop)
        let (revoked, record) = try await fixture.log.tokens.create(scope: .admin)
        _ = try await fixture.log.tokens.revoke(record.id)
        let (expired, _) = try await fixture.log.tokens.create(scope: .admin, lifetimeMilliseconds: 0)
        try await fixture.run { client in
            for (method, path) in Self.requests {
                for header in [nil, "Bearer", "Bearer ", "Bearer nonsense", "Basic YTpi", "Bearer \(revoked)", "Bearer \(expired)"] {
                    var headers: HTTPFields = [:]
                    headers[.authorization] = header
                    let response = try await client.send(method, path, headers: headers)
                    try response.expectProblem(401, "not-authenticated")
                    #expect(response.headers[.wwwAuthenticate] == "Bearer")
                }
            }
        }
    }

    @Test func `a relay that is open is not reached by a name that somebody pointed at this machine`() async throws {
        let fixture = try RelayFixture()
        _ = try await fixture.log.createSpace(.shop)
        try await fixture.run { client in
            var client = client
            for own in ["localhost", "LOCALHOST:8640", "127.0.0.1:8640", "127.1.2.3", "[::1]:8640"] {
                client.authority = own
                #expect(try await client.send(.get, "/v1/spaces/shop").status == .ok, "\(own)")
            }
            for other in [
                "evil.example", "evil.example:8640", "127.0.0.1.evil.example", "localhost.evil.example:80", "[::2]:8640", "10.0.0.1",
            ] {
                client.authority = other
                for path in ["/v1/spaces/shop", "/v1/spaces", "/v1/admin/tokens", "/metrics"] {
                    try await client.send(.get, path).expectProblem(403, "not-permitted")
                }
            }
        }
    }

    @Test func `read reads, write writes, and neither does so elsewhere`() async throws {
        let fixture = try RelayFixture(noAuthorization: false)
        let lineage = try await fixture.log.createSpace(.shop).lineage
        let tokens = fixture.log.tokens
        let (read, _) = try await tokens.create(space: .shop, scope: .read)
        let (write, _) = try await tokens.create(space: .shop, scope: .write)
        let (all, _) = try await tokens.create(scope: .write)
        try await fixture.run { client in
            var replica = TestReplica(1)
            let batch = replica.batch(lineage, base: .zero, .writing(1)).bytes
            let reader = client.with(token: read)
            #expect(try await reader.send(.get, "/v1/spaces/shop").status == .ok)
            #expect(try await reader.send(.get, "/v1/spaces/shop/entries?after=0").status == .ok)
            try await reader.push(batch).expectProblem(403, "not-permitted")
            try await reader.upload([1], position: 0).expectProblem(403, "not-permitted")
            try await reader.send(.put, "/v1/spaces/shop").expectProblem(403, "not-permitted")
            let writer = client.with(token: write)
            #expect(try await writer.push(batch).status == .ok)
            #expect(try await writer.upload([1], position: 0).status == .created)
            #expect(try await writer.send(.get, "/v1/spaces/shop/snapshot").status == .ok)
            try await writer.send(.put, "/v1/spaces/other").expectProblem(403, "not-permitted")
            #expect(try await client.with(token: all).send(.put, "/v1/spaces/other").status == .created)
        }
    }

    @Test func `a space that is forbidden and one that does not exist look alike`() async throws {
        let fixture = try RelayFixture(noAuthorization: false)
        _ = try await fixture.log.createSpace(.shop)
        let name = try #require(SpaceName("mine"))
        let (token, _) = try await fixture.log.tokens.create(space: name, scope: .admin)
        try await fixture.run { client in
            for (method, path) in Self.requests where path.hasPrefix("/v1/spaces/shop") && method != .delete {
                let absent = path.replacing("shop", with: "none")
                let one = try await client.with(token: token).send(method, path).expectProblem(403, "not-permitted")
                var other = try await client.with(token: token).send(method, absent).expectProblem(403, "not-permitted")
                other.detail = other.detail?.replacing("none", with: "shop")
                #expect(one == other)
            }
        }
    }

    @Test func `the word Bearer in any case, and nothing of the token in an answer`() async throws {
        let fixture = try RelayFixture(noAuthorization: false)
        _ = try await fixture.log.createSpace(.shop)
        let (token, _) = try await fixture.log.tokens.create(scope: .read)
        try await fixture.run { client in
            for word in ["Bearer", "bearer", "BEARER "] {
                #expect(try await client.send(.get, "/v1/spaces/shop", headers: [.authorization: "\(word) \(token)"]).status == .ok)
            }
            let refused = try await client.with(token: token + "x").send(.get, "/v1/spaces/shop")
            #expect(!String(decoding: refused.bytes, as: UTF8.self).contains(token))
        }
    }

    @Test func `the log names requests, spaces and codes, and never a token, a query or a payload`() async throws {
        let fixture = try RelayFixture(noAuthorization: false)
        let lineage = try await fixture.log.createSpace(.shop).lineage
        let (token, _) = try await fixture.log.tokens.create(scope: .read)
        let lines = LogCollector.Lines()
        try await fixture.run { client in
            var client = client.with(token: token)
            client.logger = Logger(label: "test") { _ in LogCollector(lines: lines) }
            var replica = TestReplica(1)
            let batch = replica.batch(lineage, base: .zero, .writing(1), payload: Array("the payload".utf8)).bytes
            try await client.push(batch).expectProblem(403, "not-permitted")
            _ = try await client.send(.get, "/v1/spaces/shop/entries?after=0&secret=hidden")
            try await client.with(token: token + "x").send(.get, "/v1/spaces/shop").expectProblem(401, "not-authenticated")
        }
        #expect(lines.all.contains("not-permitted") && lines.all.contains("shop") && lines.all.contains("not-authenticated"))
        for hidden in [token, String(token.dropFirst(4)), "hidden", "payload"] { #expect(!lines.all.contains(hidden)) }
    }

    @Test func `a contradiction between logs is logged as a warning, with the space and the replica`() async throws {
        let fixture = try RelayFixture()
        let lineage = try await fixture.log.createSpace(.shop).lineage
        let lines = LogCollector.Lines()
        var replica = TestReplica(1)
        let first = replica.batch(lineage, base: .zero, .writing(1))
        replica.accept(first)
        let second = replica.batch(lineage, base: .zero, .writing(2)).bytes
        try await fixture.run { client in
            var client = client
            client.logger = Logger(label: "test") { _ in LogCollector(lines: lines) }
            _ = try await client.push(second)
            let other: HTTPFields = [.lineage: Lineage.random().description]
            try await client.send(.get, "/v1/spaces/shop/entries?after=0", headers: other).expectProblem(409, "log-rolled-back")
            try await client.send(.get, "/v1/spaces/shop/entries?after=9").expectProblem(409, "log-rolled-back")
        }
        let warnings = lines.all.split(separator: "\n").filter { $0.hasPrefix("warning") }
        #expect(warnings.count == 2, "\(warnings)")
        #expect(warnings.first?.contains("a replica and this relay have different logs") == true)
        #expect(warnings.first?.contains("shop") == true && warnings.first?.contains("gap") == true)
    }

    @Test func `a revoked token is refused as revoked`() async throws {
        let fixture = try RelayFixture(noAuthorization: false)
        let (token, record) = try await fixture.log.tokens.create(scope: .read)
        #expect(try await fixture.log.tokens.revoke(record.id))
        try await fixture.run { client in
            let problem = try await client.with(token: token).send(.get, "/v1/spaces/shop").expectProblem(401, "not-authenticated")
            #expect(problem.detail == "The access token was revoked")
        }
    }

    @Test func `a stream ends at the heartbeat after its token was revoked`() async throws {
        let fixture = try RelayFixture()
        let space = try await fixture.log.createSpace(.shop)
        let stream = HeadStream(
            log: fixture.log, space: .shop, lineage: space.lineage, head: .zero, seen: nil, heartbeat: .milliseconds(1)
        ) { false }
        let collector = BodyCollector()
        var writer: any ResponseBodyWriter = collector
        try await stream.write(to: &writer)
        #expect(String(decoding: collector.bytes, as: UTF8.self).hasPrefix("event: head\nid: 0/\(space.lineage)\n"))
        #expect(fixture.log.waiterCount == 0)
    }
}
