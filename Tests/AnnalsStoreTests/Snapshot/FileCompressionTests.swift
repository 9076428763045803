import AnnalsCore
import AnnalsSQLite
import AnnalsStore
import AnnalsWire
import Foundation
import GRDB
import Testing

@Suite struct FileCompressionTests {
    private func unpack(_ packed: String, to plain: String, maximumBytes: Int64 = .max) throws {
        let unpacker = try FileUnpacker(packed, to: plain, maximumBytes: maximumBytes)
        try unpacker.take(upTo: 10)
        try unpacker.take(upTo: .max)
        try unpacker.finish()
    }

    @Test func `a file is packed and unpacked piece by piece`() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("annals-snapshot-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (plain, packed, back) = (folder.path + "/plain", folder.path + "/packed", folder.path + "/back")
        let queue = try DatabaseQueue(path: plain)
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB);
                    WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 1000) INSERT INTO t SELECT x, randomblob(500) FROM c;
                    """)
        }
        try queue.close()
        let bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: plain)))

        var progress: Int64 = 0
        let written = try Compression.compressFile(at: plain, to: packed, progress: { progress = $0 })
        #expect(written.plainBytes == Int64(bytes.count) && bytes.count > 500_000)
        #expect(progress == Int64(bytes.count))
        let contents = [UInt8](try Data(contentsOf: URL(fileURLWithPath: packed)))
        #expect(written.packedBytes == Int64(contents.count))
        #expect(written.digest == Digest.sha256(contents[...]))

        try unpack(packed, to: back, maximumBytes: Int64(bytes.count))
        #expect([UInt8](try Data(contentsOf: URL(fileURLWithPath: back))) == bytes)

        #expect(throws: WireError.tooLarge("file")) { try unpack(packed, to: back, maximumBytes: Int64(bytes.count) - 1) }
        try Data(contents.dropLast(3)).write(to: URL(fileURLWithPath: packed))
        #expect(throws: WireError.truncated) { try unpack(packed, to: back) }
        try Data(contents + [1]).write(to: URL(fileURLWithPath: packed))
        #expect(throws: WireError.badLength) { try unpack(packed, to: back) }
        #expect(throws: WireError.badValue("compressed bytes")) { try unpack(plain, to: back) }
    }

    @Test func `a missing file is named`() {
        let error = #expect(throws: AnnalsError.self) { try Compression.compressFile(at: "/no/such/file", to: "/dev/null") }
        #expect(error?.code == .fileNotFound)
        #expect(error?.message.contains("/no/such/file") == true)
    }
}
