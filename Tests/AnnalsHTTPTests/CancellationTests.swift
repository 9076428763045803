import AnnalsHTTP
import Foundation
import Synchronization
import Testing

@Suite struct CancellationTests {
    private func expectUsable(_ client: HTTPClient, _ sourceLocation: SourceLocation = #_sourceLocation) async throws {
        #expect(try await client.get("/hello").status == 200, sourceLocation: sourceLocation)
    }

    /// Runs `body` while an answer that never ends takes one of the client's places.
    private func withStuckRequest(_ client: HTTPClient, _ body: () async throws -> Void) async throws {
        let name = uniqueName()
        let request = HTTPRequest(url: try TestServer.url("/stuck?name=\(name)"))
        let task = Task { try await failure { () async throws(HTTPError) in try await client.send(request) } }
        try await withClient { other in try await other.mark(name) }
        try await body()
        task.cancel()
        #expect(try await task.value.kind == .cancelled)
    }

    @Test(arguments: ["/silent", "/stuck"])
    func `a request is cancelled while the server thinks, and in the middle of the answer`(_ path: String) async throws {
        try await withClient { client in
            let name = uniqueName()
            let task = Task {
                try await failure { () async throws(HTTPError) in
                    let url = (try? TestServer.url("\(path)?name=\(name)")) ?? ""
                    return try await client.send(HTTPRequest(url: url, stallTimeout: nil))
                }
            }
            try await client.mark(name)
            task.cancel()
            let error = try await task.value
            #expect(error.kind == .cancelled)
            #expect(error.wasSent)
            try await client.mark(name + "-gone")
            try await expectUsable(client)
        }
    }

    @Test func `a cancelled task sends nothing`() async throws {
        try await withClient { client in
            let url = try TestServer.url("/hello")
            let task = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return try await failure { () async throws(HTTPError) in try await client.send(HTTPRequest(url: url)) }
            }
            let error = try await task.value
            #expect(error.kind == .cancelled)
            #expect(!error.wasSent)
        }
    }

    @Test func `a request is cancelled while it waits for its turn`() async throws {
        try await withClient(HTTPClient.Configuration(activeTransfers: 1)) { client in
            try await withStuckRequest(client) {
                let url = try TestServer.url("/hello")
                let task = Task {
                    try await failure { () async throws(HTTPError) in try await client.send(HTTPRequest(url: url)) }
                }
                task.cancel()
                let error = try await task.value
                #expect(error.kind == .cancelled)
                #expect(!error.wasSent)
            }
            try await expectUsable(client)
        }
    }

    @Test func `long polls take no place from other requests`() async throws {
        try await withClient(HTTPClient.Configuration(activeTransfers: 1)) { client in
            let name = uniqueName()
            var poll = HTTPRequest(url: try TestServer.url("/stuck?name=\(name)"))
            poll.isLongPoll = true
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<5 { group.addTask { [poll] in _ = try? await client.send(poll) } }
                try await withClient { other in try await other.mark(name) }
                try await expectUsable(client)
                group.cancelAll()
            }
            try await expectUsable(client)
        }
    }

    @Test(arguments: [true, false])
    func `an upload is cancelled in the middle of its body, and reports no progress afterwards`(_ isFile: Bool) async throws {
        try await withFile { path in
            try await withClient { client in
                let size = 50_000_000
                var body = HTTPRequest.Body.bytes([])
                if isFile {
                    #expect(FileManager.default.createFile(atPath: path, contents: nil))
                    try FileHandle(forWritingTo: URL(fileURLWithPath: path)).truncate(atOffset: UInt64(size))
                    body = .file(path: path)
                } else {
                    body = .bytes(Pattern.bytes(size))
                }
                let name = uniqueName()
                let request = HTTPRequest("POST", url: try TestServer.url("/deaf?name=\(name)"), body: body)
                let calls = Mutex(0)
                let (middle, signal) = AsyncStream.makeStream(of: Void.self)
                let task = Task {
                    try await failure { () async throws(HTTPError) in
                        try await client.send(request) { sent in
                            calls.withLock { $0 += 1 }
                            if sent > 0 { signal.finish() }
                        }
                    }
                }
                // The server reads nothing yet, so the body cannot be sent to its end.
                for await _ in middle {}
                task.cancel()
                let error = try await task.value
                let callsThen = calls.withLock { $0 }
                #expect(error.kind == .cancelled)
                #expect(error.wasSent)
                _ = try await client.get("/mark?name=\(name)-read")
                let arrived = try await client.markedCount(name + "-gone")
                #expect(arrived > 0 && arrived < size)
                #expect(calls.withLock { $0 } == callsThen)
            }
        }
    }

    @Test func `a download is cancelled while its body still arrives, and reports no progress afterwards`() async throws {
        try await withFile { path in
            try await withClient { client in
                let name = uniqueName()
                let request = HTTPRequest(url: try TestServer.url("/endless?name=\(name)"))
                let calls = Mutex(0)
                let (middle, signal) = AsyncStream.makeStream(of: Void.self)
                let progress: @Sendable (HTTPHeaders, Int64) -> Void = { _, length in
                    calls.withLock { $0 += 1 }
                    if length > 10_000_000 { signal.finish() }
                }
                let task = Task {
                    try await failure { () async throws(HTTPError) in
                        try await client.download(request, to: .path(path), onProgress: progress)
                    }
                }
                for await _ in middle {}
                task.cancel()
                #expect(try await task.value.kind == .cancelled)
                let callsThen = calls.withLock { $0 }
                try await client.mark(name + "-gone")
                #expect(calls.withLock { $0 } == callsThen)
                try await expectUsable(client)
            }
        }
    }

    @Test func `a download to a file is cancelled in the middle, and can go on`() async throws {
        try await withFile { path in
            try await withClient { client in
                let name = uniqueName()
                let request = HTTPRequest(url: try TestServer.url("/stuck?name=\(name)"))
                let task = Task {
                    try await failure { () async throws(HTTPError) in try await client.download(request, to: .path(path)) }
                }
                try await client.mark(name)
                task.cancel()
                #expect(try await task.value.kind == .cancelled)
                try await client.mark(name + "-gone")
                let kept = (try? contents(of: path).count) ?? 0
                let rest = HTTPRequest(url: try TestServer.url("/bytes?count=1000000"))
                let response = try await client.download(rest, to: .path(path), startingAt: Int64(kept))
                #expect(response.bodyLength == Int64(1_000_000 - kept))
                #expect(try contents(of: path) == Pattern.bytes(1_000_000))
            }
        }
    }

    @Test func `a hundred cancellations at once leave the client usable`() async throws {
        try await withClient { client in
            let name = uniqueName()
            let request = HTTPRequest(url: try TestServer.url("/stuck?name=\(name)"))
            let kinds = try await withThrowingTaskGroup(of: HTTPError.self) { group in
                for _ in 0..<100 {
                    group.addTask {
                        try await failure { () async throws(HTTPError) in try await client.send(request) }
                    }
                }
                try await client.mark(name)
                group.cancelAll()
                return try await group.reduce(into: []) { $0.append($1.kind) }
            }
            #expect(kinds == Array(repeating: .cancelled, count: 100))
            try await expectUsable(client)
        }
    }

    @Test func `a client that nobody holds any more closes its connections`() async throws {
        let name = uniqueName()
        do {
            let client = try HTTPClient()
            #expect(try await client.get("/linger?name=\(name)").status == 200)
        }
        try await withClient { other in try await other.mark(name + "-gone") }
    }

    @Test func `those beyond the queue's limit are refused, and those in it can be cancelled`() async throws {
        try await withClient(HTTPClient.Configuration(activeTransfers: 1)) { client in
            let hello = HTTPRequest(url: try TestServer.url("/hello"))
            let excess = 100
            try await withStuckRequest(client) {
                try await withThrowingTaskGroup(of: HTTPError.self) { group in
                    for _ in 0..<HTTPLimits.waitingTransfers + excess {
                        group.addTask { try await failure { () async throws(HTTPError) in try await client.send(hello) } }
                    }
                    for _ in 0..<excess {
                        let error = try await group.next()
                        #expect(error?.kind == .overloaded)
                    }
                    group.cancelAll()
                    for try await error in group { #expect(error.kind == .cancelled && !error.wasSent) }
                }
            }
            try await expectUsable(client)
        }
    }
}
