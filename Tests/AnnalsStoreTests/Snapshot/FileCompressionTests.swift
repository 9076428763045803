import AnnalsCore
import AnnalsStore
import AnnalsWire
import Foundation
import Testing

@Suite struct FileCompressionTests {
    @Test func `a file is packed and unpacked piece by piece`() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("annals-snapshot-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (plain, packed, back) = (folder.path + "/plain", folder.path + "/packed", folder.path + "/back")
        let bytes = (0..<600_000).map { UInt8(truncatingIfNeeded: $0 * $0 >> 7) % 50 }
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
}
