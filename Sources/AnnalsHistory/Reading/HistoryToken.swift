package import AnnalsCore
import AnnalsSchema

/// A point in a store's history: after one transaction and before the next.
///
/// Its text is what `annals history` prints and accepts, for example `17-0f8fad5bd9cb`: the transaction's number, and the first
/// twelve digits of the store's identity. So a token of another store is detected. Treat the text as opaque.
///
///     let before = try await store.latestToken()
///     try await store.write { db in try db.execute(sql: "UPDATE invoice SET isPaid = 1") }
///     for try await transaction in store.history(HistoryRequest(after: before)) { print(transaction.tables) }
public struct HistoryToken: Hashable, Sendable {
    /// The number of the last transaction before this point; zero at the start of history.
    package let number: Int64
    package let store: String

    package init(number: Int64, store: StoreID) {
        self.number = number
        self.store = String(Hexadecimal.encode(store.bytes).prefix(Self.storeDigits))
    }

    private static let storeDigits = 12

    /// Parses a token's text; nil if it is not a token. The store is checked only when the token is used.
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

    /// Whether this point is before `other`; nil if the two are of different stores.
    public func isOlder(than other: HistoryToken) -> Bool? {
        store == other.store ? number < other.number : nil
    }
}

extension HistoryToken: CustomStringConvertible {
    public var description: String { "\(number)-\(store)" }
}

extension HistoryToken: Comparable {
    /// The order of history within one store. The order of tokens of different stores is fixed and has no meaning.
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
