import AnnalsHTTP
import Foundation
import Testing

@Suite struct ExchangeTests {
    struct Description: Decodable {
        var method: String
        var path: String
        var headers: [[String]]
        var length: Int
        var whole: Bool

        func values(of name: String) -> [String] { headers.filter { $0[0] == name }.map { $0[1] } }
    }

    private func describe(_ client: HTTPClient, _ request: HTTPRequest) async throws -> Description {
        try JSONDecoder().decode(Description.self, from: Data(try await client.send(request).body))
    }

    @Test func `an answer comes with its status, headers and body`() async throws {
        try await withClient { client in
            let response = try await client.get("/hello")
            #expect(response.status == 200)
            #expect(response.body == Array("hello".utf8))
            #expect(response.bodyLength == 5)
            #expect(response.headers["CONTENT-length"] == "5")
            #expect(response.headers.values(of: "X-TWICE") == ["one", "two"])
            #expect(response.headers["X-None"] == nil)
        }
    }

    @Test(arguments: ["GET", "POST", "PUT", "PATCH", "DELETE"])
    func `a method arrives as given, without a body`(_ method: String) async throws {
        try await withClient { client in
            let description = try await describe(client, HTTPRequest(method, url: TestServer.url("/describe?a=b%20c")))
            #expect(description.method == method)
            #expect(description.path == "/describe?a=b%20c")
            #expect(description.length == 0)
        }
    }

    @Test(arguments: ["GET", "POST", "PUT", "PATCH", "DELETE"], [0, 1, HTTPLimits.inlineBody, HTTPLimits.inlineBody + 1, 8_000_000])
    func `a body of bytes arrives with any method and comes back`(_ method: String, _ count: Int) async throws {
        try await withClient { client in
            let body = Pattern.bytes(count)
            let description = try await describe(client, HTTPRequest(method, url: TestServer.url("/describe"), body: .bytes(body)))
            #expect(description.method == method)
            #expect(description.values(of: "content-length") == [String(count)])
            let response = try await client.send(HTTPRequest(method, url: TestServer.url("/echo"), body: .bytes(body)))
            #expect(response.body == body)
        }
    }

    @Test func `a HEAD answer has no body, whatever length it announces`() async throws {
        try await withClient { client in
            let response = try await client.send(HTTPRequest("HEAD", url: TestServer.url("/hello")), maximumBody: 1)
            #expect(response.headers["Content-Length"] == "5")
            #expect(response.body == [])
        }
    }

    @Test func `headers arrive as given, and none is made up`() async throws {
        try await withClient { client in
            let headers = [("Authorization", "Bearer secret"), ("Annals-Name", "caf%C3%A9"), ("X-Empty", "")]
            let description = try await describe(
                client, HTTPRequest("POST", url: TestServer.url("/describe"), headers: headers, body: .bytes(Pattern.bytes(2_000_000))))
            #expect(description.values(of: "authorization") == ["Bearer secret"])
            #expect(description.values(of: "annals-name") == ["caf%C3%A9"])
            #expect(description.values(of: "x-empty") == [""])
            #expect(Set(description.headers.map { $0[0] }).isDisjoint(with: ["expect", "content-type", "accept-encoding", "cookie"]))
        }
    }

    @Test func `a Content-Type is the caller's`() async throws {
        try await withClient { client in
            let headers = [("content-type", "application/vnd.annals.batch")]
            let description = try await describe(
                client, HTTPRequest("POST", url: TestServer.url("/describe"), headers: headers, body: .bytes([1])))
            #expect(description.values(of: "content-type") == ["application/vnd.annals.batch"])
        }
    }

    @Test(arguments: ["", "&chunked=1"])
    func `a large answer comes whole, up to the maximum`(_ framing: String) async throws {
        try await withClient { client in
            let request = HTTPRequest(url: try TestServer.url("/bytes?count=5000000\(framing)"))
            let response = try await client.send(request, maximumBody: 5_000_000)
            #expect(response.body == Pattern.bytes(5_000_000))
            let error = try await failure { () async throws(HTTPError) in try await client.send(request, maximumBody: 4_999_999) }
            #expect(error.kind == .tooLarge)
            #expect(error.wasSent)
            #expect(try await client.get("/hello").status == 200)
        }
    }

    @Test func `an answer without an end is refused at the maximum, and the server is let go`() async throws {
        try await withClient { client in
            let name = uniqueName()
            let request = HTTPRequest(url: try TestServer.url("/endless?name=\(name)"))
            let error = try await failure { () async throws(HTTPError) in try await client.send(request) }
            #expect(error.kind == .tooLarge)
            try await client.mark(name + "-gone")
        }
    }

    @Test func `an HTML answer is an answer, known by its media type`() async throws {
        try await withClient { client in
            let response = try await client.get("/html")
            #expect(response.headers.mediaType == "text/html")
        }
    }

    @Test(arguments: [204, 301, 302, 307, 404, 410, 500, 503])
    func `every status is an answer, and redirects are not followed`(_ status: Int) async throws {
        try await withClient { client in
            let response = try await client.get("/status?code=\(status)")
            #expect(response.status == status)
        }
    }

    @Test func `an interim answer is passed over`() async throws {
        try await withClient { client in
            let response = try await client.get("/interim")
            #expect(response.status == 200)
            #expect(response.headers["Link"] == nil)
            #expect(String(decoding: response.body, as: UTF8.self) == "after the interim answer")
        }
    }

    @Test func `requests one after another share a connection`() async throws {
        try await withClient { client in
            var connections: Set<String?> = []
            for _ in 0..<20 {
                connections.insert(try await client.get("/hello").headers["Connection-Number"])
            }
            #expect(connections.count == 1)
        }
    }

    @Test(arguments: [10, 100_000, 5_000_000])
    func `a kept connection that the server has closed is replaced`(_ count: Int) async throws {
        try await withClient { client in
            var connections: Set<String?> = []
            for _ in 0..<10 {
                let request = HTTPRequest("POST", url: try TestServer.url("/once-per-connection"), body: .bytes(Pattern.bytes(count)))
                connections.insert(try await client.send(request).headers["Connection-Number"])
            }
            #expect(connections.count == 10)
        }
    }

    @Test(arguments: [0, 10, 100_000, 5_000_000])
    func `a request whose kept connection breaks under it is sent once more`(_ count: Int) async throws {
        try await withClient { client in
            let request = HTTPRequest("POST", url: try TestServer.url("/close-under-the-next"), body: .bytes(Pattern.bytes(count)))
            let first = try await client.send(request)
            let second = try await client.send(request)
            #expect(second.status == 200)
            #expect(first.headers["Connection-Number"] != second.headers["Connection-Number"])
        }
    }

    @Test func `a hundred requests at once are each answered with their own`() async throws {
        try await withClient { client in
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<100 {
                    group.addTask {
                        let body = Array("request \(number)".utf8)
                        return try await client.send(HTTPRequest("POST", url: TestServer.url("/echo"), body: .bytes(body))).body == body
                    }
                }
                for try await isOwn in group { #expect(isOwn) }
            }
        }
    }

    @Test func `more requests than may be under way wait for their turn`() async throws {
        try await withClient(HTTPClient.Configuration(activeTransfers: 2)) { client in
            let connections = try await withThrowingTaskGroup(of: String?.self) { group in
                for _ in 0..<40 {
                    group.addTask { try await client.get("/hello").headers["Connection-Number"] }
                }
                return try await group.reduce(into: Set<String?>()) { $0.insert($1) }
            }
            #expect(connections.count <= 2)
        }
    }

    @Test func `an early refusal of a large upload is an answer`() async throws {
        try await withClient { client in
            let request = HTTPRequest("POST", url: try TestServer.url("/refuse-early"), body: .bytes(Pattern.bytes(20_000_000)))
            let response = try await client.send(request)
            #expect(response.status == 413)
            #expect(response.headers.mediaType == "application/problem+json")
        }
    }
}
