package import AnnalsCore
package import AnnalsWire

extension Compression {
    /// The sizes of both files, and the digest of the packed file.
    package struct FileResult: Hashable, Sendable {
        package var plainBytes: Int64
        package var packedBytes: Int64
        /// SHA-256 of the packed file.
        package var digest: Digest
    }

    /// Compresses a file into another, which is replaced if it exists. The use of memory does not depend on their sizes.
    ///
    /// - Parameters:
    ///   - source: the file to read.
    ///   - destination: the file to write.
    ///   - level: the compression level of zstd.
    ///   - sealer: seals the compressed bytes; nil if the space is not sealed.
    ///   - progress: gets the number of bytes read so far. An error that it throws ends the compression.
    /// - Throws: `AnnalsError` if a file cannot be read or written. The caller must remove the incomplete destination.
    package static func compressFile(
        at source: String, to destination: String, level: Int = snapshotLevel, sealer: SnapshotSealer? = nil,
        progress: (Int64) throws -> Void = { _ in }
    ) throws -> FileResult {
        let input = try FileStream(reading: source)
        let output = try FileStream(writing: destination)
        var compressor = try StreamCompressor(level: level)
        var hasher = Digest.Hasher()
        var result = FileResult(plainBytes: 0, packedBytes: 0, digest: .zero)
        var sealer = sealer
        func put(_ bytes: UnsafeRawBufferPointer) throws {
            hasher.update(bytes)
            result.packedBytes += Int64(bytes.count)
            try output.write(bytes)
        }
        func write(_ packed: UnsafeRawBufferPointer) throws {
            if try sealer?.write(packed, to: put) == nil { try put(packed) }
        }
        try input.readAll { chunk in
            result.plainBytes += Int64(chunk.count)
            try compressor.write(chunk, to: write)
            try progress(result.plainBytes)
        }
        try compressor.finish(to: write)
        try sealer?.finish(to: put)
        try output.close()
        result.digest = hasher.finish()
        return result
    }
}
