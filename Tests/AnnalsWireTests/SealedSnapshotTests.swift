import AnnalsCore
import AnnalsWire
import Testing

@Suite struct SealedSnapshotTests {
    private static let piece = 65_536
    private static let head = 101

    private static func seal(_ cipher: SpaceCipher, position: Int64 = 9) -> SnapshotSeal {
        SnapshotSeal(cipher, lineage: Samples.lineage, position: Position(position), logDigest: .sha256([9]))
    }

    private static func plain(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 >> 8) } }

    @Test(arguments: [0, 1, 3, 65_535, 65_536, 65_537, 131_072, 200_001])
    func `a snapshot opens to what was sealed, however it comes`(count: Int) throws {
        let cipher = try Samples.cipher()
        let (plain, seal) = (Self.plain(count), Self.seal(cipher))
        let sealed = try SealedBytes.of(plain, cipher, seal)
        #expect(sealed.count == Self.head + count + 16 * max(1, (count + Self.piece - 1) / Self.piece))
        #expect(try sealed == SealedBytes.of(plain, cipher, seal, step: max(count, 1)))
        for step in [1_000, 65_552, 65_553, sealed.count] {
            let opened = try SealedBytes.open(sealed, cipher, step: step)
            #expect(opened.plain == plain && opened.seal == seal)
        }
        // Another file has another key.
        #expect(try sealed != SealedBytes.of(plain, cipher, Self.seal(cipher)))
    }

    @Test func `every bit that is altered is noticed`() throws {
        let cipher = try Samples.cipher()
        let sealed = try SealedBytes.of(Self.plain(40), cipher, Self.seal(cipher))
        for place in sealed.indices {
            for bit in 0..<8 {
                var bytes = sealed
                bytes[place] ^= 1 << UInt8(bit)
                #expect(throws: WireError.self, "bit \(bit) of byte \(place)") { try SealedBytes.open(bytes, cipher) }
            }
        }
    }

    @Test func `no piece can be moved, left out, repeated or cut off, and none comes from another snapshot`() throws {
        let cipher = try Samples.cipher()
        let (plain, seal) = (Self.plain(3 * Self.piece + 10), Self.seal(cipher))
        let sealed = try SealedBytes.of(plain, cipher, seal)
        let pieces = stride(from: Self.head, to: sealed.count, by: Self.piece + 16).map {
            Array(sealed[$0..<min($0 + Self.piece + 16, sealed.count)])
        }
        #expect(pieces.count == 4)
        let head = Array(sealed.prefix(Self.head))
        func refused(_ order: [Int], _ what: String) {
            #expect(throws: WireError.self, "\(what)") { try SealedBytes.open(head + order.flatMap { pieces[$0] }, cipher) }
        }
        refused([1, 0, 2, 3], "moved")
        refused([0, 2, 3], "left out")
        refused([0, 0, 1, 2, 3], "repeated")
        refused([0, 1, 2], "the end is missing")
        refused([0, 1, 2, 3, 3], "more than there was")
        refused([], "nothing")
        for length in [0, 3, 50, 101, 110, sealed.count - 1] {
            #expect(throws: WireError.self) { try SealedBytes.open(Array(sealed.prefix(length)), cipher) }
        }
        let other = try SealedBytes.of(plain, cipher, Self.seal(cipher, position: 10))
        #expect(throws: WireError.badSeal) { try SealedBytes.open(Array(other.prefix(Self.head)) + sealed.dropFirst(Self.head), cipher) }
    }

    @Test func `without a key, with another, of another space, and plain where all is sealed`() throws {
        let cipher = try Samples.cipher()
        let sealed = try SealedBytes.of(Self.plain(100_000), cipher, Self.seal(cipher))
        #expect(throws: WireError.missingKey(Samples.spaceKey.id)) { try SealedBytes.open(sealed, nil) }
        #expect(throws: WireError.missingKey(Samples.spaceKey.id)) { try SealedBytes.open(sealed, Samples.cipher([Samples.otherKey])) }
        #expect(throws: WireError.badSeal) { try SealedBytes.open(sealed, Samples.cipher(space: "other")) }
        #expect(throws: WireError.notSealed) { try SealedBytes.open(Self.plain(100_000), cipher) }
        #expect(try SealedBytes.open(Self.plain(100_000), nil).plain == Self.plain(100_000))
        // It shows in the first bytes.
        var opener = SnapshotOpener(nil)
        #expect(throws: WireError.missingKey(Samples.spaceKey.id)) {
            try sealed.prefix(200).withUnsafeBytes { try opener.write($0) { _ in } }
        }
        var newer = sealed
        newer[4] = 2
        #expect(throws: WireError.newerVersion(2)) { try SealedBytes.open(newer, cipher) }
    }
}
