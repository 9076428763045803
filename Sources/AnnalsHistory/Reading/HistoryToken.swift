package import AnnalsCore
import AnnalsSchema

/// A point in a store's history: after one transaction and before the next.
///
/// Its text is what `annals history` prints and takes, `17-0f8fad5bd9cb`: the transaction's number, and the first
/// twelve digits of the store's identity, so that a token of another store is not mistaken for one of this. Keep the
/// token; do not take it apart.
///
///     let before = try await store.latestToken()
///     try await store.write { db in try db.execute(sql: "UPDATE invoice SET isPaid = 1") }
///     for try await transaction in store.history(HistoryRequest(after: before)) { print(transaction.tables) }
public struct HistoryToken: Hashable, Sendable {
    /// The number of the last transaction before this point; zero at the very beginning.
    package let number: Int64
    package let store: String

    package init(number: Int64, store: StoreID) {
        self.number = number
        self.store = String(Hexadecimal.encode(store.bytes).prefix(Self.storeDigits))
    }

    private static let storeDigits = 12

    /// Reads a token's text; nil when it is none. Which store it is from shows only when it is used.
    public init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, let number = Int64(parts[0]), number >= 0, parts[0].utf8.first != UInt8(ascii: "+") else { return nil }
        guard parts[1].utf8.count == Self.storeDigits, parts[1].utf8.allSatisfy(Self.isDigit) else { return nil }
        self.number = number
        store = parts[1].lowercased()
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"), UInt8(ascii: "A")...UInt8(ascii: "F"): true
        default: false
        }
    }

    func isOf(_ id: StoreID) -> Bool { self == HistoryToken(number: number, store: id) }

    /// Whether this point comes before `other`; nil when the two are of different stores.
    public func isOlder(than other: HistoryToken) -> Bool? {
        store == other.store ? number < other.number : nil
    }
}

extension HistoryToken: CustomStringConvertible {
    public var description: String { "\(number)-\(store)" }
}

extension HistoryToken: Comparable {
    /// The order of history within one store; between stores it means nothing, but is always the same.
    public static func < (left: HistoryToken, right: HistoryToken) -> Bool {
        (left.store, left.number) < (right.store, right.number)
    }
}

extension HistoryToken: Codable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let token = HistoryToken(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a history token")
        }
        self = token
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
