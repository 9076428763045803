package import AnnalsCore

/// Appends numbers, strings and values as the format writes them.
///
/// Numbers of unknown size are LEB128: seven bits a byte, least significant first, the top bit set on all but the
/// last, in the shortest form. So every content has exactly one encoding.
///
/// The store digests row by row with it. What is `package` is compiled into other modules only where it says `@inlinable`
/// and its type `@usableFromInline`.
@usableFromInline
package struct ByteWriter: Sendable {
    /// What was written so far.
    @usableFromInline package var bytes: [UInt8]

    package init() {
        bytes = []
    }

    /// Starts with room for as many bytes.
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

    /// A count, length or place. Negative ones are a misuse.
    @inlinable
    package mutating func varint(_ value: Int) {
        precondition(value >= 0, "counts and lengths are not negative")
        varint(UInt64(value))
    }

    /// Signed: 0, −1, 1, −2, … become 0, 1, 2, 3, …
    @inlinable
    package mutating func zigzag(_ value: Int64) {
        varint(UInt64(bitPattern: (value << 1) ^ (value >> 63)))
    }

    package mutating func fixed64LE(_ value: UInt64) {
        withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
    }

    /// A count, then as many fixed numbers.
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

    /// Length, then UTF-8.
    package mutating func string(_ text: String) {
        varint(text.utf8.count)
        bytes.append(contentsOf: text.utf8)
    }

    /// Length, then the bytes.
    package mutating func lengthPrefixed(_ content: [UInt8]) {
        varint(content.count)
        bytes.append(contentsOf: content)
    }

    /// Length, then what `write` writes.
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

    /// Milliseconds since 1970; those beyond the limit, such as "the latest possible", are written as the limit.
    package mutating func milliseconds(_ milliseconds: Int64) {
        let limit = WireLimits.maximumMilliseconds
        zigzag(min(max(milliseconds, -limit), limit))
    }
}
