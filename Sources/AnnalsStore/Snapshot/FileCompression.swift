public import AnnalsCore
public import AnnalsWire

extension Compression {
    /// What was read and written, and what the packed file's digest is.
    public struct FileResult: Hashable, Sendable {
        public var plainBytes: Int64
        public var packedBytes: Int64
        /// SHA-256 of the packed file.
        public var digest: Digest
    }

    /// Packs a file into another, which is replaced if it exists. Memory stays flat whatever their size.
    ///
    /// `progress` is told the bytes read so far; what it throws ends the work. Throws `AnnalsError` where a file cannot
    /// be read or written; what was written then is left for the caller to remove.
    public static func compressFile(
        at source: String, to destination: String, level: Int = snapshotLevel, progress: (Int64) throws -> Void = { _ in }
    ) throws -> FileResult {
        let input = try FileStream(reading: source)
        let output = try FileStream(writing: destination)
        var compressor = try StreamCompressor(level: level)
        var hasher = Digest.Hasher()
        var result = FileResult(plainBytes: 0, packedBytes: 0, digest: .zero)
        func write(_ packed: UnsafeRawBufferPointer) throws {
            hasher.update(packed)
            result.packedBytes += Int64(packed.count)
            try output.write(packed)
        }
        try input.readAll { chunk in
            result.plainBytes += Int64(chunk.count)
            try compressor.write(chunk, to: write)
            try progress(result.plainBytes)
        }
        try compressor.finish(to: write)
        try output.close()
        result.digest = hasher.finish()
        return result
    }

    /// Unpacks a file into another, which is replaced if it exists; never more than `maximumBytes`.
    ///
    /// Throws `WireError` where the bytes are damaged, incomplete or too many; otherwise as `compressFile`.
    public static func decompressFile(
        at source: String, to destination: String, maximumBytes: Int64, progress: (Int64) throws -> Void = { _ in }
    ) throws -> FileResult {
        let input = try FileStream(reading: source)
        let output = try FileStream(writing: destination)
        var decompressor = try StreamDecompressor(maximumBytes: maximumBytes)
        var hasher = Digest.Hasher()
        var result = FileResult(plainBytes: 0, packedBytes: 0, digest: .zero)
        try input.readAll { chunk in
            hasher.update(chunk)
            result.packedBytes += Int64(chunk.count)
            try decompressor.write(chunk, to: output.write)
            try progress(result.packedBytes)
        }
        try decompressor.finish()
        try output.close()
        result.plainBytes = decompressor.count
        result.digest = hasher.finish()
        return result
    }
}
