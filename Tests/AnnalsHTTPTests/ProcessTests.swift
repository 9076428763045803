import Foundation
import Synchronization
import Testing

@testable import AnnalsHTTP

/// What concerns a whole process, its environment or its memory, and so runs in processes of its own.
@Suite struct ProcessTests {
    #if os(Linux)
        @Test func `files of any size go up and down in flat memory`() async {
            await #expect(processExitsWith: .success) {
                try await withFile { path in
                    try await withClient { client in
                        let size = 200_000_000
                        let download = HTTPRequest(url: try TestServer.url("/bytes?count=\(size)"))
                        _ = try await client.get("/hello")
                        let before = try Self.residentBytes()
                        let most = Mutex(before)
                        let measure: @Sendable () -> Void = {
                            let now = (try? Self.residentBytes()) ?? .max
                            most.withLock { $0 = max($0, now) }
                        }
                        let response = try await client.download(download, to: .path(path), onProgress: { _, _ in measure() })
                        #expect(response.bodyLength == Int64(size))
                        let upload = HTTPRequest("PUT", url: try TestServer.url("/swallow"), body: .file(path: path))
                        #expect(try await client.send(upload, onSent: { _ in measure() }).body == Array(#"{"length": \#(size)}"#.utf8))
                        #expect(most.withLock { $0 } - before < 30_000_000)
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
