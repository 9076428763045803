import Foundation
import Testing

@testable import AnnalsHTTP

@Suite struct StreamTests {
    @Test(arguments: ["", "&chunked=1"])
    func `a stream brings the body in order and whole`(_ framing: String) async throws {
        try await withClient { client in
            let stream = try await client.stream(HTTPRequest(url: TestServer.url("/bytes?count=20000000\(framing)")))
            #expect(stream.status == 200)
            var offset = 0
            for try await piece in stream.body {
                #expect(!piece.isEmpty)
                #expect(Pattern.matches(piece, at: offset))
                offset += piece.count
            }
            #expect(offset == 20_000_000)
        }
    }

    @Test func `a stream can begin in the middle`() async throws {
        try await withClient { client in
            let request = HTTPRequest(url: try TestServer.url("/bytes?count=1000"), headers: [("Range", "bytes=900-")])
            let stream = try await client.stream(request)
            #expect(stream.status == 206)
            #expect(try await stream.collect() == Array(Pattern.bytes(1000)[900...]))
        }
    }

    @Test(arguments: ["/cut", "/cut-chunked"])
    func `a stream that breaks off brings what came, and then the error`(_ path: String) async throws {
        try await withClient { client in
            var iterator = try await client.stream(HTTPRequest(url: TestServer.url(path))).body.makeAsyncIterator()
            var bytes: [UInt8] = []
            let error = try await failure { () async throws(HTTPError) in
                while let piece = try await iterator.next() { bytes += piece }
            }
            #expect(error.kind == .receiveFailed)
            #expect(bytes == Array("0123456789".utf8))
        }
    }

    @Test func `a stream with an early error never begins`() async throws {
        try await withClient { client in
            let url = try TestServer.url("/nothing")
            let error = try await failure { () async throws(HTTPError) in try await client.stream(HTTPRequest(url: url)) }
            #expect(error.kind == .receiveFailed)
        }
    }

    @Test func `a refusal is collected up to a limit`() async throws {
        try await withClient { client in
            let refused = try await client.stream(HTTPRequest(url: TestServer.url("/no-such-path")))
            #expect(refused.status == 404)
            #expect(try await refused.collect() == Array(#"{"code": "not-found"}"#.utf8))

            let name = uniqueName()
            let endless = try await client.stream(HTTPRequest(url: TestServer.url("/endless?name=\(name)")))
            let error = try await failure { () async throws(HTTPError) in try await endless.collect(limit: 1000) }
            #expect(error.kind == .tooLarge)
            try await client.mark(name + "-gone")
        }
    }

    @Test func `events arrive one by one, while the stream stays open`() async throws {
        try await withClient { client in
            let name = uniqueName()
            let stream = try await client.stream(HTTPRequest(url: TestServer.url("/events?name=\(name)")))
            var iterator = stream.body.makeAsyncIterator()
            for number in 1...20 {
                // The next event is sent only when this one has been seen.
                let event = try #require(try await iterator.next())
                #expect(String(decoding: event, as: UTF8.self) == "event: head\ndata: \(number)\n\n")
                _ = try await client.get("/mark?name=\(name)-\(number)")
            }
        }
    }

    @Test func `a stream that nobody reads is paused, and others go on`() async throws {
        try await withClient { client in
            let name = uniqueName()
            let stream = try await client.stream(HTTPRequest(url: TestServer.url("/endless?name=\(name)")))
            let sent = try await client.markedCount(name + "-blocked")
            let waiting = stream.body.lease.channel.peak
            #expect(waiting >= HTTPLimits.streamBuffer)
            #expect(waiting < HTTPLimits.streamBuffer + 64 * 1024)
            // Beyond what waits here, only the system's socket buffers hold something.
            #expect(sent < 32_000_000)

            var iterator = stream.body.makeAsyncIterator()
            var count = 0
            while count < 3 * sent {
                let piece = try #require(try await iterator.next())
                #expect(Pattern.matches(piece, at: 0) || count > 0)
                count += piece.count
            }
            #expect(stream.body.lease.channel.peak < HTTPLimits.streamBuffer + 64 * 1024)
        }
    }
}
