import AnnalsCore
import AnnalsWire
import HTTPTypes
import Logging
import RelayLog
import RelayTestSupport
import Testing

@testable import Relay

/// What the line of a request says about its sender, and whose word about an address counts.
@Suite struct RequestLogTests {
    private func lines(
        of fixture: RelayFixture, from address: String?, token: String? = nil, _ headers: HTTPFields
    ) async throws -> String {
        let lines = LogCollector.Lines()
        try await fixture.run { client in
            var client = client.with(token: token)
            client.logger = Logger(label: "test") { _ in LogCollector(lines: lines) }
            client.address = address
            _ = try await client.send(.get, "/v1/spaces/shop", headers: headers)
        }
        return lines.all
    }

    private func has(_ line: String, _ name: String, _ value: String) -> Bool { line.contains("\"\(name)\": \(value)") }

    @Test func `the line of a request names token, replica, address and program, and no secret`() async throws {
        let fixture = try RelayFixture(noAuthorization: false)
        _ = try await fixture.log.createSpace(.shop)
        let (secret, record) = try await fixture.log.tokens.create(scope: .read)
        let replica = TestReplica(1).id
        let line = try await lines(
            of: fixture, from: "192.0.2.7", token: secret, [.userAgent: "annals/9", .replica: replica.description])
        #expect(has(line, "token", "\(record.id)") && has(line, "replica", "\(replica)"), "\(line)")
        #expect(has(line, "peer", "192.0.2.7") && has(line, "program", "annals/9") && !line.contains("proxy"), "\(line)")
        #expect(!line.contains(secret) && !line.contains(String(secret.dropFirst(4))))
    }

    @Test func `what a client sends is cut, and cannot look like another part of the line`() async throws {
        let fixture = try RelayFixture()
        _ = try await fixture.log.createSpace(.shop)
        let line = try await lines(of: fixture, from: nil, [.userAgent: "a b=\"c\" status=200" + String(repeating: "x", count: 200)])
        let program = "a%20b%3D%22c%22%20status%3D200" + String(repeating: "x", count: 46) + "…"
        #expect(has(line, "program", program), "\(line)")
        #expect(LogText.of("shop.1-2_3") == "shop.1-2_3" && LogText.of("\u{7}ü%") == "%07%C3%BC%25" && LogText.of("") == "")
    }

    @Test(arguments: [
        ("", "10.0.0.1", "192.0.2.7", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "10.0.0.2", "192.0.2.7", "10.0.0.2"),
        // What a client sent itself comes before what the proxy added.
        ("10.0.0.0/8", "10.9.9.9", "127.0.0.1, 192.0.2.7", "192.0.2.7"),
        ("10.0.0.0/8, 192.0.2.0/24", "10.9.9.9", "198.51.100.1, 192.0.2.7", "198.51.100.1"),
        ("10.0.0.0/8", "::ffff:10.9.9.9", "192.0.2.7:4711", "192.0.2.7"),
        ("fd00::/8", "fd12::1", "[2001:db8::1]:99", "2001:db8::1"),
        ("fd00::/8", "fe00::1", "2001:db8::1", "fe00::1"),
        ("0.0.0.0/0", "10.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "10.0.0.1", "unknown", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1", "192.0.2.7, not an address", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1", "", "10.0.0.1"),
    ])
    func `only a trusted proxy says who its client is`(trusted: String, peer: String, forwarded: String, client: String) throws {
        let proxies = trusted.isEmpty ? TrustedProxies() : try #require(TrustedProxies(trusted))
        #expect(proxies.client(of: peer, forwarded: forwarded.isEmpty ? [] : [forwarded]) == client)
    }

    @Test func `behind a trusted proxy the log names client and proxy`() async throws {
        var fixture = try RelayFixture()
        fixture.configuration.trustedProxies = try #require(TrustedProxies("10.0.0.1"))
        _ = try await fixture.log.createSpace(.shop)
        let headers: HTTPFields = [.forwardedFor: "192.0.2.7"]
        let line = try await lines(of: fixture, from: "10.0.0.1", headers)
        #expect(has(line, "peer", "192.0.2.7") && has(line, "proxy", "10.0.0.1"), "\(line)")
        let other = try await lines(of: fixture, from: "10.0.0.2", headers)
        #expect(has(other, "peer", "10.0.0.2") && !other.contains("192.0.2.7"), "\(other)")
    }
}
