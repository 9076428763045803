/// The header fields of an answer, in the order they came; names are looked up whatever their case.
package struct HTTPHeaders: Sendable, Hashable {
    package struct Field: Sendable, Hashable {
        package var name: String
        package var value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    package var fields: [Field]

    package init(_ fields: [Field] = []) { self.fields = fields }

    /// The value of the first field with that name.
    package subscript(name: String) -> String? {
        fields.first { asciiCaseInsensitivelyEqual($0.name, name) }?.value
    }

    /// The values of all fields with that name.
    package func values(of name: String) -> [String] {
        fields.filter { asciiCaseInsensitivelyEqual($0.name, name) }.map(\.value)
    }

    /// What the Content-Type says, in lower case and without parameters: "text/html".
    package var mediaType: String? {
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
package struct HTTPResponse: Sendable, Hashable {
    package var status: Int
    package var headers: HTTPHeaders
    /// The body, unless it went to a file.
    package var body: [UInt8]
    /// Bytes of the body in this answer, wherever they went.
    package var bodyLength: Int64

    package init(status: Int, headers: HTTPHeaders = HTTPHeaders(), body: [UInt8] = []) {
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
