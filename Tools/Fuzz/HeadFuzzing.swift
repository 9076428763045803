@testable import AnnalsCore
@testable import AnnalsHTTP
@testable import AnnalsSync
@testable import AnnalsWire

/// The heads of HTTP answers, as libcurl passes them: the lines of the input.
enum HeadFuzzing {
    static let target = FuzzTarget("head", seeds: { _ in seeds.map { Array($0.utf8) } }) { bytes in
        var parser = HeadParser(limit: 4096)
        var head: ResponseHead?
        var rest = bytes[...]
        while !rest.isEmpty {
            let end = rest.firstIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? rest.endIndex
            let line = rest[..<end]
            rest = rest[end...]
            if let found = try line.withUnsafeBytes({ try parser.accept($0) }) {
                expect(head == nil && found.status >= 200, "there is one head, and it is the last")
                head = found
            }
        }
        guard let head else { return }
        _ = (head.announcedLength, head.headers.mediaType, head.headers.values(of: "ETag"))
        let sink = FileSink(.descriptor(-1), start: 5, limit: 10, ResponsePromise())
        _ = try? sink.begin(head)
        answer(HTTPResponse(head: head, body: Array(rest), bodyLength: Int64(rest.count)))
    }

    /// Processes the answer as the relay's client does.
    private static func answer(_ response: HTTPResponse) {
        guard let relay else { return }
        do throws(TransportError) {
            let response = try relay.accepted(response)
            try relay.expect(response, Endpoints.MediaType.page)
            _ = relay.relayTime(response)
            if let position = relay.snapshotToCheck(response) { expect(position.next > position, "a position has one behind it") }
            _ = try relay.snapshotPosition(response)
        } catch {
            _ = (error.annalsError, error.isWorthRetrying, error.isDefiniteRefusal, error.tries)
            if let pause = error.retryAfter { expect(pause >= .zero && pause <= .seconds(300), "a pause is a pause") }
        }
    }

    private static let relay: HTTPRelay? = {
        guard let client = try? HTTPClient(), let space = SpaceName("shop") else { return nil }
        return try? HTTPRelay(address: "http://127.0.0.1:1", space: space, client: client)
    }()

    private static let seeds = [
        "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.annals.page; charset=x\r\nContent-Length: 7\r\nAnnals-Snapshot: check 7\r\nAnnals-Time: 1760000000000\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-9/10\r\nAnnals-Position: 4\r\nETag: \"x\"\r\n\r\n",
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Type: text/html\r\nX-Folded: a\r\n b\r\n\r\n",
    ]
}
