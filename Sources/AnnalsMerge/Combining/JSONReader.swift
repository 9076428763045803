import AnnalsCore

/// Reads JSON as in RFC 8259. Extensions that SQLite accepts, such as comments, cannot be combined.
struct JSONReader {
    private let bytes: [UInt8]
    private var index = 0

    /// nil if the text is not JSON, if an object has a key twice, or if a limit is exceeded.
    static func read(_ value: Value) -> JSONValue? {
        guard case .text(let text) = value, text.count <= MergeLimits.combinedBytes, text.string != nil else { return nil }
        var reader = JSONReader(bytes: text.bytes)
        guard let value = reader.value(depth: 0) else { return nil }
        reader.skipSpaces()
        return reader.index == reader.bytes.count ? value : nil
    }

    private init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    private var current: UInt8? { index < bytes.count ? bytes[index] : nil }

    private mutating func skipSpaces() {
        while let byte = current, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { index += 1 }
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard current == byte else { return false }
        index += 1
        return true
    }

    private mutating func take(_ word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard index + count <= bytes.count, (0..<count).allSatisfy({ bytes[index + $0] == word.utf8Start[$0] }) else { return false }
        index += count
        return true
    }

    private mutating func value(depth: Int) -> JSONValue? {
        guard depth <= MergeLimits.jsonDepth else { return nil }
        skipSpaces()
        switch current {
        case UInt8(ascii: "{"): return object(depth: depth)
        case UInt8(ascii: "["): return array(depth: depth)
        case UInt8(ascii: "\""): return string().map { .string($0) }
        case UInt8(ascii: "t"): return take("true") ? .bool(true) : nil
        case UInt8(ascii: "f"): return take("false") ? .bool(false) : nil
        case UInt8(ascii: "n"): return take("null") ? .null : nil
        default: return number().map { .number($0) }
        }
    }

    private mutating func object(depth: Int) -> JSONValue? {
        index += 1
        skipSpaces()
        var members: [JSONValue.Member] = []
        var keys: Set<[UInt8]> = []
        if take(UInt8(ascii: "}")) { return .object(members) }
        repeat {
            skipSpaces()
            guard current == UInt8(ascii: "\""), let key = string(), keys.insert(key).inserted else { return nil }
            skipSpaces()
            guard take(UInt8(ascii: ":")), let value = value(depth: depth + 1) else { return nil }
            members.append(.init(key: key, value: value))
            skipSpaces()
        } while take(UInt8(ascii: ","))
        return take(UInt8(ascii: "}")) ? .object(members) : nil
    }

    private mutating func array(depth: Int) -> JSONValue? {
        index += 1
        skipSpaces()
        var elements: [JSONValue] = []
        if take(UInt8(ascii: "]")) { return .array(elements) }
        repeat {
            guard let value = value(depth: depth + 1) else { return nil }
            elements.append(value)
            skipSpaces()
        } while take(UInt8(ascii: ","))
        return take(UInt8(ascii: "]")) ? .array(elements) : nil
    }

    private mutating func number() -> JSONNumber? {
        let start = index
        _ = take(UInt8(ascii: "-"))
        guard let first = current, isDigit(first) else { return nil }
        if !take(UInt8(ascii: "0")) { skipDigits() }
        if take(UInt8(ascii: ".")) {
            guard let next = current, isDigit(next) else { return nil }
            skipDigits()
        }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            guard let next = current, isDigit(next) else { return nil }
            skipDigits()
        }
        return JSONNumber(Array(bytes[start..<index]))
    }

    private func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    private mutating func skipDigits() {
        while let byte = current, isDigit(byte) { index += 1 }
    }

    private mutating func string() -> [UInt8]? {
        index += 1
        var text: [UInt8] = []
        while let byte = current {
            index += 1
            switch byte {
            case UInt8(ascii: "\""): return text
            case UInt8(ascii: "\\"):
                guard let scalar = escape() else { return nil }
                text += Array(String(Character(scalar)).utf8)
            case 0..<0x20: return nil
            default: text.append(byte)
            }
        }
        return nil
    }

    private mutating func escape() -> Unicode.Scalar? {
        guard let byte = current else { return nil }
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
        case UInt8(ascii: "b"): return "\u{08}"
        case UInt8(ascii: "f"): return "\u{0C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"): return unicodeEscape()
        default: return nil
        }
    }

    /// One half of a surrogate pair without the other half is not valid.
    private mutating func unicodeEscape() -> Unicode.Scalar? {
        guard let first = fourDigits() else { return nil }
        guard (0xD800..<0xDC00).contains(first) else { return Unicode.Scalar(first) }
        guard take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")), let second = fourDigits(), (0xDC00..<0xE000).contains(second) else {
            return nil
        }
        return Unicode.Scalar(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
    }

    private mutating func fourDigits() -> UInt32? {
        guard index + 4 <= bytes.count else { return nil }
        defer { index += 4 }
        let digits = bytes[index..<index + 4]
        guard digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }) else { return nil }
        return UInt32(String(decoding: digits, as: UTF8.self), radix: 16)
    }
}
