import AnnalsCore
import Foundation

/// A JSON value. Its keys keep their order, so that output can be compared as text.
///
/// Integers are exact, which Foundation's own types do not guarantee.
indirect enum JSON: Equatable, Sendable {
    case null
    case bool(Bool)
    case integer(Int64)
    case real(Double)
    case text(String)
    case array([JSON])
    case object([Member])

    struct Member: Equatable, Sendable {
        var key: String
        var value: JSON
    }

    static func object(_ members: KeyValuePairs<String, JSON>) -> JSON {
        .object(members.map { Member(key: $0.key, value: $0.value) })
    }

    static func integer(_ number: Int) -> JSON { .integer(Int64(number)) }

    static func text(_ text: String?) -> JSON { text.map { .text($0) } ?? .null }

    /// A SQLite value in the form that scripts rely on.
    static func value(_ value: Value) -> JSON {
        switch value {
        case .null: .null
        case .integer(let integer): .integer(integer)
        case .real(let real) where real.isFinite: .real(real)
        case .real(let real): .object(["real": .text(real.isNaN ? "nan" : real < 0 ? "-inf" : "inf")])
        case .text(let bytes): bytes.string.map { .text($0) } ?? .object(["textBase64": .text(base64(bytes))])
        case .blob(let bytes): .object(["base64": .text(base64(bytes))])
        }
    }

    private static func base64(_ bytes: ByteString) -> String {
        Data(bytes.bytes).base64EncodedString()
    }

    /// Adds members at the end. Values other than objects are returned unchanged.
    func adding(_ members: KeyValuePairs<String, JSON>) -> JSON {
        guard case .object(let own) = self else { return self }
        return .object(own + members.map { Member(key: $0.key, value: $0.value) })
    }
}

extension JSON: CustomStringConvertible {
    /// One line, without spaces.
    var description: String {
        var text = ""
        write(to: &text)
        return text
    }

    private func write(to text: inout String) {
        switch self {
        case .null: text += "null"
        case .bool(let value): text += value ? "true" : "false"
        case .integer(let value): text += String(value)
        case .real(let value): text += value.description
        case .text(let value): Self.write(value, to: &text)
        case .array(let values):
            text += "["
            for (index, value) in values.enumerated() {
                if index > 0 { text += "," }
                value.write(to: &text)
            }
            text += "]"
        case .object(let members):
            text += "{"
            for (index, member) in members.enumerated() {
                if index > 0 { text += "," }
                Self.write(member.key, to: &text)
                text += ":"
                member.value.write(to: &text)
            }
            text += "}"
        }
    }

    private static func write(_ string: String, to text: inout String) {
        text += "\""
        for scalar in string.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            case "\r": text += "\\r"
            case "\t": text += "\\t"
            case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}", "\u{2028}", "\u{2029}":
                let digits = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: text.unicodeScalars.append(scalar)
            }
        }
        text += "\""
    }
}
