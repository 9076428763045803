@testable import AnnalsCore
@testable import AnnalsWire

/// Snapshots as they are transferred: the compressed file, and its encryption.
enum SnapshotFuzzing {
    /// The maximum size of an unpacked snapshot.
    private static let maximumBytes: Int64 = 1 << 20

    /// The first byte selects what is done with the others, and the size of the pieces.
    static let target = FuzzTarget("snapshot", seeds: seeds) { bytes in
        guard let first = bytes.first else { return }
        let (content, step) = (Array(bytes.dropFirst()), 1 + Int(first >> 1) * 3)
        if first & 1 == 0 {
            _ = try? unpack(content, step, nil)
            _ = try? SnapshotSeal(content)
            try? contain(content, step)
            try unpack(content, step, SealedSpace.cipher)
        } else {
            try expectRoundTrip(content, step)
        }
    }

    private static func unpack(_ bytes: [UInt8], _ step: Int, _ cipher: SpaceCipher?) throws {
        var opener = SnapshotOpener(cipher)
        var unpacker = try StreamDecompressor(maximumBytes: maximumBytes)
        var count: Int64 = 0
        for piece in pieces(bytes, step) {
            try piece.withUnsafeBytes { piece in
                try opener.write(piece) { try unpacker.write($0) { count += Int64($0.count) } }
            }
        }
        try opener.finish { try unpacker.write($0) { count += Int64($0.count) } }
        try unpacker.finish()
        expect(count == unpacker.count && count <= maximumBytes, "no more is unpacked than may be")
    }

    /// What a relay does with an upload.
    private static func contain(_ bytes: [UInt8], _ step: Int) throws {
        var container = SnapshotContainer(lineage: Lineage(high: 1, low: 2), position: Position(3))
        for piece in pieces(bytes, step) { try container.write(Array(piece)) }
        try container.finish()
    }

    private static func expectRoundTrip(_ content: [UInt8], _ step: Int) throws {
        guard let cipher = SealedSpace.cipher else { return }
        let seal = SnapshotSeal(
            cipher, lineage: Lineage(high: 1, low: 2), position: Position(3), logDigest: nil, salt: [UInt8](repeating: 7, count: 32))
        var sealer = try SnapshotSealer(cipher, seal)
        var sealed: [UInt8] = []
        for piece in pieces(content, step) { try piece.withUnsafeBytes { try sealer.write($0) { sealed += $0 } } }
        try sealer.finish { sealed += $0 }
        expect(try open(sealed, step, cipher) == content, "what was sealed is opened")
        expect((try? open(Array(sealed.dropLast()), step, cipher)) == nil, "what is cut off is refused")
        sealed[content.count % sealed.count] ^= 1
        expect((try? open(sealed, step, cipher)) == nil, "what was altered is refused")
    }

    private static func open(_ sealed: [UInt8], _ step: Int, _ cipher: SpaceCipher) throws -> [UInt8] {
        var opener = SnapshotOpener(cipher)
        var content: [UInt8] = []
        for piece in pieces(sealed, step) { try piece.withUnsafeBytes { try opener.write($0) { content += $0 } } }
        try opener.finish { content += $0 }
        return content
    }

    private static func pieces(_ bytes: [UInt8], _ step: Int) -> [ArraySlice<UInt8>] {
        stride(from: 0, to: bytes.count, by: step).map { bytes[$0..<min($0 + step, bytes.count)] }
    }

    @Sendable private static func seeds(_ fixtures: Fixtures) throws -> [[UInt8]] {
        let packed = try Compression.compress(Array("SQLite format 3\0 and rows, and rows, and rows".utf8))
        return try fixtures.files("snapshot").map { [100] + $0 } + [[0] + packed, [8] + packed, [3] + packed]
    }
}
