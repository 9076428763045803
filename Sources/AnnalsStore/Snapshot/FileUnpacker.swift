package import AnnalsWire

/// Unpacks a file while it is being written.
///
///     let unpacker = try FileUnpacker(packed, to: plain, maximumBytes: limit)
///     try unpacker.take(upTo: 65_536)
///     try unpacker.finish()
///
/// Whoever writes the file says how much of it is there. Throws what `Compression.decompressFile` throws.
package final class FileUnpacker {
    private let input: FileStream
    private let output: FileStream
    private var opener: SnapshotOpener
    private var decompressor: StreamDecompressor
    /// How many packed bytes were taken.
    package private(set) var count: Int64 = 0

    /// What the head of a sealed file says, as soon as it was taken; nil of a plain one.
    package var seal: SnapshotSeal? { opener.seal }

    /// - Parameters:
    ///   - packed: the file to read.
    ///   - plain: the file to write.
    ///   - maximumBytes: more is not unpacked.
    ///   - cipher: of the space, where it is sealed.
    package init(_ packed: String, to plain: String, maximumBytes: Int64, cipher: SpaceCipher? = nil) throws {
        input = try FileStream(reading: packed)
        output = try FileStream(writing: plain)
        opener = SnapshotOpener(cipher)
        decompressor = try StreamDecompressor(maximumBytes: maximumBytes)
    }

    /// Unpacks what follows, up to that length of the packed file.
    package func take(upTo length: Int64) throws {
        let output = output
        try input.read(upTo: length - count) { chunk in
            try opener.write(chunk) { try decompressor.write($0, to: output.write) }
            count += Int64(chunk.count)
        }
    }

    /// Ends the plain file, if the packed one has come to its end.
    package func finish() throws {
        try opener.finish { try decompressor.write($0, to: output.write) }
        try decompressor.finish()
        try output.close()
    }
}
