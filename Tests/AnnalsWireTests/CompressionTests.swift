import AnnalsWire
import SeededRandom
import Testing

@Suite struct CompressionTests {
    /// A million zeros in a few dozen bytes.
    static let zeros = [UInt8](repeating: 0, count: 1_000_000)

    @Test func `bytes come back as they were`() throws {
        var generator = SeededGenerator(seed: 1)
        for count in [0, 1, 100, 70_000, 300_000] {
            let bytes = (0..<count).map { _ in UInt8.random(in: 0..<16, using: &generator) }
            let packed = try Compression.compress(bytes)
            #expect(try Compression.decompress([9] + packed, range: 1..<packed.count + 1, expected: count) == bytes)
        }
    }

    @Test func `the size must be exactly what was said`() throws {
        let packed = try Compression.compress(Self.zeros)
        #expect(packed.count < 1_000)
        #expect(try Compression.decompress(packed, expected: 1_000_000) == Self.zeros)
        #expect(throws: WireError.badLength) { try Compression.decompress(packed, expected: 999_999) }
        #expect(throws: WireError.badLength) { try Compression.decompress(packed, expected: 1_000_001) }
        #expect(throws: WireError.badLength) { try Compression.decompress(packed + [0], expected: 1_000_000) }
        #expect(throws: WireError.badLength) { try Compression.decompress(packed + packed, expected: 2_000_000) }
        #expect(throws: WireError.badLength) { try Compression.decompress(packed, expected: 0) }
    }

    @Test func `a claimed size costs no memory`() throws {
        // Were memory set aside for it, this would end the process.
        let packed = try Compression.compress([1, 2, 3])
        #expect(throws: WireError.badLength) { try Compression.decompress(packed, expected: 1 << 50) }
    }

    @Test func `truncated and foreign bytes are refused`() throws {
        let packed = try Compression.compress(Array("to be or not to be, to be or not".utf8))
        for count in 0..<packed.count {
            #expect(throws: WireError.self) { try Compression.decompress(Array(packed[..<count]), expected: 32) }
        }
        #expect(throws: WireError.badValue("compressed bytes")) { try Compression.decompress(Array("<html>".utf8), expected: 10) }
    }

    @Test func `what is packed piece by piece unpacks as a whole`() throws {
        for announced in [nil, Self.zeros.count] {
            var compressor = try StreamCompressor(level: Compression.batchLevel, expecting: announced)
            var packed: [UInt8] = []
            for start in stride(from: 0, to: Self.zeros.count, by: 30_000) {
                try Self.zeros[start..<min(start + 30_000, Self.zeros.count)].withUnsafeBytes { piece in
                    try compressor.write(piece) { packed.append(contentsOf: $0) }
                }
            }
            try compressor.finish { packed.append(contentsOf: $0) }
            #expect(try Compression.decompress(packed, expected: Self.zeros.count) == Self.zeros)
        }
    }

    @Test func `pieces of any size unpack to the same`() throws {
        let packed = try Compression.compress(Self.zeros)
        for size in [1, 7, packed.count] {
            var decompressor = try StreamDecompressor(maximumBytes: 1_000_000)
            var count = 0
            for start in stride(from: 0, to: packed.count, by: size) {
                try packed[start..<min(start + size, packed.count)].withUnsafeBytes { piece in
                    try decompressor.write(piece) { count += $0.count }
                }
            }
            try decompressor.finish()
            #expect(count == 1_000_000)
        }
    }
}
