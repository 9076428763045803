import AnnalsCore
import AnnalsWire
package import RelayLog

/// Bytes that a relay accepts as a snapshot.
package enum TestSnapshot {
    private static let pageSize = 512
    private static let headerLength = 100

    /// One zstd frame with an SQLite file of the fewest pages for the content. Files with different content differ.
    package static func bytes(_ content: [UInt8] = []) -> [UInt8] {
        var file = Array("SQLite format 3\0".utf8) + [UInt8(pageSize >> 8), 0, 1, 1]
        file += [UInt8](repeating: 0, count: headerLength - file.count) + content
        file += [UInt8](repeating: 0, count: (pageSize - file.count % pageSize) % pageSize)
        withUnsafeBytes(of: UInt32(file.count / pageSize).bigEndian) { file.replaceSubrange(28..<32, with: $0) }
        guard let packed = try? Compression.compress(file) else { preconditionFailure("small bytes are packed") }
        return packed
    }

    package static func bytes(_ content: String) -> [UInt8] { bytes(Array(content.utf8)) }
}

extension SnapshotUpload {
    /// Writes a snapshot with this content, and ends the upload.
    @discardableResult
    package func complete(_ content: [UInt8] = []) async throws -> SnapshotRecord {
        let bytes = TestSnapshot.bytes(content)
        try await write(bytes)
        return try await finish(digest: .sha256(bytes[...]))
    }
}
