/// The header fields of an answer, in their order of arrival. Names are not case-sensitive.
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

    /// The value of the first field with this name.
    package subscript(name: String) -> String? {
        fields.first { asciiCaseInsensitivelyEqual($0.name, name) }?.value
    }

    /// The values of all fields with this name.
    package func values(of name: String) -> [String] {
        fields.filter { asciiCaseInsensitivelyEqual($0.name, name) }.map(\.value)
    }

    /// The Content-Type in lower case and without parameters, such as "text/html".
    package var mediaType: String? {
        guard let value = self["content-type"] else { return nil }
        let essence = value.prefix { $0 != ";" && $0 != " " }
        return essence.isEmpty ? nil : essence.lowercased()
    }
}

/// The answer before its body.
struct ResponseHead: Sendable, Hashable {
    var status: Int
    var headers: HTTPHeaders

    /// The length that the server announced, if any. It is used only to refuse an answer early.
    var announcedLength: Int64? { headers["content-length"].flatMap { Int64($0) } }
}

/// A complete answer, with any status.
package struct HTTPResponse: Sendable, Hashable {
    package var status: Int
    package var headers: HTTPHeaders
    /// The body. Empty if it was written to a file.
    package var body: [UInt8]
    /// The number of the body's bytes in this answer, in memory or in a file.
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

/// Compares header names as HTTP does: ASCII letters without case, all other bytes exactly.
func asciiCaseInsensitivelyEqual(_ left: String, _ right: String) -> Bool {
    let (left, right) = (left.utf8, right.utf8)
    guard left.count == right.count else { return false }
    return zip(left, right).allSatisfy { first, second in
        first == second || (first ^ second == 0x20 && (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(first | 0x20))
    }
}
