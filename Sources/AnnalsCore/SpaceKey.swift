internal import Crypto
internal import Foundation

/// A secret of 32 bytes that all replicas of a space share. The relay does not have it.
///
///     let line = SpaceKey.random().line          // once; copy it to each device in a safe way
///     var configuration = Store.Configuration()
///     configuration.spaceKeys = try SpaceKeyRing(text: line)
///
/// The key itself is never used to encrypt. Each purpose in each space has its own derived key.
public struct SpaceKey: Hashable, Sendable {
    public static let byteCount = 32
    private static let prefix = "annals-key-1:"

    /// Batches, footprints and snapshots identify the key by this id. It is never zero, and it reveals nothing about
    /// the key.
    public let id: UInt64
    private let secret: SymmetricKey

    /// nil if there are not exactly 32 bytes.
    public init?(bytes: [UInt8]) {
        guard bytes.count == Self.byteCount else { return nil }
        secret = SymmetricKey(data: bytes)
        let hash = Self.derive(from: secret, info: "annals 1 id", byteCount: 8)
        id = max(1, hash.reduce(into: UInt64(0)) { $0 = $0 >> 8 | UInt64($1) << 56 })
    }

    /// A new random key.
    public static func random() -> SpaceKey {
        var bytes: [UInt8] = []
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<byteCount { bytes.append(UInt8.random(in: 0 ... .max, using: &generator)) }
        guard let key = SpaceKey(bytes: bytes) else { preconditionFailure("a key has 32 bytes") }
        return key
    }

    /// The line of a key file.
    public var line: String { Self.prefix + secret.withUnsafeBytes { Data($0).base64EncodedString() } }

    /// nil if the line is not a key in the form of `line`.
    init?(line: some StringProtocol) {
        guard line.hasPrefix(Self.prefix), let bytes = Data(base64Encoded: String(line.dropFirst(Self.prefix.count))) else { return nil }
        self.init(bytes: [UInt8](bytes))
    }

    /// The id in the form that users see.
    public static func name(of id: UInt64) -> String {
        Hexadecimal.encode(withUnsafeBytes(of: id.bigEndian, Array.init))
    }

    /// Derives bytes for one purpose, by HKDF-SHA256 without a salt.
    package func derive(info: String, byteCount: Int) -> [UInt8] {
        Self.derive(from: secret, info: info, byteCount: byteCount)
    }

    private static func derive(from secret: SymmetricKey, info: String, byteCount: Int) -> [UInt8] {
        HKDF<SHA256>.deriveKey(inputKeyMaterial: secret, info: Array(info.utf8), outputByteCount: byteCount).withUnsafeBytes { Array($0) }
    }

    public static func == (left: SpaceKey, right: SpaceKey) -> Bool {
        left.id == right.id && left.secret == right.secret
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(id)
    }
}

extension SpaceKey: CustomStringConvertible, CustomDebugStringConvertible {
    /// Never contains the key.
    public var description: String { "space key \(Self.name(of: id))" }
    public var debugDescription: String { description }
}

/// The keys of a key file. The last key seals, and every key opens. To change the key, add a line to the file of every
/// replica:
///
///     let ring = try SpaceKeyRing(text: old + "\n" + SpaceKey.random().line)
public struct SpaceKeyRing: Hashable, Sendable {
    /// The largest number of bytes that is read of a key file.
    package static let maximumBytes = 64 << 10

    /// At least one key, in the order of the file.
    public let keys: [SpaceKey]

    public init(_ key: SpaceKey) {
        keys = [key]
    }

    /// Reads the text of a key file: one key a line. Empty lines and lines that begin with `#` are ignored.
    ///
    /// - Throws: `SpaceKeyError`.
    public init(text: String) throws(SpaceKeyError) {
        var keys: [SpaceKey] = []
        for (index, line) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            let line = line.trimmingCharacters(in: .whitespacesAndNewlines)
            if line.isEmpty || line.hasPrefix("#") { continue }
            guard let key = SpaceKey(line: line) else { throw .badLine(index + 1) }
            keys.append(key)
        }
        guard !keys.isEmpty else { throw .empty }
        self.keys = keys
    }

    /// The key that seals.
    package var sealing: SpaceKey { keys[keys.count - 1] }

    package func key(_ id: UInt64) -> SpaceKey? { keys.last { $0.id == id } }
}

/// The reason why a text is not a key file. It never contains any of that text.
public enum SpaceKeyError: Error, Hashable, Sendable {
    case empty
    /// The number of the line, from 1.
    case badLine(Int)
}

extension SpaceKeyError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .empty: "contains no key"
        case .badLine(let line): "is not a key file: line \(line) is not a key"
        }
    }
}
