import AnnalsWire
import SeededRandom
import Testing

/// What a SQLite file says about its size, and what a snapshot may unpack to by that.
@Suite struct SnapshotBoundsTests {
    private static func number(_ value: Int64, _ count: Int) -> [UInt8] {
        (0..<count).reversed().map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) }
    }

    /// The first 100 bytes of a file.
    private static func header(pageSize: Int64 = 4_096, pages: Int64 = 3, version: UInt8 = 1) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: SQLiteHeader.length)
        bytes.replaceSubrange(0..<16, with: Array("SQLite format 3\0".utf8))
        bytes.replaceSubrange(16..<18, with: number(pageSize == 65_536 ? 1 : pageSize, 2))
        bytes[18] = version
        bytes[19] = version
        bytes.replaceSubrange(24..<28, with: number(7, 4))
        bytes.replaceSubrange(28..<32, with: number(pages, 4))
        bytes.replaceSubrange(92..<96, with: number(7, 4))
        return bytes
    }

    /// Takes `plain`, in pieces, as if so many bytes were read for it.
    private static func take(_ plain: [UInt8], packed: Int64 = 1 << 40, pieces: Int = 64) throws {
        var bounds = SnapshotBounds()
        for start in stride(from: 0, to: plain.count, by: pieces) {
            try plain[start..<min(start + pieces, plain.count)].withUnsafeBytes { try bounds.take($0, packed: packed) }
        }
        try bounds.finish()
    }

    @Test(arguments: [512, 4_096, 32_768, 65_536])
    func `a header says how large its file is`(pageSize: Int64) {
        let header = SQLiteHeader(Self.header(pageSize: pageSize, pages: 0xffff_ffff) + [1, 2, 3])
        #expect(header?.pageSize == pageSize && header?.pageCount == 0xffff_ffff && header?.byteCount == pageSize * 0xffff_ffff)
    }

    @Test func `what is no header of a whole file is refused`() {
        let good = Self.header()
        #expect(SQLiteHeader(good) != nil)
        #expect(SQLiteHeader([]) == nil && SQLiteHeader(good.dropLast()) == nil)
        for size in [0, 2, 256, 511, 513, 4_095, 40_000] as [Int64] {
            #expect(SQLiteHeader(Self.header(pageSize: size)) == nil, "\(size)")
        }
        #expect(SQLiteHeader(Self.header(pages: 0)) == nil)
        #expect(SQLiteHeader(Self.header(version: 2)) == nil, "WAL mode")
        for place in [0, 15, 18, 19, 27, 95] {
            var bytes = good
            bytes[place] ^= 1
            #expect(SQLiteHeader(bytes) == nil, "byte \(place)")
        }
    }

    @Test func `no bytes end the process`() {
        var generator = SeededGenerator(seed: 1)
        for _ in 0..<10_000 {
            var bytes = Self.header()
            for _ in 0..<Int.random(in: 1...8, using: &generator) {
                bytes[Int.random(in: 16..<100, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
            }
            guard let header = SQLiteHeader(bytes) else { continue }
            #expect(header.byteCount >= 512 && header.byteCount < 1 << 48)
        }
    }

    @Test(arguments: [1, 64, 99, 100, 101, 20_000])
    func `a file has the size that its header says`(pieces: Int) throws {
        let whole = Self.header() + [UInt8](repeating: 0, count: 3 * 4_096 - 100)
        try Self.take(whole, pieces: pieces)
        #expect(throws: WireError.badLength) { try Self.take(whole.dropLast(), pieces: pieces) }
        #expect(throws: WireError.tooLarge("file")) { try Self.take(whole + [0], pieces: pieces) }
        #expect(throws: WireError.badValue("SQLite header")) { try Self.take([UInt8](repeating: 0, count: 5_000), pieces: pieces) }
        #expect(throws: WireError.badLength) { try Self.take(Array("no database".utf8), pieces: pieces) }
    }

    @Test func `few bytes do not unpack to many, whatever the header says`() throws {
        let piece = [UInt8](repeating: 0, count: 1 << 20)
        func count(packed: Int64) throws -> Int64 {
            var bounds = SnapshotBounds()
            try Self.header(pages: 0xffff_ffff).withUnsafeBytes { try bounds.take($0, packed: packed) }
            var taken: Int64 = 0
            while taken < 256 << 20 {
                do { try piece.withUnsafeBytes { try bounds.take($0, packed: packed) } } catch {
                    #expect(error as? WireError == .tooLarge("compression"))
                    return taken
                }
                taken += Int64(piece.count)
            }
            return taken
        }
        #expect(try count(packed: 1) < 64 << 20)
        #expect(try count(packed: 1) > 62 << 20)
        let packed: Int64 = 40_000
        #expect(try (packed * 2_400...packed * 2_600).contains(count(packed: packed)))
    }
}
