/// A JSON value without loss of information: numbers keep their digits, and objects keep the order of their keys.
///
/// Foundation's reader converts numbers to Double. Double cannot represent every integer of 64 or more bits.
enum JSONValue {
    case null
    case bool(Bool)
    case number(JSONNumber)
    /// Decoded UTF-8. It is kept as bytes because Swift treats strings as equal if only their Unicode composition
    /// differs.
    case string([UInt8])
    case array([JSONValue])
    case object([Member])

    struct Member: Hashable {
        var key: [UInt8]
        var value: JSONValue
    }
}

extension JSONValue: Hashable {
    /// Objects are equal for any order of their keys. Numbers are equal for any spelling.
    static func == (left: JSONValue, right: JSONValue) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let a), .bool(let b)): a == b
        case (.number(let a), .number(let b)): a == b
        case (.string(let a), .string(let b)): a == b
        case (.array(let a), .array(let b)): a == b
        case (.object(let a), .object(let b)): a.count == b.count && Set(a) == Set(b)
        default: false
        }
    }

    func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0)
        case .bool(let value): hasher.combine(value)
        case .number(let value): hasher.combine(value)
        case .string(let value): hasher.combine(value)
        case .array(let value): hasher.combine(value)
        case .object(let members): hasher.combine(Set(members))
        }
    }
}

/// A number with its original text. Two are equal if their numeric values are equal.
struct JSONNumber: Hashable {
    let text: [UInt8]
    private let isNegative: Bool
    /// The significant digits, without zeros at the beginning and the end. Empty for zero.
    private let digits: [UInt8]
    /// The power of ten to multiply the digits with, if they are read as an integer.
    private let exponent: Int

    /// `text` must follow JSON's grammar. nil if its exponent is 2³² or more.
    init?(_ text: [UInt8]) {
        self.text = text
        var digits: [UInt8] = []
        var exponent = 0
        var written: Int?
        var isFraction = false
        var index = text.startIndex
        let isNegative = text.first == UInt8(ascii: "-")
        if isNegative { index += 1 }
        while index < text.endIndex {
            switch text[index] {
            case UInt8(ascii: "."): isFraction = true
            case UInt8(ascii: "e"), UInt8(ascii: "E"):
                written = Int(String(decoding: text[(index + 1)...], as: UTF8.self))
                guard let written, abs(written) < 1 << 32 else { return nil }
                index = text.endIndex - 1
            case let digit:
                digits.append(digit)
                if isFraction { exponent -= 1 }
            }
            index += 1
        }
        while digits.last == UInt8(ascii: "0") {
            digits.removeLast()
            exponent += 1
        }
        self.digits = Array(digits.drop { $0 == UInt8(ascii: "0") })
        self.isNegative = isNegative && !self.digits.isEmpty
        self.exponent = self.digits.isEmpty ? 0 : exponent + (written ?? 0)
    }

    static func == (left: JSONNumber, right: JSONNumber) -> Bool {
        left.isNegative == right.isNegative && left.exponent == right.exponent && left.digits == right.digits
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(isNegative)
        hasher.combine(digits)
        hasher.combine(exponent)
    }
}

extension JSONValue {
    /// Compact JSON: without spaces, with only the necessary escapes, and with the original text of numbers.
    var text: [UInt8] {
        var text: [UInt8] = []
        write(to: &text)
        return text
    }

    private func write(to text: inout [UInt8]) {
        switch self {
        case .null: text += "null".utf8
        case .bool(let value): text += (value ? "true" : "false").utf8
        case .number(let number): text += number.text
        case .string(let bytes): Self.write(bytes, to: &text)
        case .array(let elements):
            text.append(UInt8(ascii: "["))
            for (index, element) in elements.enumerated() {
                if index > 0 { text.append(UInt8(ascii: ",")) }
                element.write(to: &text)
            }
            text.append(UInt8(ascii: "]"))
        case .object(let members):
            text.append(UInt8(ascii: "{"))
            for (index, member) in members.enumerated() {
                if index > 0 { text.append(UInt8(ascii: ",")) }
                Self.write(member.key, to: &text)
                text.append(UInt8(ascii: ":"))
                member.value.write(to: &text)
            }
            text.append(UInt8(ascii: "}"))
        }
    }

    private static func write(_ bytes: [UInt8], to text: inout [UInt8]) {
        text.append(UInt8(ascii: "\""))
        for byte in bytes {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): text += [UInt8(ascii: "\\"), byte]
            case 0x0A: text += "\\n".utf8
            case 0x0D: text += "\\r".utf8
            case 0x09: text += "\\t".utf8
            case 0..<0x20:
                let digits = Array("0123456789abcdef".utf8)
                text += "\\u00".utf8
                text += [digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            default: text.append(byte)
            }
        }
        text.append(UInt8(ascii: "\""))
    }
}
