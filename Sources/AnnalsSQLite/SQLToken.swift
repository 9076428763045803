/// One token of SQL text.
///
/// The lexer knows only as much of SQLite's grammar as is needed to split a trigger: where strings, quoted names and
/// comments begin and end. So a semicolon or an END inside them is not a part of the trigger's own syntax. A name in
/// single quotes and a string are the same kind of token. SQLite distinguishes them by their position.
package struct SQLToken: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// A keyword or an unquoted name.
        case word
        /// Text in '…', "…", `…` or […].
        case quoted
        /// A number, or a blob literal.
        case literal
        /// One character of punctuation.
        case symbol
    }

    package let kind: Kind
    /// The range in the UTF-8 bytes of the text.
    package let range: Range<Int>
    /// As written. For quoted text, the content without quotes.
    package let text: String

    /// Whether this is `keyword` or the name, without quotes and in any case.
    package func isWord(_ keyword: String) -> Bool {
        kind == .word && text.foldedIdentifier == keyword.foldedIdentifier
    }

    package func isSymbol(_ symbol: String) -> Bool {
        kind == .symbol && text == symbol
    }

    /// Whether the token can be a name.
    package var isName: Bool { kind == .word || kind == .quoted }

    /// The tokens of `source` in order, without spaces and comments. An unterminated quote ends at the end of the text.
    package static func all(in source: [UInt8]) -> [SQLToken] {
        var lexer = SQLLexer(source: source)
        var tokens: [SQLToken] = []
        while let token = lexer.next() { tokens.append(token) }
        return tokens
    }
}

private struct SQLLexer {
    let source: [UInt8]
    var place = 0

    mutating func next() -> SQLToken? {
        skipSpacesAndComments()
        guard place < source.count else { return nil }
        let start = place
        let byte = source[place]
        switch byte {
        case UInt8(ascii: "'"), UInt8(ascii: "\""), UInt8(ascii: "`"):
            return quoted(from: start, until: byte, isDoubled: true)
        case UInt8(ascii: "["):
            return quoted(from: start, until: UInt8(ascii: "]"), isDoubled: false)
        case UInt8(ascii: "x"), UInt8(ascii: "X"):
            guard peek(1) == UInt8(ascii: "'") else { return run(.word) { Self.isWordByte($0) } }
            place += 1
            let digits = quoted(from: place, until: UInt8(ascii: "'"), isDoubled: false)
            return SQLToken(kind: .literal, range: start..<place, text: digits.text)
        case UInt8(ascii: "0")...UInt8(ascii: "9"):
            return run(.literal) { Self.isWordByte($0) || $0 == UInt8(ascii: ".") }
        case let byte where Self.isWordByte(byte):
            return run(.word) { Self.isWordByte($0) }
        default:
            place += 1
            return SQLToken(kind: .symbol, range: start..<place, text: text(start..<place))
        }
    }

    private mutating func skipSpacesAndComments() {
        while place < source.count {
            if [0x20, 0x09, 0x0A, 0x0C, 0x0D].contains(source[place]) {
                place += 1
            } else if source[place] == UInt8(ascii: "-"), peek(1) == UInt8(ascii: "-") {
                place = source[place...].firstIndex(of: 0x0A) ?? source.count
            } else if source[place] == UInt8(ascii: "/"), peek(1) == UInt8(ascii: "*") {
                place += 2
                while place < source.count, !(source[place] == UInt8(ascii: "*") && peek(1) == UInt8(ascii: "/")) { place += 1 }
                place = min(place + 2, source.count)
            } else {
                return
            }
        }
    }

    private mutating func quoted(from start: Int, until end: UInt8, isDoubled: Bool) -> SQLToken {
        var content: [UInt8] = []
        place = start + 1
        while place < source.count {
            if source[place] == end {
                guard isDoubled, peek(1) == end else { break }
                place += 1
            }
            content.append(source[place])
            place += 1
        }
        place = min(place + 1, source.count)
        return SQLToken(kind: .quoted, range: start..<place, text: String(decoding: content, as: UTF8.self))
    }

    private mutating func run(_ kind: SQLToken.Kind, while belongs: (UInt8) -> Bool) -> SQLToken {
        let start = place
        while place < source.count, belongs(source[place]) { place += 1 }
        return SQLToken(kind: kind, range: start..<place, text: text(start..<place))
    }

    private func peek(_ distance: Int) -> UInt8? {
        place + distance < source.count ? source[place + distance] : nil
    }

    private func text(_ range: Range<Int>) -> String {
        String(decoding: source[range], as: UTF8.self)
    }

    private static func isWordByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
        case UInt8(ascii: "_"), UInt8(ascii: "$"), 0x80...0xFF: true
        default: false
        }
    }
}
