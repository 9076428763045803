import AnnalsCore
import Logging
import RelayTestSupport
import Testing

@testable import Relay

@Suite struct ConfigurationTests {
    @Test(arguments: [
        ("127.0.0.1:8640", "127.0.0.1", 8640, true), ("localhost:0", "localhost", 0, true), ("[::1]:99", "::1", 99, true),
        ("127.9.9.9:1", "127.9.9.9", 1, true), ("0.0.0.0:80", "0.0.0.0", 80, false), ("[::]:80", "::", 80, false),
        ("relay.example.org:443", "relay.example.org", 443, false), ("127.evil.example.org:1", "127.evil.example.org", 1, false),
    ])
    func `addresses`(text: String, host: String, port: Int, isLoopback: Bool) throws {
        let address = try ListenAddress(text)
        #expect(address == ListenAddress(host: host, port: port))
        #expect(address.isLoopback == isLoopback)
        #expect(address.url == "http://\(text)")
    }

    @Test(arguments: ["", "8640", ":8640", "localhost", "localhost:", "localhost:x", "localhost:65536", "localhost:-1", "::1:80", "[]:80"])
    func `what is no address`(text: String) {
        #expect { try ListenAddress(text) } throws: { ($0 as? AnnalsError)?.code == .configuration }
    }

    func configuration(_ address: String) throws -> RelayConfiguration {
        RelayConfiguration(address: try ListenAddress(address), storage: .directory("data"))
    }

    func expectRefused(_ configuration: RelayConfiguration, _ part: String, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(sourceLocation: sourceLocation) {
            try RelayServer(configuration: configuration, logger: .silent)
        } throws: { error in
            guard let error = error as? AnnalsError else { return false }
            return error.code == .configuration && error.message.contains(part) && error.hint?.isEmpty == false
        }
    }

    @Test func `loopback is fine as it is`() throws {
        try configuration("127.0.0.1:8640").validate()
    }

    @Test func `without authorization only on loopback`() throws {
        var configuration = try configuration("127.0.0.1:8640")
        configuration.noAuthorization = true
        try configuration.validate()
        configuration.allowPlaintext = true
        configuration.address = try ListenAddress("0.0.0.0:8640")
        expectRefused(configuration, "--no-auth")
    }

    @Test func `automatic voids count owners, of which an open relay has none`() throws {
        var configuration = try configuration("127.0.0.1:8640")
        for number in [0, 1, 1_000] {
            configuration.autoVoid = number
            try configuration.validate()
        }
        for number in [-1, 1_001] {
            configuration.autoVoid = number
            expectRefused(configuration, "auto-void is \(number)")
        }
        configuration.autoVoid = 2
        configuration.noAuthorization = true
        expectRefused(configuration, "a relay with --no-auth has none")
    }

    @Test func `beyond loopback unencrypted only when told so`() throws {
        var configuration = try configuration("0.0.0.0:8640")
        expectRefused(configuration, "unencrypted")
        configuration.allowPlaintext = true
        try configuration.validate()
    }

    @Test func `a directory, a port and limits must be possible`() throws {
        var configuration = try configuration("127.0.0.1:1")
        configuration.storage = .directory("")
        expectRefused(configuration, "data directory")
        configuration = try self.configuration("127.0.0.1:1")
        configuration.address.port = 70_000
        expectRefused(configuration, "70000")
        configuration = try self.configuration("127.0.0.1:1")
        configuration.limits.connections = 0
        expectRefused(configuration, "connections")
        configuration = try self.configuration("127.0.0.1:1")
        for (name, value) in [("backlog", 1 << 40), ("slow-seconds", 9_000_000), ("spaces", 0), ("slow-bytes-per-second", -1)] {
            var wrong = configuration
            wrong.limits = try #require(RelayLimits.named.first { $0.name == name }).setting(value, in: wrong.limits)
            expectRefused(wrong, name)
        }
        configuration.limits.waitSeconds = 4000
        expectRefused(configuration, "hour")
    }
}

extension RelayLimit {
    fileprivate func setting(_ number: Int, in limits: RelayLimits) -> RelayLimits {
        var limits = limits
        limits[keyPath: value] = number
        return limits
    }
}
