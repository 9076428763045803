import AnnalsCore
import RelayTestSupport
import Testing

@testable import AnnalsWire
@testable import RelayLog

/// Snapshots that a relay refuses without a key and without reading a row.
@Suite struct SnapshotContainerTests {
    private static let lineage = Lineage(high: 0x0102_0304_0506_4708, low: 0x8000_0000_0000_0009)
    private static let position = Position(7)

    /// Feeds the bytes in pieces of this size.
    private func check(_ bytes: [UInt8], step: Int = 100) throws {
        var container = SnapshotContainer(lineage: Self.lineage, position: Self.position)
        for start in stride(from: 0, to: bytes.count, by: step) {
            try container.write(Array(bytes[start..<min(start + step, bytes.count)]))
        }
        try container.finish()
    }

    private func sealed(_ content: [UInt8], _ lineage: Lineage = lineage, _ position: Position = position) throws -> [UInt8] {
        let key = try #require(SpaceKey(bytes: [UInt8](repeating: 1, count: 32)))
        let cipher = SpaceKeyRing(key).cipher(for: .shop)
        var sealer = try SnapshotSealer(cipher, SnapshotSeal(cipher, lineage: lineage, position: position, logDigest: nil))
        var sealed: [UInt8] = []
        try content.withUnsafeBytes { try sealer.write($0) { sealed += $0 } }
        try sealer.finish { sealed += $0 }
        return sealed
    }

    @Test(arguments: [1, 7, 100_000]) func `a snapshot passes in pieces of any size, sealed and not`(step: Int) throws {
        let plain = TestSnapshot.bytes((0..<3_000).map { _ in UInt8.random(in: 0 ... .max) })
        try check(plain, step: step)
        try check(try sealed(plain), step: step)
        if step > 1 {
            for count in [1, 65_535, 65_536, 65_537, 131_072] { try check(try sealed([UInt8](repeating: 5, count: count)), step: step) }
        }
    }

    @Test func `what is no snapshot does not pass`() throws {
        let plain = TestSnapshot.bytes("rows")
        #expect(throws: WireError.truncated) { try check([]) }
        #expect(throws: WireError.truncated) { try check([1, 2, 3]) }
        #expect(throws: WireError.badValue("compressed bytes")) { try check(Array("rows at 7, and more of them".utf8)) }
        #expect(throws: WireError.truncated) { try check(plain.dropLast()) }
        #expect(throws: WireError.badLength) { try check(plain + [0]) }
        #expect(throws: WireError.badLength) { try check(plain + plain) }
        #expect(throws: WireError.badValue("SQLite header")) { try check(try Compression.compress([UInt8](repeating: 7, count: 1_024))) }
    }

    @Test func `a file of another size than it says does not pass`() throws {
        func packed(_ change: (inout [UInt8]) -> Void) throws -> [UInt8] {
            var file = try Compression.decompress(TestSnapshot.bytes("rows"), expected: 512)
            change(&file)
            return try Compression.compress(file)
        }
        try check(try packed { _ in })
        #expect(throws: WireError.badLength) { try check(try packed { $0[31] = 2 }) }
        #expect(throws: WireError.tooLarge("file")) { try check(try packed { $0 += $0 }) }
        #expect(throws: WireError.badValue("SQLite header")) { try check(try packed { $0[18] = 2 }) }
        // Its header claims four million empty pages.
        let zeros = try packed { file in
            file[29] = 64
            file += [UInt8](repeating: 0, count: 100 << 20)
        }
        #expect(throws: WireError.tooLarge("compression")) { try check(zeros) }
    }

    @Test func `a sealed one of another log or position, or cut off amid a tag, does not pass`() throws {
        let plain = TestSnapshot.bytes("rows")
        #expect(throws: WireError.badValue("log or position")) { try check(try sealed(plain, .random())) }
        #expect(throws: WireError.badValue("log or position")) { try check(try sealed(plain, Self.lineage, Position(8))) }
        let whole = try sealed([UInt8](repeating: 5, count: 65_540))
        // Without the key, a whole missing piece cannot be detected.
        for cut in [4, 5] { #expect(throws: WireError.truncated) { try check(whole.dropLast(cut)) } }
        #expect(throws: WireError.truncated) { try check(Array(whole.prefix(SnapshotSeal.byteCount))) }
        #expect(throws: WireError.truncated) { try check(Array(whole.prefix(50))) }
        #expect(throws: WireError.truncated) { try check(try sealed([])) }
    }

    @Test func `an upload of such bytes leaves nothing, whole or in parts`() async throws {
        let directory = try TemporaryDirectory()
        let log = try TestStorage.log(directory.path)
        _ = try await log.createSpace(.shop)
        let isBad: (any Error) -> Bool = { if case .badSnapshot? = $0 as? RelayLogError { true } else { false } }
        let whole = try await log.snapshots.begin(.shop, position: .zero)
        await #expect { try await whole.write(Array("garbage".utf8)) } throws: { isBad($0) }
        #expect(await whole.hasEnded)
        let cut = Array(TestSnapshot.bytes("rows").dropLast())
        let digest = Digest.sha256(cut[...])
        let parts = try await log.snapshots.uploadInParts(.shop, position: .zero, digest: digest)
        _ = try await parts.add(Array(cut.prefix(5)), at: 0, partDigest: nil, of: Int64(cut.count), digest: digest)
        await #expect {
            _ = try await parts.add(Array(cut.dropFirst(5)), at: 5, partDigest: nil, of: Int64(cut.count), digest: digest)
        } throws: { isBad($0) }
        #expect(await parts.hasEnded)
        #expect(try TestStorage.database(directory.path).snapshots.names().isEmpty)
        await #expect(throws: RelayLogError.self) { _ = try await log.snapshots.open(.shop) }
        await log.close()
    }
}
