internal import Crypto

/// A SHA-256 digest.
public struct Digest: Hashable, Sendable {
    public let bytes: [UInt8]

    /// nil unless there are exactly 32 bytes.
    public init?(bytes: [UInt8]) {
        guard bytes.count == Self.byteCount else { return nil }
        self.bytes = bytes
    }

    /// nil when the text is not 64 hexadecimal digits.
    public init?(_ text: String) {
        guard let bytes = Hexadecimal.decode(text) else { return nil }
        self.init(bytes: bytes)
    }

    private init(_ bytes: [UInt8]) { self.bytes = bytes }

    public static let byteCount = 32
    public static let zero = Digest([UInt8](repeating: 0, count: byteCount))

    /// The digest of the parts one after another, without separators: give variable parts their length first.
    public static func sha256(_ parts: ArraySlice<UInt8>...) -> Digest {
        var hasher = Hasher()
        for part in parts { hasher.update(part) }
        return hasher.finish()
    }

    /// Digests what arrives piece by piece.
    public struct Hasher: Sendable {
        private var state = SHA256()

        public init() {}

        public mutating func update(_ bytes: ArraySlice<UInt8>) {
            bytes.withUnsafeBytes { state.update(bufferPointer: $0) }
        }

        public mutating func update(_ bytes: UnsafeRawBufferPointer) {
            state.update(bufferPointer: bytes)
        }

        public func finish() -> Digest {
            Digest(Array(state.finalize()))
        }
    }
}

extension Digest: CustomStringConvertible {
    public var description: String { Hexadecimal.encode(bytes) }
}
