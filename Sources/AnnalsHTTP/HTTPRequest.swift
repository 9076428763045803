/// One request, as values only; nothing is opened or sent before a client gets it.
///
///     let push = HTTPRequest(
///         "POST", url: "http://127.0.0.1:8640/v1/spaces/shop/push",
///         headers: [("Content-Type", "application/vnd.annals.batch")], body: .bytes(batch), timeout: .seconds(30))
package struct HTTPRequest: Sendable {
    package enum Body: Sendable {
        case none
        case bytes([UInt8])
        /// A file, or a range of it, read piece by piece while it is sent. It must not change meanwhile.
        case file(path: String, range: Range<Int64>? = nil)
    }

    package var method: String
    /// An absolute http or https address without user name and password.
    package var url: String
    /// Sent as given, in this order. The body's length and framing, and the host, are set by the client.
    package var headers: [(name: String, value: String)]
    package var body: Body
    /// How long the whole exchange may take, from handing it over to the last byte of the answer, including
    /// the time it waits for its turn; nil for as long as it moves.
    package var timeout: Duration?
    /// How long a standing connection may move no byte, in either direction; nil for ever. A request that the
    /// server answers only after a wait needs more than that wait. Time in which the reader of a stream does not
    /// take what has arrived does not count.
    package var stallTimeout: Duration?
    /// The least that the bodies must move, once their bytes come; nil for an event stream, whose heartbeats are few bytes. What is
    /// left of a body may be less. The time until the answer begins does not count.
    package var slowest: TransferRate?

    package init(
        _ method: String = "GET", url: String, headers: [(name: String, value: String)] = [], body: Body = .none,
        timeout: Duration? = nil, stallTimeout: Duration? = HTTPLimits.stallTimeout, slowest: TransferRate? = nil
    ) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.timeout = timeout
        self.stallTimeout = stallTimeout
        self.slowest = slowest
    }
}

extension HTTPRequest: CustomStringConvertible, CustomReflectable {
    /// Shows the method and the names of headers, since a header's value or an address may hold a secret.
    package var description: String {
        "HTTPRequest(\(method), headers: \(headers.map(\.name)))"
    }

    package var customMirror: Mirror { Mirror(self, children: ["method": method, "headers": headers.map(\.name)]) }
}

extension HTTPRequest {
    /// Refuses what would let a value break out of its header line, or contradict the body.
    func validate() throws(HTTPError) {
        guard !method.isEmpty, method.utf8.allSatisfy(Self.isTokenByte) else {
            throw HTTPError(.badRequest, "the request's method is not a word")
        }
        for (name, value) in headers {
            guard !name.isEmpty, name.utf8.allSatisfy(Self.isTokenByte) else {
                throw HTTPError(.badRequest, "the name of a header has characters that HTTP does not allow")
            }
            guard value.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }) else {
                throw HTTPError(.badRequest, "the value of the header \(name) has characters that HTTP does not allow")
            }
            if Self.reservedHeaders.contains(name.lowercased()) {
                throw HTTPError(.badRequest, "the header \(name) is set by the client itself")
            }
        }
    }

    func hasHeader(_ name: String) -> Bool {
        headers.contains { asciiCaseInsensitivelyEqual($0.name, name) }
    }

    private static let reservedHeaders: Set<String> = ["content-length", "transfer-encoding", "expect", "host", "connection"]

    /// RFC 9110's tchar.
    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}
