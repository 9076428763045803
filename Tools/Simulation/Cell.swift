/// A SQLite value in the oracle. Two cells are equal if storage class and bytes are equal.
///
/// The oracle does not use the product's type, so that it can find errors in that type.
enum Cell: Hashable, Sendable {
    case null
    case integer(Int64)
    case real(Double)
    case text([UInt8])
    case blob([UInt8])

    static func text(_ string: String) -> Cell { .text(Array(string.utf8)) }

    var isNull: Bool { self == .null }

    var integer: Int64? {
        if case .integer(let value) = self { value } else { nil }
    }

    /// The value as an SQL literal.
    var literal: String {
        switch self {
        case .null: "NULL"
        case .integer(let value): String(value)
        case .real(let value): String(value)
        case .text(let bytes): "'\(String(decoding: bytes, as: UTF8.self))'"
        case .blob(let bytes): "x'\(bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined())'"
        }
    }
}

/// The collation by which text is compared.
enum Collation: String, Sendable, CaseIterable {
    case binary = "BINARY"
    case noCase = "NOCASE"
    case trimmed = "RTRIM"

    /// Folds the value: values that are equal under the collation are equal afterwards. SQLite also treats an integer and a real
    /// of the same value as equal.
    func folded(_ cell: Cell) -> Cell {
        switch cell {
        case .real(let value):
            return Int64(exactly: value).map { .integer($0) } ?? cell
        case .text(var bytes):
            if self == .noCase { bytes = bytes.map { (65...90).contains($0) ? $0 + 32 : $0 } }
            if self == .trimmed { while bytes.last == 32 { bytes.removeLast() } }
            return .text(bytes)
        case .null, .integer, .blob:
            return cell
        }
    }
}
