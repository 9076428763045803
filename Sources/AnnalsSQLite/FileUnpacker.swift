package import AnnalsWire

/// Unpacks a snapshot's file while it is being written.
///
///     let unpacker = try FileUnpacker(packed, to: plain, maximumBytes: limit)
///     try unpacker.take(upTo: 65_536)
///     try unpacker.finish()
///
/// The caller says how much of the file is there. Memory stays flat, and no more is written than `SnapshotBounds` allows. Throws
/// `WireError` where the bytes are damaged, incomplete or too many, or as `SnapshotOpener`; `AnnalsError` where a file cannot be read
/// or written.
package final class FileUnpacker {
    private let input: FileStream
    private let output: FileStream
    private var opener: SnapshotOpener
    private var decompressor: StreamDecompressor
    private var bounds = SnapshotBounds()
    /// How many packed bytes were taken.
    package private(set) var count: Int64 = 0

    /// What the head of a sealed file says, as soon as it was taken; nil of a plain one.
    package var seal: SnapshotSeal? { opener.seal }

    /// - Parameters:
    ///   - packed: the file to read.
    ///   - plain: the file to write, which is replaced if it exists. Where the space is sealed only its owner may read it: the file of a
    ///     clone comes of it.
    ///   - maximumBytes: more is not unpacked.
    ///   - cipher: of the space, where it is sealed.
    package init(_ packed: String, to plain: String, maximumBytes: Int64, cipher: SpaceCipher? = nil) throws {
        input = try FileStream(reading: packed)
        output = try FileStream(writing: plain, isPrivate: cipher != nil)
        opener = SnapshotOpener(cipher)
        decompressor = try StreamDecompressor(maximumBytes: maximumBytes)
    }

    /// Unpacks what follows, up to that length of the packed file.
    package func take(upTo length: Int64) throws {
        try input.read(upTo: length - count) { chunk in
            count += Int64(chunk.count)
            try opener.write(chunk, to: unpack)
        }
    }

    /// Ends the plain file, if the packed one has come to its end.
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
