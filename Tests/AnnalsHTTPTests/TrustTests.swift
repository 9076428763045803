import Foundation
import Testing

@testable import AnnalsHTTP

/// Whom a client trusts, and what it says when it does not.
@Suite struct TrustTests {
    private func value<Value: Decodable>(_ path: String) async throws -> Value {
        let client = try HTTPClient()
        return try await client.value(path)
    }

    private func request(_ kind: String, host: String = "127.0.0.1") async throws -> HTTPRequest {
        let port: Int = try await value("/tls-port?kind=\(kind)")
        return HTTPRequest(url: "https://\(host):\(port)/hello", headers: [("Authorization", "Bearer secret")])
    }

    private func outcome(_ configuration: HTTPClient.Configuration, _ request: HTTPRequest) async throws -> HTTPError? {
        var error: HTTPError?
        try await withClient(configuration) { client in
            do throws(HTTPError) {
                let response = try await client.send(request)
                #expect(response.status == 200)
            } catch let caught {
                error = caught
            }
        }
        return error
    }

    @Test(
        arguments: [
            ("good", nil, ""), ("expired", .expired, "has expired"), ("other-host", .wrongHost, "is for another host"),
            ("stranger", .unknownIssuer, "no trusted authority issued"),
        ] as [(String, CertificateProblem?, String)])
    func `what is wrong with a certificate is told, and nothing is sent`(kind: String, problem: CertificateProblem?, words: String)
        async throws
    {
        let trusting = HTTPClient.Configuration(caFile: try await value("/certificate"))
        let request = try await request(kind)
        let error = try await outcome(trusting, request)
        #expect(error?.certificate == problem)
        guard let error else { return }
        #expect(error.kind == .tls && !error.wasSent)
        #expect(error.message.contains(words) && error.message.contains("127.0.0.1:"), "\(error.message)")
    }

    @Test func `the server's key must be one of the pinned ones, beside a certificate that is trusted`() async throws {
        let file: String = try await value("/certificate")
        let pins: [String] = [try await value("/pin?kind=good"), try await value("/pin?kind=stranger")]
        let wrong = "sha256//" + Data(repeating: 7, count: 32).base64EncodedString()
        let request = try await request("good")
        #expect(try await outcome(.init(caFile: file, pinnedKeys: [pins[0]]), request) == nil)
        #expect(try await outcome(.init(caFile: file, pinnedKeys: [wrong, pins[0]]), request) == nil)
        for keys in [[wrong], [pins[1]], [wrong, pins[1]]] {
            let error = try await outcome(.init(caFile: file, pinnedKeys: keys), request)
            #expect(error?.certificate == .wrongKey && error?.wasSent == false)
        }
        let stranger = try await self.request("stranger")
        #expect(try await outcome(.init(caFile: file, pinnedKeys: [pins[1]]), stranger)?.certificate == .unknownIssuer)
        let plain = HTTPRequest(url: try TestServer.url("/hello"))
        #expect(try await outcome(.init(pinnedKeys: [pins[0]]), plain)?.kind == .badURL)
    }

    @Test func `certificates to trust that cannot be read trust nobody`() async throws {
        let request = try await request("good")
        let error = try await outcome(.init(caFile: "/nonexistent/file.pem"), request)
        #expect(error?.certificate == .trustUnusable && error?.wasSent == false)
    }

    @Test func `without a file that is given the environment says what to trust, as for the program curl`() {
        func security(_ variables: [String: String], _ file: String? = nil) -> Security {
            Security(HTTPClient.Configuration(caFile: file)) { variables[$0] }
        }
        let all = ["CURL_CA_BUNDLE": "bundle", "SSL_CERT_FILE": "file", "SSL_CERT_DIR": "folder"]
        let given = security(all, "given")
        #expect(given.file == "given" && given.folder == nil && given.trustsFileOnly)
        let bundle = security(all)
        #expect(bundle.file == "bundle" && bundle.folder == nil && !bundle.trustsFileOnly)
        let openSSL = security(["SSL_CERT_FILE": "file", "SSL_CERT_DIR": "folder"])
        #expect(openSSL.file == "file" && openSSL.folder == "folder" && !openSSL.trustsFileOnly)
        #expect(security([:]) == security(["HOME": "x"]) && security([:]).file == nil)
    }

    @Test func `the environment's certificates are those that count`() async {
        await #expect(processExitsWith: .success) {
            let trust = TrustTests()
            let file: String = try await trust.value("/certificate")
            let request = try await trust.request("good")
            let names = ["CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"]
            for name in names { unsetenv(name) }
            #expect(try await trust.outcome(.init(), request)?.certificate == .unknownIssuer)
            for name in names.dropLast() {
                setenv(name, file, 1)
                #expect(try await trust.outcome(.init(), request) == nil, "\(name)")
                setenv(name, "", 1)
            }
        }
    }

    // MARK: Proxies

    @Test(
        arguments: [
            ([:], false), (["http_proxy": "p"], true), (["HTTP_PROXY": "p"], false), (["https_proxy": "p"], false),
            (["ALL_PROXY": "p"], true),
            (["all_proxy": "p", "no_proxy": "*"], false), (["http_proxy": "p", "no_proxy": "a.test, relay.test"], false),
            (["http_proxy": "p", "NO_PROXY": ".test"], false), (["http_proxy": "p", "no_proxy": "lay.test"], true),
            (["http_proxy": "p", "no_proxy": "relay.test.example"], true), (["http_proxy": "p", "no_proxy": "RELAY.TEST."], false),
        ] as [([String: String], Bool)])
    func `which variables send plain HTTP through a proxy`(variables: [String: String], hasProxy: Bool) throws {
        let target = try RequestTarget(url: "http://relay.test:8640/v1")
        #expect(ProxyChoice(for: target) { variables[$0] }.hasProxy == hasProxy)
    }

    @Test func `a proxy opens a tunnel and never gets the token; where it would, the request is refused`() async {
        await #expect(processExitsWith: .success) {
            for name in ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"] { unsetenv(name) }
            let trust = TrustTests()
            let file: String = try await trust.value("/certificate")
            let proxy: Int = try await trust.value("/proxy-port")
            func heads() async throws -> [String] { try await trust.value("/proxy-heads") }
            let secure = try await trust.request("good", host: "relay.test")
            for name in ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
                setenv(name, "http://127.0.0.1:\(proxy)", 1)
                #expect(try await trust.outcome(.init(caFile: file), secure) == nil, "\(name)")
                unsetenv(name)
            }
            var seen = try await heads()
            #expect(seen.count == 4 && seen.allSatisfy { $0.hasPrefix("CONNECT relay.test:") && !$0.contains("secret") }, "\(seen)")

            setenv("https_proxy", "http://127.0.0.1:\(proxy)", 1)
            setenv("no_proxy", "relay.test", 1)
            #expect(try await trust.outcome(.init(caFile: file), secure)?.kind == .cannotResolve)
            unsetenv("no_proxy")

            setenv("http_proxy", "http://127.0.0.1:\(proxy)", 1)
            let plain = HTTPRequest(url: "http://relay.test/v1/spaces/shop", headers: [("Authorization", "Bearer secret")])
            let refused = try await trust.outcome(.init(), plain)
            #expect(refused?.kind == .badRequest && refused?.wasSent == false && refused?.message.contains("secret") == false)
            seen = try await heads()
            #expect(seen.count == 4)
            try await withClient { client in
                let answer = try await client.send(HTTPRequest(url: "http://relay.test/v1/spaces/shop"))
                #expect(answer.status == 502)
            }
            setenv("no_proxy", "relay.test", 1)
            #expect(try await trust.outcome(.init(), plain)?.kind == .cannotResolve)
            seen = try await heads()
            #expect(seen.count == 5 && seen[4].hasPrefix("GET http://relay.test/v1/spaces/shop "))
        }
    }

    @Test func `an answer that sends elsewhere is an answer: the token does not follow it`() async throws {
        try await withClient { client in
            let request = HTTPRequest(url: try TestServer.url("/status?code=307"), headers: [("Authorization", "Bearer secret")])
            #expect(try await client.send(request).status == 307)
        }
    }
}
