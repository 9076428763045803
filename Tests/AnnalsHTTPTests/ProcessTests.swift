import Foundation
import Testing

@testable import AnnalsHTTP

/// What concerns a whole process, its environment or its memory, and so runs in processes of its own.
@Suite struct ProcessTests {
    #if os(Linux)
        @Test func `a slow reader of a fast stream keeps memory flat`() async {
            await #expect(processExitsWith: .success) {
                try await withClient { client in
                    let size = 200_000_000
                    let stream = try await client.stream(HTTPRequest(url: TestServer.url("/bytes?count=\(size)")))
                    var offset = 0
                    let before = try Self.residentBytes()
                    var most = before
                    for try await piece in stream.body {
                        #expect(Pattern.matches(piece, at: offset))
                        offset += piece.count
                        // What makes this reader slow: another exchange with the server for every piece.
                        #expect(try await client.get("/hello").status == 200)
                        most = try max(most, Self.residentBytes())
                    }
                    #expect(offset == size)
                    #expect(stream.body.lease.channel.peak < HTTPLimits.streamBuffer + 64 * 1024)
                    #expect(most - before < 30_000_000)
                }
            }
        }

        @Test func `files of any size go up and down in flat memory`() async {
            await #expect(processExitsWith: .success) {
                try await withFile { path in
                    try await withClient { client in
                        let size = 200_000_000
                        let download = HTTPRequest(url: try TestServer.url("/bytes?count=\(size)"))
                        _ = try await client.get("/hello")
                        let before = try Self.residentBytes()
                        #expect(try await client.download(download, to: .path(path)).bodyLength == Int64(size))
                        let upload = HTTPRequest("PUT", url: try TestServer.url("/swallow"), body: .file(path: path))
                        #expect(try await client.send(upload).body == Array(#"{"length": \#(size)}"#.utf8))
                        #expect(try Self.residentBytes() - before < 30_000_000)
                    }
                }
            }
        }

        private static func residentBytes() throws -> Int {
            let fields = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
            return try #require(Int(fields[1])) * Int(sysconf(Int32(_SC_PAGESIZE)))
        }
    #endif

    @Test func `this machine is reached without the environment's proxy, others through it`() async {
        await #expect(processExitsWith: .success) {
            try await withClient { client in
                let port: Int = try await client.value("/refusing-port")
                setenv("http_proxy", "http://user:secret@127.0.0.1:\(port)", 1)
                #expect(try await client.get("/hello").status == 200)
                let localhost = try TestServer.url("/hello").replacing("127.0.0.1", with: "localhost")
                #expect(try await client.send(HTTPRequest(url: localhost)).status == 200)
                let sixth = try await failure { () async throws(HTTPError) in
                    try await client.send(HTTPRequest(url: "http://[::1]:\(port)/"))
                }
                #expect(!sixth.wasSent)

                let elsewhere = HTTPRequest(url: "http://relay.invalid/")
                let proxied = try await failure { () async throws(HTTPError) in try await client.send(elsewhere) }
                #expect(proxied.kind == .cannotConnect)
                #expect(!proxied.message.contains("secret"))
                setenv("http_proxy", "nonsense://user:secret@127.0.0.1:\(port)", 1)
                let nonsense = try await failure { () async throws(HTTPError) in try await client.send(elsewhere) }
                #expect(nonsense.kind == .cannotConnect)
                #expect(!nonsense.message.contains("secret"))
            }
        }
    }
}
