/// Parses an answer's head line by line, as libcurl passes it. Interim answers (100 to 199) and fields after the body
/// are ignored.
struct HeadParser {
    private(set) var head: ResponseHead?
    private var status: Int?
    private var fields: [HTTPHeaders.Field] = []
    private var size = 0
    private let limit: Int

    init(limit: Int = HTTPLimits.headBytes) { self.limit = limit }

    /// Whether no byte of an answer has arrived.
    var isUntouched: Bool { size == 0 }

    /// Parses one line with its line end. Returns the head if this line completed it.
    mutating func accept(_ line: UnsafeRawBufferPointer) throws(HTTPError) -> ResponseHead? {
        size += line.count
        guard size <= limit else { throw HTTPError(.tooLarge, "the answer's head is larger than \(limit) bytes") }
        guard head == nil else { return nil }
        let text = Self.trim(line[...])
        if text.isEmpty { return finish() }
        if status == nil {
            status = try Self.status(in: text)
        } else if let first = line.first, Self.isBlank(first), !fields.isEmpty {
            // A folded field. It is obsolete in HTTP, but it belongs to the line before.
            fields[fields.count - 1].value += " " + String(decoding: text, as: UTF8.self)
        } else if let colon = text.firstIndex(of: UInt8(ascii: ":")) {
            let name = Self.trim(text[..<colon])
            let value = Self.trim(text[(colon + 1)...])
            fields.append(HTTPHeaders.Field(name: String(decoding: name, as: UTF8.self), value: String(decoding: value, as: UTF8.self)))
        }
        return nil
    }

    private mutating func finish() -> ResponseHead? {
        guard let status else { return nil }
        defer { (self.status, fields) = (nil, []) }
        guard status >= 200 else { return nil }
        head = ResponseHead(status: status, headers: HTTPHeaders(fields))
        return head
    }

    /// The status in "HTTP/1.1 200 OK".
    private static func status(in line: Slice<UnsafeRawBufferPointer>) throws(HTTPError) -> Int {
        let words = line.split(separator: UInt8(ascii: " "), maxSplits: 2)
        guard words.count >= 2, words[0].starts(with: "HTTP/".utf8), words[1].count == 3,
            let status = Int(String(decoding: words[1], as: UTF8.self)), status >= 100
        else { throw HTTPError(.protocolError, "the answer does not begin with an HTTP status line") }
        return status
    }

    private static func trim(_ bytes: Slice<UnsafeRawBufferPointer>) -> Slice<UnsafeRawBufferPointer> {
        var bytes = bytes
        while let first = bytes.first, isBlank(first) { bytes.removeFirst() }
        while let last = bytes.last, isBlank(last) { bytes.removeLast() }
        return bytes
    }

    private static func isBlank(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == UInt8(ascii: "\r") || byte == UInt8(ascii: "\n")
    }
}
