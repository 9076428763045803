package import AnnalsCore

/// Converts values that an index treats as equal to one form, so that their hashes are equal.
package enum CanonicalTuple {
    /// The value as the column of the index stores and compares it.
    package static func value(_ value: Value, in column: FootprintRules.Column) -> Value {
        collate(number(convert(value, to: column.affinity)), column.collation)
    }

    /// Applies an affinity as SQLite does when it stores a value (https://sqlite.org/datatype3.html, section 3).
    static func convert(_ value: Value, to affinity: FootprintRules.Affinity) -> Value {
        switch (affinity, value) {
        case (.text, .integer(let integer)):
            return .text(String(integer))
        case (.integer, .text(let text)), (.numeric, .text(let text)), (.real, .text(let text)):
            return parse(text) ?? value
        default:
            return value
        }
    }

    /// A real with an integral value in the 64-bit range becomes that integer.
    package static func number(_ value: Value) -> Value {
        guard case .real(let real) = value, real.rounded(.towardZero) == real, real >= -0x1p63, real < 0x1p63 else { return value }
        return .integer(Int64(real))
    }

    static func collate(_ value: Value, _ collation: FootprintRules.Collation) -> Value {
        guard case .text(let text) = value else { return value }
        switch collation {
        case .binary:
            return value
        case .noCase:
            return .text(ByteString(text.bytes.map { $0.asciiLowercased }))
        case .rTrim:
            var bytes = text.bytes
            while bytes.last == 32 { bytes.removeLast() }
            return .text(ByteString(bytes))
        }
    }

    /// The number that a text represents, or nil. Spaces around it are allowed, as in SQLite.
    private static func parse(_ text: ByteString) -> Value? {
        guard let string = text.string else { return nil }
        let trimmed = string.drop { " \t\n\r\u{0B}\u{0C}".contains($0) }
        let body = String(trimmed.reversed().drop { " \t\n\r\u{0B}\u{0C}".contains($0) }.reversed())
        guard let first = body.utf8.first, body.utf8.allSatisfy(isNumeric), first != UInt8(ascii: "e"), first != UInt8(ascii: "E") else {
            return nil
        }
        if let integer = Int64(body) { return .integer(integer) }
        return Double(body).map { .real($0) }
    }

    private static func isNumeric(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "e"), UInt8(ascii: "E"):
            true
        default: false
        }
    }
}
