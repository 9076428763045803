/// The header fields of an answer, in the order they came; names are looked up whatever their case.
public struct HTTPHeaders: Sendable, Hashable {
    public struct Field: Sendable, Hashable {
        public var name: String
        public var value: String

        public init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    public var fields: [Field]

    public init(_ fields: [Field] = []) { self.fields = fields }

    /// The value of the first field with that name.
    public subscript(name: String) -> String? {
        fields.first { asciiCaseInsensitivelyEqual($0.name, name) }?.value
    }

    /// The values of all fields with that name.
    public func values(of name: String) -> [String] {
        fields.filter { asciiCaseInsensitivelyEqual($0.name, name) }.map(\.value)
    }

    /// What the Content-Type says, in lower case and without parameters: "text/html".
    public var mediaType: String? {
        guard let value = self["content-type"] else { return nil }
        let essence = value.prefix { $0 != ";" && $0 != " " }
        return essence.isEmpty ? nil : essence.lowercased()
    }
}

/// What is known of an answer before its body.
struct ResponseHead: Sendable, Hashable {
    var status: Int
    var headers: HTTPHeaders

    /// The length the server announced, if it did; only ever good for refusing early.
    var announcedLength: Int64? { headers["content-length"].flatMap { Int64($0) } }
}

/// A whole answer, whatever its status.
public struct HTTPResponse: Sendable, Hashable {
    public var status: Int
    public var headers: HTTPHeaders
    /// The body, unless it went to a file.
    public var body: [UInt8]
    /// Bytes of the body in this answer, wherever they went.
    public var bodyLength: Int64

    public init(status: Int, headers: HTTPHeaders = HTTPHeaders(), body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
        self.bodyLength = Int64(body.count)
    }

    init(head: ResponseHead, body: [UInt8], bodyLength: Int64) {
        self.status = head.status
        self.headers = head.headers
        self.body = body
        self.bodyLength = bodyLength
    }
}

/// Compares as HTTP compares header names: ASCII letters without their case, all other bytes exactly.
func asciiCaseInsensitivelyEqual(_ left: String, _ right: String) -> Bool {
    let (left, right) = (left.utf8, right.utf8)
    guard left.count == right.count else { return false }
    return zip(left, right).allSatisfy { first, second in
        first == second || (first ^ second == 0x20 && (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(first | 0x20))
    }
}
