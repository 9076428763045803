/// Bytes that come piece by piece and are kept so: many of them never move to a larger place.
struct BytePieces {
    private(set) var pieces: [[UInt8]] = []
    private(set) var count = 0

    /// Smaller ones are joined up to about so many bytes.
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
