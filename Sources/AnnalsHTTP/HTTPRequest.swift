/// One request as a value. Nothing is opened or sent before a client gets it.
///
///     let push = HTTPRequest(
///         "POST", url: "http://127.0.0.1:8640/v1/spaces/shop/push",
///         headers: [("Content-Type", "application/vnd.annals.batch")], body: .bytes(batch), timeout: .seconds(30))
package struct HTTPRequest: Sendable {
    package enum Body: Sendable {
        case none
        case bytes([UInt8])
        /// A file or a range of a file, read in pieces while it is sent. It must not change during the request.
        case file(path: String, range: Range<Int64>? = nil)
    }

    package var method: String
    /// An absolute http or https address without user name and password.
    package var url: String
    /// Sent unchanged and in this order. The client sets the host and the length and framing of the body.
    package var headers: [(name: String, value: String)]
    package var body: Body
    /// The time limit for the whole exchange, from the call to the last byte of the answer. It includes the time in the
    /// queue. nil means no limit.
    package var timeout: Duration?
    /// The time limit without a moved byte on an open connection, in either direction. nil means no limit. If the
    /// server waits before it answers, this limit must be longer than that wait.
    package var stallTimeout: Duration?
    /// The slowest allowed rate of the bodies, after their first bytes. nil means no limit. The rest of a body may be
    /// shorter than the rate demands. The time before the answer begins is not counted.
    package var slowest: TransferRate?
    /// The server delays its answer until there is something new. Such a request begins at once and takes no place from others, or many
    /// of them would keep all others from the server.
    package var isLongPoll = false

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
    /// Contains only the method and the names of headers, because an address or the value of a header may contain a
    /// secret.
    package var description: String {
        "HTTPRequest(\(method), headers: \(headers.map(\.name)))"
    }

    package var customMirror: Mirror { Mirror(self, children: ["method": method, "headers": headers.map(\.name)]) }
}

extension HTTPRequest {
    /// Refuses characters that end a header line, and headers that contradict the body.
    func validate() throws(HTTPError) {
        guard !method.isEmpty, method.utf8.allSatisfy(Self.isTokenByte) else {
            throw HTTPError(.badRequest, "the method of the request has characters that HTTP does not allow")
        }
        for (name, value) in headers {
            guard !name.isEmpty, name.utf8.allSatisfy(Self.isTokenByte) else {
                throw HTTPError(.badRequest, "the name of a header has characters that HTTP does not allow")
            }
            guard value.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }) else {
                throw HTTPError(.badRequest, "the value of the header \(name) has characters that HTTP does not allow")
            }
            if Self.reservedHeaders.contains(name.lowercased()) {
                throw HTTPError(.badRequest, "only the client may set the header \(name)")
            }
        }
    }

    func hasHeader(_ name: String) -> Bool {
        headers.contains { asciiCaseInsensitivelyEqual($0.name, name) }
    }

    private static let reservedHeaders: Set<String> = ["content-length", "transfer-encoding", "expect", "host", "connection"]

    /// A `tchar` of RFC 9110.
    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}
