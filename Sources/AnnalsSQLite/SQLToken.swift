import AnnalsCore

/// One token of SQL text, as SQLite's own tokenizer splits it.
///
/// A keyword, a parenthesis or a semicolon inside a string, a quoted name or a comment does not count as one. An operator of
/// several characters, such as `>=`, becomes one token for each character, because no caller needs the whole operator.
package struct SQLToken: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// A keyword or an unquoted name.
        case word
        /// A name in "…", `…` or […].
        case quotedName
        /// Text in '…'. SQLite reads it as a name in some positions.
        case string
        /// x'…'.
        case blob
        case number
        /// ?, ?1, :a, @a or $a.
        case variable
        /// One character of punctuation.
        case symbol
    }

    package let kind: Kind
    /// The range in the UTF-8 bytes of the text.
    package let range: Range<Int>
    /// As written, including quotes.
    package let text: String

    /// Whether this is the keyword, in upper or lower case. A quoted name is not a keyword.
    package func isWord(_ keyword: String) -> Bool {
        kind == .word && text.isSameIdentifier(as: keyword)
    }

    package func isSymbol(_ symbol: String) -> Bool {
        kind == .symbol && text == symbol
    }

    /// Whether this is a word or quoted text, and so can be a name.
    package var isName: Bool { kind == .word || kind == .quotedName || kind == .string }

    /// The name without quotes, if the token is a name in every position. nil for a string and for anything else.
    package var identifier: String? { kind == .string ? nil : name }

    /// The name without quotes, if the token can be a name. SQLite reads a string as a name in some positions.
    package var name: String? {
        switch kind {
        case .word: return text
        case .quotedName, .string: return withoutQuotes
        case .blob, .number, .variable, .symbol: return nil
        }
    }

    /// A doubled quote means one quote. Brackets in […] cannot be doubled.
    private var withoutQuotes: String {
        var inner = text.utf8.dropFirst()
        let quote = text.utf8.first == UInt8(ascii: "[") ? UInt8(ascii: "]") : text.utf8.first
        if inner.last == quote { inner.removeLast() }
        var content: [UInt8] = []
        while let byte = inner.popFirst() {
            content.append(byte)
            if byte == quote, inner.first == quote { inner.removeFirst() }
        }
        return String(decoding: content, as: UTF8.self)
    }

    /// The tokens of a text in order, without spaces and comments. An unterminated quote ends at the end of the text.
    package static func all(in sql: String) -> [SQLToken] {
        var tokenizer = SQLTokenizer(source: Array(sql.utf8))
        var tokens: [SQLToken] = []
        while let token = tokenizer.next() { tokens.append(token) }
        return tokens
    }
}

private struct SQLTokenizer {
    let source: [UInt8]
    var position = 0

    mutating func next() -> SQLToken? {
        skipSpacesAndComments()
        guard position < source.count else { return nil }
        let start = position
        let kind = skipToken(source[position])
        return SQLToken(kind: kind, range: start..<position, text: String(decoding: source[start..<position], as: UTF8.self))
    }

    /// SQLite reads a byte order mark before a token as a space.
    private mutating func skipSpacesAndComments() {
        while position < source.count {
            if [0x20, 0x09, 0x0A, 0x0C, 0x0D].contains(source[position]) {
                position += 1
            } else if isNext("--") {
                position = source[position...].firstIndex(of: UInt8(ascii: "\n")) ?? source.count
            } else if isNext("/*") {
                position += 2
                while position < source.count, !isNext("*/") { position += 1 }
                position = min(position + 2, source.count)
            } else if isNext("\u{FEFF}") {
                position += 3
            } else {
                return
            }
        }
    }

    private mutating func skipToken(_ first: UInt8) -> SQLToken.Kind {
        switch first {
        case UInt8(ascii: "'"):
            skipQuoted(by: first)
            return .string
        case UInt8(ascii: "\""), UInt8(ascii: "`"):
            skipQuoted(by: first)
            return .quotedName
        case UInt8(ascii: "["):
            position = source[position...].firstIndex(of: UInt8(ascii: "]")).map { $0 + 1 } ?? source.count
            return .quotedName
        case UInt8(ascii: "x") where peek(1) == UInt8(ascii: "'"), UInt8(ascii: "X") where peek(1) == UInt8(ascii: "'"):
            position += 1
            skipQuoted(by: UInt8(ascii: "'"))
            return .blob
        case let byte where Self.isDigit(byte) || byte == UInt8(ascii: ".") && peek(1).map(Self.isDigit) ?? false:
            skipNumber()
            return .number
        case UInt8(ascii: "?"), UInt8(ascii: ":"), UInt8(ascii: "@"), UInt8(ascii: "$"):
            position += 1
            while let byte = peek(0), Self.isOfWord(byte) { position += 1 }
            return .variable
        case let byte where Self.isOfWord(byte):
            while let byte = peek(0), Self.isOfWord(byte) { position += 1 }
            return .word
        default:
            position += 1
            return .symbol
        }
    }

    /// Skips the closing quote. A doubled quote is a part of the text.
    private mutating func skipQuoted(by quote: UInt8) {
        position += 1
        while let byte = peek(0) {
            position += 1
            guard byte == quote else { continue }
            guard peek(0) == quote else { return }
            position += 1
        }
    }

    private mutating func skipNumber() {
        let isHexadecimal = source[position] == UInt8(ascii: "0") && peek(1).map { $0 | 0x20 } == UInt8(ascii: "x")
        while let byte = peek(0) {
            let isSign = byte == UInt8(ascii: "+") || byte == UInt8(ascii: "-")
            let isOfExponent = isSign && source[position - 1] | 0x20 == UInt8(ascii: "e") && peek(1).map(Self.isDigit) ?? false
            guard Self.isOfWord(byte) || !isHexadecimal && (byte == UInt8(ascii: ".") || isOfExponent) else { return }
            position += 1
        }
    }

    private func isNext(_ mark: String) -> Bool {
        source[position...].starts(with: mark.utf8)
    }

    private func peek(_ distance: Int) -> UInt8? {
        position + distance < source.count ? source[position + distance] : nil
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }

    /// Letters, digits, _, $ and all characters beyond ASCII, as in SQLite's names.
    private static func isOfWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "_"), UInt8(ascii: "$"), 0x80...:
            true
        default: false
        }
    }
}
