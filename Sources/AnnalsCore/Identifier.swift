/// A random 128-bit id. `Kind` keeps the id of a replica from being passed as the id of a store.
///
/// As text it is a lowercase UUID.
public struct Identifier<Kind>: Hashable, Sendable {
    package let high: UInt64
    package let low: UInt64

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// A version 4 UUID from `generator`.
    package init(using generator: inout some RandomNumberGenerator) {
        self.init(highBits: generator.next(), lowBits: generator.next())
    }

    /// Sets the version and variant bits of a version 4 UUID.
    private init(highBits: UInt64, lowBits: UInt64) {
        high = (highBits & ~0xF000) | 0x4000
        low = (lowBits & ~(3 << 62)) | (2 << 62)
    }

    /// A version 4 UUID from the system's random number generator.
    public static func random() -> Self {
        Self(highBits: .random(in: .min ... .max), lowBits: .random(in: .min ... .max))
    }

    /// Reads 16 bytes, most significant first. nil if there are not exactly 16.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == 16 else { return nil }
        var high: UInt64 = 0
        var low: UInt64 = 0
        for (index, byte) in bytes.enumerated() {
            if index < 8 { high = high << 8 | UInt64(byte) } else { low = low << 8 | UInt64(byte) }
        }
        self.init(high: high, low: low)
    }

    /// 16 bytes, most significant first.
    public var bytes: [UInt8] {
        (0..<16).map { index in
            UInt8(truncatingIfNeeded: (index < 8 ? high : low) >> UInt64(56 - 8 * (index % 8)))
        }
    }

    /// Reads the text of a UUID in upper or lower case. nil if the text is not a UUID.
    public init?(_ text: String) {
        let digits = text.utf8.filter { $0 != UInt8(ascii: "-") }
        guard digits.count == 32, text.utf8.count == 36 || text.utf8.count == 32 else { return nil }
        var high: UInt64 = 0
        var low: UInt64 = 0
        for (index, digit) in digits.enumerated() {
            guard let nibble = Hexadecimal.value(of: digit) else { return nil }
            if index < 16 { high = high << 4 | UInt64(nibble) } else { low = low << 4 | UInt64(nibble) }
        }
        self.init(high: high, low: low)
    }
}

extension Identifier: Comparable {
    public static func < (left: Self, right: Self) -> Bool {
        (left.high, left.low) < (right.high, right.low)
    }
}

extension Identifier: CustomStringConvertible {
    public var description: String {
        let hex = Hexadecimal.encode(bytes)
        var text = ""
        for (index, character) in hex.enumerated() {
            if [8, 12, 16, 20].contains(index) { text.append("-") }
            text.append(character)
        }
        return text
    }
}

extension Identifier: Codable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let identifier = Self(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a UUID")
        }
        self = identifier
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}

package enum StoreKind {}
public enum ReplicaKind {}
public enum TransactionKind {}
public enum LineageKind {}

/// Identifies one file, joined or not. Tokens contain it.
package typealias StoreID = Identifier<StoreKind>
/// Identifies a store's membership in a space. A store that is a copy of another store takes a new id.
public typealias ReplicaID = Identifier<ReplicaKind>
/// A transaction gets its id when it is recorded, and keeps it through every rebase.
public typealias TransactionID = Identifier<TransactionKind>
/// Identifies one uninterrupted log of a space. A relay that is restored from a backup starts a new lineage.
public typealias Lineage = Identifier<LineageKind>

/// Hexadecimal text of bytes.
package enum Hexadecimal {
    private static let digits = Array("0123456789abcdef".utf8)

    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        for byte in bytes {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// nil if the text is not pairs of hexadecimal digits.
    package static func decode(_ text: String) -> [UInt8]? {
        let utf8 = Array(text.utf8)
        guard utf8.count.isMultiple(of: 2) else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(utf8.count / 2)
        for index in stride(from: 0, to: utf8.count, by: 2) {
            guard let high = value(of: utf8[index]), let low = value(of: utf8[index + 1]) else { return nil }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    static func value(of digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
