import AnnalsCore
import AnnalsWire
import Foundation
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

    @Test func `a file is packed and unpacked piece by piece`() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("annals-wire-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (plain, packed, back) = (folder.path + "/plain", folder.path + "/packed", folder.path + "/back")
        var generator = SeededGenerator(seed: 2)
        let bytes = (0..<600_000).map { _ in UInt8.random(in: 0..<50, using: &generator) }
        try Data(bytes).write(to: URL(fileURLWithPath: plain))

        var progress: Int64 = 0
        let written = try Compression.compressFile(at: plain, to: packed, progress: { progress = $0 })
        #expect(written.plainBytes == 600_000)
        #expect(progress == 600_000)
        let contents = [UInt8](try Data(contentsOf: URL(fileURLWithPath: packed)))
        #expect(written.packedBytes == Int64(contents.count))
        #expect(written.digest == Digest.sha256(contents[...]))

        let read = try Compression.decompressFile(at: packed, to: back, maximumBytes: 600_000)
        #expect(read == written)
        #expect([UInt8](try Data(contentsOf: URL(fileURLWithPath: back))) == bytes)

        #expect(throws: WireError.tooLarge("file")) { try Compression.decompressFile(at: packed, to: back, maximumBytes: 599_999) }
        try Data(contents.dropLast(3)).write(to: URL(fileURLWithPath: packed))
        #expect(throws: WireError.truncated) { try Compression.decompressFile(at: packed, to: back, maximumBytes: .max) }
        try Data(contents + [1]).write(to: URL(fileURLWithPath: packed))
        #expect(throws: WireError.badLength) { try Compression.decompressFile(at: packed, to: back, maximumBytes: .max) }
        #expect(throws: WireError.badValue("compressed bytes")) {
            try Compression.decompressFile(at: plain, to: back, maximumBytes: .max)
        }
    }

    @Test func `a missing file is named`() {
        let error = #expect(throws: AnnalsError.self) { try Compression.compressFile(at: "/no/such/file", to: "/dev/null") }
        #expect(error?.code == .fileNotFound)
        #expect(error?.message.contains("/no/such/file") == true)
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
