package import AnnalsCore

/// Appends numbers, strings and values in the encoding of the format.
///
/// Numbers of variable size are LEB128: seven bits in each byte, least significant first. The top bit is set on all
/// bytes except the last. Only the shortest form is allowed. So each content has exactly one encoding.
///
/// The store digests row by row with this type. Declarations that are `package` are inlined into other modules only if
/// they are `@inlinable` and their type is `@usableFromInline`.
@usableFromInline
package struct ByteWriter: Sendable {
    /// The bytes written so far.
    @usableFromInline package var bytes: [UInt8]

    package init() {
        bytes = []
    }

    /// Reserves memory for this number of bytes.
    package init(capacity: Int) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    package var count: Int { bytes.count }

    @inlinable
    package mutating func byte(_ value: UInt8) {
        bytes.append(value)
    }

    @inlinable
    package mutating func varint(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: rest))
    }

    /// A count, a length or an index. It must not be negative.
    @inlinable
    package mutating func varint(_ value: Int) {
        precondition(value >= 0, "counts and lengths are not negative")
        varint(UInt64(value))
    }

    /// A signed number: 0, −1, 1, −2, … are encoded as 0, 1, 2, 3, …
    @inlinable
    package mutating func zigzag(_ value: Int64) {
        varint(UInt64(bitPattern: (value << 1) ^ (value >> 63)))
    }

    package mutating func fixed64LE(_ value: UInt64) {
        withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
    }

    /// A count, then this number of fixed-size numbers.
    mutating func fixed64LEs(_ values: [UInt64]) {
        varint(values.count)
        values.map { $0.littleEndian }.withUnsafeBytes { bytes.append(contentsOf: $0) }
    }

    package mutating func bytes(_ content: some Sequence<UInt8>) {
        bytes.append(contentsOf: content)
    }

    package mutating func bytes(_ content: UnsafeRawBufferPointer) {
        bytes.append(contentsOf: content)
    }

    /// The length, then the text as UTF-8.
    package mutating func string(_ text: String) {
        varint(text.utf8.count)
        bytes.append(contentsOf: text.utf8)
    }

    /// The length, then the bytes.
    package mutating func lengthPrefixed(_ content: [UInt8]) {
        varint(content.count)
        bytes.append(contentsOf: content)
    }

    /// The length, then the output of `write`.
    package mutating func lengthPrefixed(_ write: (inout ByteWriter) -> Void) {
        var inner = ByteWriter()
        write(&inner)
        lengthPrefixed(inner.bytes)
    }

    package mutating func identifier<Kind>(_ identifier: Identifier<Kind>) {
        withUnsafeBytes(of: identifier.high.bigEndian) { bytes.append(contentsOf: $0) }
        withUnsafeBytes(of: identifier.low.bigEndian) { bytes.append(contentsOf: $0) }
    }

    package mutating func digest(_ digest: Digest) {
        bytes.append(contentsOf: digest.bytes)
    }

    package mutating func position(_ position: Position) {
        precondition(position.rawValue >= 0, "positions are not negative")
        varint(UInt64(position.rawValue))
    }

    package mutating func time(_ time: HybridTime) {
        milliseconds(time.milliseconds)
        varint(UInt64(time.counter))
    }

    /// Milliseconds since 1970. A value beyond the limit, such as "the latest possible", is written as the limit.
    package mutating func milliseconds(_ milliseconds: Int64) {
        let limit = WireLimits.maximumMilliseconds
        zigzag(min(max(milliseconds, -limit), limit))
    }
}
