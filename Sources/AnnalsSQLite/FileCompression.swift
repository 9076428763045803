package import AnnalsCore
package import AnnalsWire

extension Compression {
    /// What was read and written, and what the packed file's digest is.
    package struct FileResult: Hashable, Sendable {
        package var plainBytes: Int64
        package var packedBytes: Int64
        /// SHA-256 of the packed file.
        package var digest: Digest
    }

    /// Packs a file into another, which is replaced if it exists. Memory stays flat whatever their size.
    ///
    /// - Parameters:
    ///   - source: the file to read.
    ///   - destination: the file to write.
    ///   - level: how hard zstd tries.
    ///   - sealer: seals what is packed; nil where the space is not sealed.
    ///   - progress: told how far it is.
    ///
    /// `progress` is told the bytes read so far; what it throws ends the work. Throws `AnnalsError` where a file cannot
    /// be read or written; what was written then is left for the caller to remove.
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
