package import AnnalsWire

/// Unpacks the file of a snapshot while it is downloaded.
///
///     let unpacker = try FileUnpacker(packed, to: plain, maximumBytes: limit)
///     try unpacker.take(upTo: 65_536)
///     try unpacker.finish()
///
/// The caller passes the current length of the packed file. The use of memory is constant, and `SnapshotBounds` limits the size of
/// the plain file. Methods throw `WireError` if the bytes are corrupt, incomplete or too many, and the errors of `SnapshotOpener`.
/// They throw `AnnalsError` if a file cannot be read or written.
package final class FileUnpacker {
    private let input: FileStream
    private let output: FileStream
    private var opener: SnapshotOpener
    private var decompressor: StreamDecompressor
    private var bounds = SnapshotBounds()
    /// The number of packed bytes that were read.
    package private(set) var count: Int64 = 0

    /// The head of a sealed file. nil for a file that is not sealed, and until the head was read.
    package var seal: SnapshotSeal? { opener.seal }

    /// - Parameters:
    ///   - packed: the file to read.
    ///   - plain: the file to write, which is replaced if it exists. If the space is sealed, only the file's owner may read it, because
    ///     the file becomes a clone.
    ///   - maximumBytes: the maximum size of the plain file.
    ///   - cipher: the space's cipher; nil if the space is not sealed.
    package init(_ packed: String, to plain: String, maximumBytes: Int64, cipher: SpaceCipher? = nil) throws {
        input = try FileStream(reading: packed)
        output = try FileStream(writing: plain, isPrivate: cipher != nil)
        opener = SnapshotOpener(cipher)
        decompressor = try StreamDecompressor(maximumBytes: maximumBytes)
    }

    /// Unpacks the next bytes, up to this length of the packed file.
    package func take(upTo length: Int64) throws {
        try input.read(upTo: length - count) { chunk in
            count += Int64(chunk.count)
            try opener.write(chunk, to: unpack)
        }
    }

    /// Completes the plain file. Throws if the packed file is incomplete.
    package func finish() throws {
        try opener.finish(to: unpack)
        try decompressor.finish()
        try bounds.finish()
        try output.close()
    }

    private func unpack(_ bytes: UnsafeRawBufferPointer) throws {
        try decompressor.write(bytes) { plain in
            try bounds.take(plain, packed: count)
            try output.write(plain)
        }
    }
}
