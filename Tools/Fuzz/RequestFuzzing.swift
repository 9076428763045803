@testable import AnnalsCore
@testable import AnnalsWire
import HTTPTypes
import Hummingbird
import NIOCore
@testable import Relay

/// Requests as the relay's routes read them: the first line is a path with a query, and each further line is a header.
enum RequestFuzzing {
    static let target = FuzzTarget("request", seeds: { _ in seeds.map { Array($0.utf8) } }) { bytes in
        var lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map { String(decoding: $0, as: UTF8.self) }
        let path = lines.removeFirst()
        var headers = HTTPFields()
        for line in lines {
            let halves = line.split(separator: ":", maxSplits: 1)
            guard halves.count == 2, let name = HTTPField.Name(String(halves[0])) else { continue }
            headers.append(HTTPField(name: name, value: String(halves[1]).trimmingWhitespace))
        }
        let head = HTTPRequest(method: .get, scheme: nil, authority: nil, path: path, headerFields: headers)
        read(Request(head: head, body: RequestBody(buffer: ByteBuffer())))
    }

    private static func read(_ request: Request) {
        for mark in [try? request.seen(), try? request.mark()] {
            if let position = mark?.position { expect(position >= .zero && position.next > position, "a position has one behind it") }
        }
        _ = try? (request.lineage(), request.replica())
        if let name = request.replicaName { expect(!name.utf8.contains { $0 < 0x20 }, "a name can be printed") }
        if let program = request.program { expect(!program.utf8.contains { $0 < 0x20 }, "a program's name can be printed") }
        for name in [Endpoints.Query.after, Endpoints.Query.limit, Endpoints.Query.wait, Endpoints.Query.before] {
            if let number = try? request.number(name) { expect(number >= 0, "numbers are not negative") }
        }
        _ = try? (request.spaceName(Endpoints.Query.space), request.listed())
        try? request.requireContentType(Endpoints.MediaType.batch)
        if let length = try? request.announcedLength(limit: 100) { expect((0...100).contains(length), "a length is within its limit") }
        _ = Authorizer.bearer(request.headers[.authorization])
    }

    private static let id = "01020304-0506-4708-8000-000000000009"

    private static let seeds = [
        "/v1/spaces/shop/entries?after=5&limit=100&wait=3\nAnnals-Lineage: \(id)\nAnnals-Seen: 5-\(Digest.zero)\nAnnals-Replica: \(id)",
        "/v1/spaces/shop/push\nContent-Type: Application/vnd.annals.batch; x=y\nContent-Length: 50\nAnnals-Name: a%20b\nUser-Agent: x",
        "/v1/spaces?space=shop&before=9&position=7&limit=9223372036854775807\nContent-Encoding: gzip\nAuthorization: bearer x",
    ]
}

extension String {
    fileprivate var trimmingWhitespace: String { String(drop { $0 == " " }) }
}
