/// SipHash-2-4: short keyed hashes for footprints.
///
/// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012. A collision costs one needless rebase, so
/// 64 bits are enough. If the space has a key, the relay cannot guess the hashed values.
package struct SipHash: Sendable {
    private var v0: UInt64
    private var v1: UInt64
    private var v2: UInt64
    private var v3: UInt64
    private var tail: UInt64 = 0
    private var length: UInt64 = 0

    /// `key` is given as two little-endian halves.
    package init(key: (UInt64, UInt64)) {
        v0 = key.0 ^ 0x736f_6d65_7073_6575
        v1 = key.1 ^ 0x646f_7261_6e64_6f6d
        v2 = key.0 ^ 0x6c79_6765_6e65_7261
        v3 = key.1 ^ 0x7465_6462_7974_6573
    }

    package mutating func update(_ byte: UInt8) {
        tail |= UInt64(byte) << (8 * (length & 7))
        length += 1
        if length & 7 == 0 {
            compress(tail)
            tail = 0
        }
    }

    package mutating func update(_ word: UInt64) {
        if length & 7 == 0 {
            length += 8
            compress(word)
        } else {
            for shift in stride(from: UInt64(0), to: 64, by: 8) { update(UInt8(truncatingIfNeeded: word >> shift)) }
        }
    }

    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        var offset = 0
        while offset < bytes.count, length & 7 != 0 {
            update(bytes[offset])
            offset += 1
        }
        while bytes.count - offset >= 8 {
            compress(UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)))
            length += 8
            offset += 8
        }
        while offset < bytes.count {
            update(bytes[offset])
            offset += 1
        }
    }

    package mutating func update(_ bytes: some Sequence<UInt8>) {
        for byte in bytes { update(byte) }
    }

    package func finish() -> UInt64 {
        var copy = self
        copy.compress(tail | (length & 0xff) << 56)
        copy.v2 ^= 0xff
        for _ in 0..<4 { copy.round() }
        return copy.v0 ^ copy.v1 ^ copy.v2 ^ copy.v3
    }

    private mutating func compress(_ word: UInt64) {
        v3 ^= word
        round()
        round()
        v0 ^= word
    }

    private mutating func round() {
        v0 = v0 &+ v1
        v1 = Self.rotate(v1, 13) ^ v0
        v0 = Self.rotate(v0, 32)
        v2 = v2 &+ v3
        v3 = Self.rotate(v3, 16) ^ v2
        v0 = v0 &+ v3
        v3 = Self.rotate(v3, 21) ^ v0
        v2 = v2 &+ v1
        v1 = Self.rotate(v1, 17) ^ v2
        v2 = Self.rotate(v2, 32)
    }

    private static func rotate(_ value: UInt64, _ count: UInt64) -> UInt64 {
        value << count | value >> (64 - count)
    }
}
