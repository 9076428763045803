import AnnalsWire

/// Unpacks a file while it is being written.
///
///     let unpacker = try FileUnpacker(packed, to: plain, maximumBytes: limit)
///     try unpacker.take(upTo: 65_536)
///     try unpacker.finish()
///
/// Whoever writes the file says how much of it is there. Throws what `Compression.decompressFile` throws.
public final class FileUnpacker {
    private let input: FileStream
    private let output: FileStream
    private var decompressor: StreamDecompressor
    /// How many packed bytes were taken.
    public private(set) var count: Int64 = 0

    public init(_ packed: String, to plain: String, maximumBytes: Int64) throws {
        input = try FileStream(reading: packed)
        output = try FileStream(writing: plain)
        decompressor = try StreamDecompressor(maximumBytes: maximumBytes)
    }

    /// Unpacks what follows, up to that length of the packed file.
    public func take(upTo length: Int64) throws {
        let output = output
        try input.read(upTo: length - count) { chunk in
            try decompressor.write(chunk, to: output.write)
            count += Int64(chunk.count)
        }
    }

    /// Makes the plain file durable, if the packed one has come to its end.
    public func finish() throws {
        try decompressor.finish()
        try output.close()
    }
}
