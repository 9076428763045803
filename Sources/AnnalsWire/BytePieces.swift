/// Bytes that arrive in pieces and stay in pieces. So a large number of bytes is never copied to a larger buffer.
struct BytePieces {
    private(set) var pieces: [[UInt8]] = []
    private(set) var count = 0

    /// Smaller pieces are joined up to this size, in bytes.
    private static let pieceBytes = 256 << 10

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        count += bytes.count
        if let last = pieces.indices.last, pieces[last].count + bytes.count <= Self.pieceBytes {
            pieces[last].append(contentsOf: bytes)
        } else {
            pieces.append([UInt8](bytes))
        }
    }
}
