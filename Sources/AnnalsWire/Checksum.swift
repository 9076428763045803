internal import AnnalsCore

/// Finds bytes that changed by accident: the first eight bytes of SHA-256, which every language has at hand and
/// processors do in hardware. It proves nothing about who wrote them.
enum Checksum {
    static let byteCount = 8

    static func of(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        Digest.sha256(bytes).bytes[..<byteCount]
    }

    /// Of the pieces one after another.
    static func of(_ pieces: [[UInt8]]) -> [UInt8] {
        var hasher = Digest.Hasher()
        for piece in pieces { hasher.update(piece[...]) }
        return Array(hasher.finish().bytes[..<byteCount])
    }
}

extension ByteWriter {
    /// Appends the checksum of what was written from `start` on.
    mutating func checksum(from start: Int = 0) {
        bytes(Checksum.of(bytes[start...]))
    }
}

extension ByteReader {
    /// Throws unless the next bytes are the checksum of those from `start` up to here.
    mutating func readChecksum(from start: Int) throws(WireError) {
        let covered = bytes[start..<offset]
        let range = try readRange(Checksum.byteCount)
        guard Checksum.of(covered).elementsEqual(bytes[range]) else { throw .badChecksum }
    }
}
