import AnnalsHTTP
import Foundation
import Synchronization
import Testing

@Suite struct FileTransferTests {
    private struct Description: Decodable {
        var method: String
        var length: Int
        var sha256: String
        var whole: Bool
    }

    // MARK: Downloads

    @Test(arguments: ["", "&chunked=1"])
    func `a download writes the body to a file`(_ framing: String) async throws {
        try await withFile { path in
            try await withClient { client in
                let request = HTTPRequest(url: try TestServer.url("/bytes?count=3000000\(framing)"))
                let response = try await client.download(request, to: .path(path))
                #expect(response.status == 200)
                #expect(response.bodyLength == 3_000_000)
                #expect(response.body == [])
                #expect(try contents(of: path) == Pattern.bytes(3_000_000))
            }
        }
    }

    @Test func `a download replaces what a file held before`() async throws {
        try await withFile(Array(repeating: 255, count: 1000)) { path in
            try await withClient { client in
                _ = try await client.download(HTTPRequest(url: TestServer.url("/bytes?count=10")), to: .path(path))
                #expect(try contents(of: path) == Pattern.bytes(10))
            }
        }
    }

    @Test func `a download writes to an open descriptor and leaves it open`() async throws {
        try await withFile([]) { path in
            try await withClient { client in
                let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
                let request = HTTPRequest(url: try TestServer.url("/bytes?count=100000"))
                _ = try await client.download(request, to: .descriptor(file.fileDescriptor))
                try file.close()
                #expect(try contents(of: path) == Pattern.bytes(100_000))
            }
        }
    }

    @Test func `a download goes on where an earlier one ended`() async throws {
        try await withFile(Pattern.bytes(700) + [9, 9, 9]) { path in
            try await withClient { client in
                let request = HTTPRequest(url: try TestServer.url("/bytes?count=1000"))
                let response = try await client.download(request, to: .path(path), startingAt: 700)
                #expect(response.status == 206)
                #expect(response.bodyLength == 300)
                #expect(try contents(of: path) == Pattern.bytes(1000))
            }
        }
    }

    @Test func `a server without ranges sends everything, and the file begins anew`() async throws {
        try await withFile(Array(repeating: 255, count: 2000)) { path in
            try await withClient { client in
                let request = HTTPRequest(url: try TestServer.url("/bytes?count=1000&deaf=1"))
                let response = try await client.download(request, to: .path(path), startingAt: 700)
                #expect(response.status == 200)
                #expect(try contents(of: path) == Pattern.bytes(1000))
            }
        }
    }

    @Test func `a wrong range is refused, and the file stays as it was`() async throws {
        let before = Pattern.bytes(700)
        try await withFile(before) { path in
            try await withClient { client in
                let request = HTTPRequest(url: try TestServer.url("/bytes?count=1000&off-by=7"))
                let error = try await failure { () async throws(HTTPError) in
                    try await client.download(request, to: .path(path), startingAt: 700)
                }
                #expect(error.kind == .protocolError)
                #expect(try contents(of: path) == before)
            }
        }
    }

    @Test(arguments: ["/no-such-path", "/bytes?count=700"])
    func `a refused download returns the refusal, and the file stays as it was`(_ path: String) async throws {
        let before = Pattern.bytes(700)
        try await withFile(before) { file in
            try await withClient { client in
                let response = try await client.download(HTTPRequest(url: TestServer.url(path)), to: .path(file), startingAt: 700)
                #expect(response.status == 404 || response.status == 416)
                #expect(response.bodyLength == Int64(response.body.count))
                #expect(try contents(of: file) == before)
            }
        }
    }

    @Test func `a refused download creates no file`() async throws {
        try await withFile { path in
            try await withClient { client in
                let response = try await client.download(HTTPRequest(url: TestServer.url("/no-such-path")), to: .path(path))
                #expect(response.body == Array(#"{"code": "not-found"}"#.utf8))
                #expect(!FileManager.default.fileExists(atPath: path))
            }
        }
    }

    @Test(arguments: ["", "&chunked=1"])
    func `a download has a maximum length`(_ framing: String) async throws {
        try await withFile { path in
            try await withClient { client in
                let request = HTTPRequest(url: try TestServer.url("/bytes?count=1000000\(framing)"))
                let error = try await failure { () async throws(HTTPError) in
                    try await client.download(request, to: .path(path), maximumLength: 999_999)
                }
                #expect(error.kind == .tooLarge)
                #expect(try await client.download(request, to: .path(path), maximumLength: 1_000_000).bodyLength == 1_000_000)
            }
        }
    }

    @Test func `a file that cannot be written is named as the reason`() async throws {
        try await withFile([1, 2, 3]) { path in
            try await withClient { client in
                let request = HTTPRequest(url: try TestServer.url("/bytes?count=1000"))
                let noFolder = try await failure { () async throws(HTTPError) in
                    try await client.download(request, to: .path(path + "/below-a-file"))
                }
                #expect(noFolder.kind == .localFile)
                #expect(noFolder.systemError == ENOTDIR)
                let tooShort = try await failure { () async throws(HTTPError) in
                    try await client.download(request, to: .path(path), startingAt: 4)
                }
                #expect(tooShort.kind == .localFile)
                #expect(try contents(of: path) == [1, 2, 3])
            }
        }
    }

    // MARK: Uploads

    @Test(arguments: [0, 1, 3_000_000], ["POST", "PUT"])
    func `a file is sent as it is`(_ count: Int, _ method: String) async throws {
        let body = Pattern.bytes(count)
        try await withFile(body) { path in
            try await withClient { client in
                let request = HTTPRequest(method, url: try TestServer.url("/describe"), body: .file(path: path))
                let description = try JSONDecoder().decode(Description.self, from: Data(try await client.send(request).body))
                #expect(description.method == method)
                #expect(description.length == count)
                let echo = HTTPRequest(method, url: try TestServer.url("/echo"), body: .file(path: path))
                #expect(try await client.send(echo).body == body)
            }
        }
    }

    @Test func `a range of a file is sent alone`() async throws {
        try await withFile(Pattern.bytes(1000)) { path in
            try await withClient { client in
                let request = HTTPRequest("PUT", url: try TestServer.url("/echo"), body: .file(path: path, range: 100..<900))
                #expect(try await client.send(request).body == Array(Pattern.bytes(1000)[100..<900]))
            }
        }
    }

    @Test func `progress rises from zero to the whole`() async throws {
        try await withFile(Pattern.bytes(5_000_000)) { path in
            try await withClient { client in
                for body in [HTTPRequest.Body.file(path: path), .bytes(Pattern.bytes(5_000_000)), .bytes([1, 2, 3])] {
                    let reports = Mutex<[Int64]>([])
                    let request = HTTPRequest("POST", url: try TestServer.url("/swallow"), body: body)
                    _ = try await client.send(request) { sent in reports.withLock { $0.append(sent) } }
                    let seen = reports.withLock { $0 }
                    #expect(seen == seen.sorted() && Set(seen).count == seen.count)
                    if case .bytes(let bytes) = body { #expect(seen.last == Int64(bytes.count)) } else { #expect(seen.last == 5_000_000) }
                }
            }
        }
    }

    @Test func `a file that cannot be sent is named as the reason, and nothing is sent`() async throws {
        try await withFile([1, 2, 3]) { path in
            try await withClient { client in
                let bodies: [HTTPRequest.Body] = [
                    .file(path: path + "-missing"), .file(path: path, range: 0..<4), .file(path: URL(fileURLWithPath: path + "/..").path),
                ]
                for body in bodies {
                    let request = HTTPRequest("POST", url: try TestServer.url("/echo"), body: body)
                    let error = try await failure { () async throws(HTTPError) in try await client.send(request) }
                    #expect(error.kind == .localFile)
                    #expect(!error.wasSent)
                }
            }
        }
    }

    @Test func `a file that becomes shorter while it is sent ends the request`() async throws {
        try await withFile { path in
            try await withClient { client in
                #expect(FileManager.default.createFile(atPath: path, contents: nil))
                let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
                try file.truncate(atOffset: 50_000_000)
                let name = uniqueName()
                let request = HTTPRequest("POST", url: try TestServer.url("/deaf?name=\(name)"), body: .file(path: path))
                let (begun, signal) = AsyncStream.makeStream(of: Void.self)
                let task = Task {
                    try await failure { () async throws(HTTPError) in
                        try await client.send(request) { sent in if sent > 0 { signal.finish() } }
                    }
                }
                for await _ in begun {}
                try file.truncate(atOffset: 0)
                _ = try await client.get("/mark?name=\(name)-read")
                let error = try await task.value
                #expect(error.kind == .localFile)
                #expect(error.wasSent)
                try await client.mark(name + "-gone")
            }
        }
    }
}
