/// One SQLite value with its storage class.
///
///     let blame = try await store.blame(table: "customer", key: [.integer(7)])
///     let name = blame.columns.first { $0.name == "name" }?.value
///     if case .text(let bytes)? = name { print(bytes.string ?? "no valid UTF-8") }
///
/// Two values are equal if storage class and bytes are equal: 1 and 1.0 differ, 'abc' and 'ABC' differ. SQLite stores
/// NaN as NULL. SQL cannot distinguish −0.0 from 0.0, so both are equal here, too.
public enum Value: Sendable {
    case null
    case integer(Int64)
    case real(Double)
    case text(ByteString)
    case blob(ByteString)

    public static func text(_ string: String) -> Value { .text(ByteString(string)) }
    public static func blob(_ bytes: [UInt8]) -> Value { .blob(ByteString(bytes)) }

    public var isNull: Bool {
        if case .null = self { true } else { false }
    }

    public var integer: Int64? {
        if case .integer(let value) = self { value } else { nil }
    }
}

extension Value: Hashable {
    public static func == (left: Value, right: Value) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.integer(let a), .integer(let b)): a == b
        case (.real(let a), .real(let b)): (a + 0).bitPattern == (b + 0).bitPattern
        case (.text(let a), .text(let b)): a == b
        case (.blob(let a), .blob(let b)): a == b
        default: false
        }
    }

    public func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0 as UInt8)
        case .integer(let value):
            hasher.combine(1 as UInt8)
            hasher.combine(value)
        case .real(let value):
            hasher.combine(2 as UInt8)
            hasher.combine((value + 0).bitPattern)
        case .text(let value):
            hasher.combine(3 as UInt8)
            hasher.combine(value)
        case .blob(let value):
            hasher.combine(4 as UInt8)
            hasher.combine(value)
        }
    }
}

extension Value: CustomStringConvertible {
    /// The value as a literal of SQL, for messages and debugging; a blob only by its size.
    public var description: String {
        switch self {
        case .null: "NULL"
        case .integer(let integer): String(integer)
        case .real(let real): String(real)
        case .text(let text):
            "'\(String(decoding: text.bytes, as: UTF8.self).split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''"))'"
        case .blob(let blob): "blob of \(blob.count) bytes"
        }
    }
}

extension Value {
    /// Bytes of a text or a blob; other values are small.
    package var byteCount: Int {
        switch self {
        case .text(let content), .blob(let content): content.count
        case .null, .integer, .real: 0
        }
    }
}
