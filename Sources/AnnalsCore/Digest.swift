internal import Crypto

/// A SHA-256 digest.
public struct Digest: Hashable, Sendable {
    public let bytes: [UInt8]

    /// nil if there are not exactly 32 bytes.
    public init?(bytes: [UInt8]) {
        guard bytes.count == Self.byteCount else { return nil }
        self.bytes = bytes
    }

    /// nil if the text is not 64 hexadecimal digits.
    public init?(_ text: String) {
        guard let bytes = Hexadecimal.decode(text) else { return nil }
        self.init(bytes: bytes)
    }

    private init(_ bytes: [UInt8]) { self.bytes = bytes }

    package static let byteCount = 32
    package static let zero = Digest([UInt8](repeating: 0, count: byteCount))

    /// The digest of all parts, concatenated without separators. The caller must write the length before a part of
    /// variable length.
    package static func sha256(_ parts: ArraySlice<UInt8>...) -> Digest {
        var hasher = Hasher()
        for part in parts { hasher.update(part) }
        return hasher.finish()
    }

    /// Computes a digest of bytes that arrive in pieces.
    package struct Hasher: Sendable {
        private var state = SHA256()

        package init() {}

        package mutating func update(_ bytes: ArraySlice<UInt8>) {
            bytes.withUnsafeBytes { state.update(bufferPointer: $0) }
        }

        package mutating func update(_ bytes: UnsafeRawBufferPointer) {
            state.update(bufferPointer: bytes)
        }

        package func finish() -> Digest {
            Digest(Array(state.finalize()))
        }
    }
}

extension Digest: CustomStringConvertible {
    public var description: String { Hexadecimal.encode(bytes) }
}
