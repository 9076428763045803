package import AnnalsCore

/// Converts values to SQL text from which SQLite creates exactly the same values, with storage class and bytes.
package struct SQLLiterals {
    /// The database's encoding, as PRAGMA encoding returns it. A blob in this encoding is cast to text.
    package let encoding: String

    package init(encoding: String) {
        self.encoding = encoding
    }

    package func text(_ value: Value) -> String {
        switch value {
        case .null: "NULL"
        // As a literal, the number without its minus sign would be out of range.
        case .integer(.min): "(-9223372036854775807 - 1)"
        case .integer(let integer): String(integer)
        case .real(let real): Self.real(real)
        case .text(let text): self.text(text)
        case .blob(let blob): "X'\(Hexadecimal.encode(blob.bytes))'"
        }
    }

    /// The same without an affinity. CAST would give its affinity to the other operand of a comparison.
    package func operand(_ value: Value) -> String {
        let text = text(value)
        return text.hasPrefix("CAST") ? "+" + text : text
    }

    // MARK: Text

    /// Quotes the text if every program that reads lines accepts it unchanged. The shell removes a carriage return at
    /// the end of a line, and most programs end a text at a NUL.
    private func text(_ text: ByteString) -> String {
        guard let string = text.string else { return "CAST(X'\(Hexadecimal.encode(text.bytes))' AS TEXT)" }
        let isPlain = text.bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\t") }
        if isPlain { return SQL.literal(string) }
        return "CAST(X'\(Hexadecimal.encode(encoded(string)))' AS TEXT)"
    }

    private func encoded(_ string: String) -> [UInt8] {
        switch encoding {
        case "UTF-16le": string.utf16.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] }
        case "UTF-16be": string.utf16.flatMap { [UInt8(truncatingIfNeeded: $0 >> 8), UInt8(truncatingIfNeeded: $0)] }
        default: Array(string.utf8)
        }
    }

    // MARK: Reals

    /// All versions of SQLite read reals with fifteen digits and a small exponent exactly. With more digits some
    /// versions lose the last bit. Such a number is written as an integer that is multiplied or divided by powers of
    /// two, which is exact.
    private static func real(_ real: Double) -> String {
        guard real.isFinite else { return real < 0 ? "-9e999" : "9e999" }
        let text = (real + 0).description
        let parts = text.split(separator: "e")
        let significand = parts[0].hasSuffix(".0") ? parts[0].dropLast(2) : parts[0]
        let exponent = parts.count > 1 ? Int(parts[1]) ?? .max : 0
        if significand.filter(\.isNumber).drop(while: { $0 == "0" }).count <= 15, abs(exponent) <= 20 { return text }
        return exact(real)
    }

    private static func exact(_ real: Double) -> String {
        let width = real.significandWidth
        let whole = Int64(real.significand * Double(sign: real.sign, exponent: width, significand: 1))
        var exponent = Int(real.exponent) - width
        var text = "(CAST(\(whole) AS REAL)"
        while exponent != 0 {
            let step = min(abs(exponent), 62)
            text += " \(exponent > 0 ? "*" : "/") CAST(1 << \(step) AS REAL)"
            exponent -= exponent > 0 ? step : -step
        }
        return text + ")"
    }
}
