import AnnalsHTTP
import Foundation
import Testing

@Suite struct FailureTests {
    private func refusal(
        _ client: HTTPClient, _ request: HTTPRequest, _ sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> HTTPError {
        try await failure(sourceLocation) { () async throws(HTTPError) in try await client.send(request) }
    }

    @Test func `a port without a listener refuses the connection`() async throws {
        try await withClient { client in
            let port: Int = try await client.value("/refusing-port")
            let error = try await refusal(client, HTTPRequest(url: "http://127.0.0.1:\(port)/path?token=secret"))
            #expect(error.kind == .cannotConnect)
            #expect(!error.wasSent)
            #expect(error.message == "cannot connect to 127.0.0.1:\(port): Connection refused")
        }
    }

    @Test func `a host without an address is not found`() async throws {
        try await withClient { client in
            // A label this long is no name, so no name server is asked.
            let name = String(repeating: "x", count: 64) + ".invalid"
            let error = try await refusal(client, HTTPRequest(url: "http://\(name)/"))
            #expect(error.kind == .cannotResolve)
            #expect(!error.wasSent)
        }
    }

    @Test func `a connection that does not come to stand ends with the connect timeout`() async throws {
        try await withClient(HTTPClient.Configuration(connectTimeout: .milliseconds(500))) { client in
            let port: Int = try await client.value("/mute-port")
            let error = try await refusal(client, HTTPRequest(url: "https://127.0.0.1:\(port)/"))
            #expect(error.kind == .cannotConnect)
            #expect(!error.wasSent)
        }
    }

    @Test func `a request that takes too long ends with its timeout, and the server is let go`() async throws {
        try await withClient { client in
            let name = uniqueName()
            let error = try await refusal(
                client, HTTPRequest(url: TestServer.url("/silent?name=\(name)"), timeout: .milliseconds(500), stallTimeout: nil))
            #expect(error.kind == .timeout)
            #expect(error.wasSent)
            try await client.mark(name + "-gone")
        }
    }

    @Test(arguments: ["/silent", "/stuck"])
    func `a server that stops moving has stalled`(_ path: String) async throws {
        try await withClient { client in
            let name = uniqueName()
            let error = try await refusal(
                client, HTTPRequest(url: TestServer.url("\(path)?name=\(name)"), stallTimeout: .milliseconds(500)))
            #expect(error.kind == .stalled)
            #expect(error.wasSent)
            try await client.mark(name + "-gone")
        }
    }

    @Test func `a server that stops reading has stalled`() async throws {
        try await withClient { client in
            let name = uniqueName()
            let body = HTTPRequest.Body.bytes(Pattern.bytes(20_000_000))
            let error = try await refusal(
                client, HTTPRequest("POST", url: TestServer.url("/deaf?name=\(name)"), body: body, stallTimeout: .milliseconds(500)))
            #expect(error.kind == .stalled)
            #expect(error.wasSent)
            try await client.mark(name)
            _ = try await client.get("/mark?name=\(name)-read")
            try await client.mark(name + "-gone")
        }
    }

    @Test(arguments: ["/cut", "/cut-chunked", "/nothing"])
    func `a server that closes before the answer is whole breaks it`(_ path: String) async throws {
        try await withClient { client in
            let error = try await refusal(client, HTTPRequest(url: TestServer.url(path)))
            #expect(error.kind == .receiveFailed)
            #expect(error.wasSent)
            #expect(try await client.get("/hello").status == 200)
        }
    }

    @Test func `an answer that is not HTTP is a protocol error`() async throws {
        try await withClient { client in
            let error = try await refusal(client, HTTPRequest(url: TestServer.url("/garbage")))
            #expect(error.kind == .protocolError)
            #expect(error.wasSent)
        }
    }

    @Test func `an answer's head has a limit`() async throws {
        try await withClient { client in
            let error = try await refusal(client, HTTPRequest(url: TestServer.url("/huge-head")))
            #expect(error.kind == .tooLarge)
        }
    }

    @Test(
        arguments: [
            "", "127.0.0.1:8640/v1", "ftp://127.0.0.1/", "file:///etc/passwd", "http://", "http://user:secret@127.0.0.1/",
            "http://secret@h/", "http://127.0.0.1:secret/", "http://127.0.0.1:99999/", "http://127.0.0.1/a secret", "http://[::secret/",
        ])
    func `an address that is not plain http or https is refused, and not repeated`(_ url: String) async throws {
        try await withClient { client in
            let error = try await refusal(client, HTTPRequest(url: url))
            #expect(error.kind == .badURL)
            #expect(!error.wasSent)
            #expect(!error.message.contains("secret"))
        }
    }

    @Test(
        arguments: [
            ("Authorization", "Bearer secret\r\nX-Smuggled: yes"), ("Authorization", "secret\0"), ("Auth: secret", ""), ("", "secret"),
            ("Content-Length", "7"), ("transfer-encoding", "chunked"), ("Host", "secret"),
        ])
    func `a header that would break its line or the body's framing is refused`(_ name: String, _ value: String) async throws {
        try await withClient { client in
            let error = try await refusal(client, HTTPRequest(url: TestServer.url("/hello"), headers: [(name, value)]))
            #expect(error.kind == .badRequest)
            #expect(!error.message.contains("secret"))
        }
    }

    @Test(arguments: ["", "GET /", "GE\r\nT"])
    func `a method that is not a word is refused`(_ method: String) async throws {
        try await withClient { client in
            let error = try await refusal(client, HTTPRequest(method, url: TestServer.url("/hello")))
            #expect(error.kind == .badRequest)
        }
    }

    @Test func `a request does not print its secrets`() {
        let request = HTTPRequest(url: "http://127.0.0.1/?secret", headers: [("Authorization", "secret")], body: .bytes([1]))
        var dumped = ""
        dump(request, to: &dumped)
        for text in ["\(request)", String(reflecting: request), dumped] {
            #expect(!text.contains("secret"))
            #expect(text.contains("Authorization"))
        }
    }

    @Test func `a certificate is trusted only if it is told so`() async throws {
        let (port, file) = try await certificate()
        let request = HTTPRequest(url: "https://127.0.0.1:\(port)/hello")
        try await withClient { client in
            let error = try await refusal(client, request)
            #expect(error.kind == .tls)
            #expect(!error.wasSent)
        }
        try await withClient(HTTPClient.Configuration(caFile: file)) { client in
            let response = try await client.send(request)
            #expect(response.status == 200)
            let wrongName = HTTPRequest(url: "https://localhost:\(port)/hello")
            #expect(try await refusal(client, wrongName).kind == .tls)
        }
        try await withClient(HTTPClient.Configuration(caFile: "/nonexistent/file.pem")) { client in
            let error = try await refusal(client, request)
            #expect(error.kind == .tls)
        }
    }

    private func certificate() async throws -> (port: Int, file: String) {
        let client = try HTTPClient()
        return (try await client.value("/tls-port"), try await client.value("/certificate"))
    }

    @Test func `shutting down ends what is under way, and then refuses`() async throws {
        try await withFile { path in
            let client = try HTTPClient(HTTPClient.Configuration(activeTransfers: 3))
            let name = uniqueName()
            let stuck = HTTPRequest(url: try TestServer.url("/stuck?name=\(name)"))
            let download = HTTPRequest(url: try TestServer.url("/stuck?name=\(name)-file"))
            try await withThrowingTaskGroup(of: HTTPError.self) { group in
                group.addTask {
                    try await failure { () async throws(HTTPError) in try await client.download(download, to: .path(path)) }
                }
                try await withClient { other in try await other.mark(name + "-file") }
                for _ in 0..<4 {
                    group.addTask { try await self.refusal(client, stuck) }
                }
                try await withClient { other in try await other.mark(name) }
                await client.shutdown()
                for try await error in group { #expect(error.kind == .closed) }
            }
            await client.shutdown()
            let late = try await refusal(client, stuck)
            #expect(late.kind == .closed)
            #expect(!late.wasSent)
            try await withClient { other in
                try await other.mark(name + "-gone")
                try await other.mark(name + "-file-gone")
            }
        }
    }
}
