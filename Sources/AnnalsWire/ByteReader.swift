package import AnnalsCore

/// Reads what `ByteWriter` wrote, from untrusted bytes.
///
/// Every read checks the bounds first and throws an error. No read traps. No read allocates memory for a length that
/// the bytes only claim. After an error the offset is unspecified.
package struct ByteReader: Sendable {
    /// All bytes, including those outside of the range that is read. Ranges refer to this array.
    package let bytes: [UInt8]
    /// The offset of the next byte.
    package internal(set) var offset: Int
    /// The offset after the last byte.
    package let end: Int

    /// Reads `range` of the bytes, or all of them. A range that exceeds the bytes is clamped.
    package init(_ bytes: [UInt8], range: Range<Int>? = nil) {
        let range = (range ?? 0..<bytes.count).clamped(to: 0..<bytes.count)
        self.bytes = bytes
        offset = range.lowerBound
        end = range.upperBound
    }

    package var isAtEnd: Bool { offset == end }
    package var remaining: Int { end - offset }

    @inline(__always)
    package mutating func readByte() throws(WireError) -> UInt8 {
        guard offset < end else { throw .truncated }
        let byte = bytes[offset]
        offset += 1
        return byte
    }

    @inline(__always)
    package mutating func readVarint() throws(WireError) -> UInt64 {
        let first = try readByte()
        return first < 0x80 ? UInt64(first) : try readLongVarint(first)
    }

    private mutating func readLongVarint(_ first: UInt8) throws(WireError) -> UInt64 {
        var value = UInt64(first & 0x7f)
        var shift: UInt64 = 7
        while true {
            let byte = try readByte()
            if shift == 63, byte > 1 { throw .badValue("number") }
            value |= UInt64(byte & 0x7f) << shift
            if byte < 0x80 {
                // A number has only one form, the shortest.
                if byte == 0 { throw .badValue("number") }
                return value
            }
            shift += 7
        }
    }

    package mutating func readZigzag() throws(WireError) -> Int64 {
        let value = try readVarint()
        return Int64(bitPattern: value >> 1) ^ -Int64(bitPattern: value & 1)
    }

    /// A number that is not negative and fits in 63 bits.
    package mutating func readNumber() throws(WireError) -> Int64 {
        guard let number = Int64(exactly: try readVarint()) else { throw .badValue("number") }
        return number
    }

    package mutating func readInt() throws(WireError) -> Int {
        guard let number = Int(exactly: try readVarint()) else { throw .badValue("number") }
        return number
    }

    /// The count of items that take at least `minimumBytes` each. A count that exceeds the remaining bytes is an error
    /// at once.
    package mutating func readCount(minimumBytes: Int = 1) throws(WireError) -> Int {
        let count = try readVarint()
        guard count <= UInt64(remaining / minimumBytes) else { throw .truncated }
        return Int(count)
    }

    /// Skips this number of bytes and returns their range.
    package mutating func readRange(_ count: Int) throws(WireError) -> Range<Int> {
        guard count >= 0, count <= remaining else { throw .truncated }
        let range = offset..<offset + count
        offset += count
        return range
    }

    /// Reads a length, skips this number of bytes, and returns their range.
    package mutating func readLengthPrefixed() throws(WireError) -> Range<Int> {
        try readRange(try readCount())
    }

    package mutating func readBytes(_ count: Int) throws(WireError) -> [UInt8] {
        Array(bytes[try readRange(count)])
    }

    @inline(__always)
    package mutating func readFixed64LE() throws(WireError) -> UInt64 {
        let start = try readRange(8).lowerBound
        return bytes.withUnsafeBytes { UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: start, as: UInt64.self)) }
    }

    /// A count, then this number of fixed-size numbers.
    mutating func readFixed64LEs() throws(WireError) -> [UInt64] {
        let count = try readCount(minimumBytes: 8)
        let start = try readRange(8 * count).lowerBound
        return bytes.withUnsafeBytes { buffer in
            (0..<count).map { UInt64(littleEndian: buffer.loadUnaligned(fromByteOffset: start + 8 * $0, as: UInt64.self)) }
        }
    }

    package mutating func readString() throws(WireError) -> String {
        let range = try readLengthPrefixed()
        guard let text = String(validating: bytes[range], as: UTF8.self) else { throw .badValue("text") }
        return text
    }

    package mutating func readBool() throws(WireError) -> Bool {
        let byte = try readByte()
        guard byte <= 1 else { throw .badValue("flag") }
        return byte == 1
    }

    /// A byte of flags. Only the flags in `allowed` may be set.
    package mutating func readFlags(allowed: UInt8) throws(WireError) -> UInt8 {
        let flags = try readByte()
        guard flags & ~allowed == 0 else { throw .badValue("flags") }
        return flags
    }

    package mutating func readIdentifier<Kind>(_ kind: Identifier<Kind>.Type = Identifier<Kind>.self) throws(WireError) -> Identifier<Kind>
    {
        let start = try readRange(16).lowerBound
        let (high, low) = bytes.withUnsafeBytes { buffer in
            (
                UInt64(bigEndian: buffer.loadUnaligned(fromByteOffset: start, as: UInt64.self)),
                UInt64(bigEndian: buffer.loadUnaligned(fromByteOffset: start + 8, as: UInt64.self))
            )
        }
        return Identifier(high: high, low: low)
    }

    package mutating func readDigest() throws(WireError) -> Digest {
        guard let digest = Digest(bytes: try readBytes(Digest.byteCount)) else { throw .truncated }
        return digest
    }

    /// A position or counter. Its limit ensures that the addition of a count cannot overflow.
    package mutating func readPosition() throws(WireError) -> Position {
        let number = try readVarint()
        guard number <= UInt64(WireLimits.maximumPosition) else { throw .badValue("position") }
        return Position(Int64(number))
    }

    package mutating func readTime() throws(WireError) -> HybridTime {
        let milliseconds = try readMilliseconds()
        guard let counter = UInt32(exactly: try readVarint()) else { throw .badValue("time") }
        return HybridTime(milliseconds: milliseconds, counter: counter)
    }

    /// Milliseconds since 1970, between minus and plus `WireLimits.maximumMilliseconds`.
    package mutating func readMilliseconds() throws(WireError) -> Int64 {
        let milliseconds = try readZigzag()
        guard (-WireLimits.maximumMilliseconds...WireLimits.maximumMilliseconds).contains(milliseconds) else { throw .badValue("time") }
        return milliseconds
    }

    /// Throws if unread bytes are left.
    package func expectEnd() throws(WireError) {
        guard isAtEnd else { throw .badLength }
    }

    /// Throws unless the next bytes are `magic` and `version`.
    mutating func readMagic(_ magic: StaticString, version: UInt8) throws(WireError) {
        for index in 0..<magic.utf8CodeUnitCount {
            guard offset < end else { throw .truncated }
            guard try readByte() == magic.utf8Start[index] else { throw .badMagic }
        }
        let found = try readByte()
        guard found <= version else { throw .newerVersion(found) }
        guard found == version else { throw .olderVersion(found) }
    }
}
