package import AnnalsCore

/// Values as SQL text from which SQLite makes the very same value again: class and bytes.
package struct SQLLiterals {
    /// As PRAGMA encoding calls it. A blob becomes text by bytes of the database's own encoding.
    package let encoding: String

    package init(encoding: String) {
        self.encoding = encoding
    }

    package func text(_ value: Value) -> String {
        switch value {
        case .null: "NULL"
        // As a positive number followed by a minus it would be out of range.
        case .integer(.min): "(-9223372036854775807 - 1)"
        case .integer(let integer): String(integer)
        case .real(let real): Self.real(real)
        case .text(let text): self.text(text)
        case .blob(let blob): "X'\(Hexadecimal.encode(blob.bytes))'"
        }
    }

    /// The same without an affinity, which CAST would lend to what it is compared with.
    package func operand(_ value: Value) -> String {
        let text = text(value)
        return text.hasPrefix("CAST") ? "+" + text : text
    }

    // MARK: Text

    /// Between quotes where every reader of lines takes it as it stands: the shell drops a carriage return at a line's end,
    /// and text ends at a NUL for most.
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

    /// Fifteen digits and a small exponent are read exactly by every SQLite; of more, some versions lose the last bit. Such
    /// a number is told as a whole one multiplied or divided by powers of two, which loses nothing.
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
