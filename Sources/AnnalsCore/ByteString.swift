/// Bytes exactly as SQLite stores them. Text may be invalid UTF-8, and blobs may contain NUL bytes.
public struct ByteString: Hashable, Sendable {
    public var bytes: [UInt8]

    public init(_ bytes: [UInt8] = []) {
        self.bytes = bytes
    }

    package init(_ buffer: UnsafeRawBufferPointer) {
        self.bytes = Array(buffer)
    }

    public init(_ string: String) {
        self.bytes = Array(string.utf8)
    }

    public var count: Int { bytes.count }

    /// The bytes as text, or nil if they are not valid UTF-8.
    public var string: String? {
        String(validating: bytes, as: UTF8.self)
    }
}

extension ByteString {
    /// Hashes all bytes in one call. The hash of an array takes them one by one, which is slower.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(bytes.count)
        bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
    }
}

extension ByteString: Comparable {
    /// Byte order, as in SQLite's BINARY collation.
    public static func < (left: Self, right: Self) -> Bool {
        left.bytes.lexicographicallyPrecedes(right.bytes)
    }
}

extension ByteString: ExpressibleByStringLiteral {
    public init(stringLiteral value: String) {
        self.init(value)
    }
}
