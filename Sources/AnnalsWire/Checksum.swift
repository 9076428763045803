internal import AnnalsCore

/// Detects accidental changes: the first eight bytes of SHA-256. Every language has SHA-256, and processors compute it
/// in hardware. The checksum does not prove who wrote the bytes.
enum Checksum {
    static let byteCount = 8

    static func of(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        Digest.sha256(bytes).bytes[..<byteCount]
    }

    /// The checksum of the concatenated pieces.
    static func of(_ pieces: [[UInt8]]) -> [UInt8] {
        var hasher = Digest.Hasher()
        for piece in pieces { hasher.update(piece[...]) }
        return Array(hasher.finish().bytes[..<byteCount])
    }
}

extension ByteWriter {
    /// Appends the checksum of the bytes from `start` on.
    mutating func checksum(from start: Int = 0) {
        bytes(Checksum.of(bytes[start...]))
    }
}

extension ByteReader {
    /// Throws if the next bytes are not the checksum of the bytes from `start` up to here.
    mutating func readChecksum(from start: Int) throws(WireError) {
        let covered = bytes[start..<offset]
        let range = try readRange(Checksum.byteCount)
        guard Checksum.of(covered).elementsEqual(bytes[range]) else { throw .badChecksum }
    }
}
