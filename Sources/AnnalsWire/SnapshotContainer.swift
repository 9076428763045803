package import AnnalsCore

/// Checks a snapshot while it arrives, without a key. A plain snapshot must be one zstd frame with a SQLite file of the
/// size in its header. A sealed one must have a valid head and pieces of the right sizes. Rows are not read. In a
/// sealed snapshot they cannot be read.
package struct SnapshotContainer: ~Copyable {
    private let lineage: Lineage
    private let position: Position
    private var waiting: [UInt8] = []
    private var count: Int64 = 0
    private var unpacker: StreamDecompressor?
    private var bounds = SnapshotBounds()
    private var isSealed = false

    /// - Parameters:
    ///   - lineage: the lineage that the head must state, if the snapshot has a head.
    ///   - position: the position that the head must state, if the snapshot has a head.
    package init(lineage: Lineage, position: Position) {
        self.lineage = lineage
        self.position = position
    }

    /// - Throws: `WireError`.
    package mutating func write(_ bytes: [UInt8]) throws {
        guard !bytes.isEmpty else { return }
        count += Int64(bytes.count)
        if isSealed { return }
        if unpacker != nil { return try unpack(bytes) }
        waiting += bytes
        guard waiting.count >= SnapshotSeal.magic.count else { return }
        if waiting.starts(with: SnapshotSeal.magic) {
            guard waiting.count >= SnapshotSeal.byteCount else { return }
            let seal = try SnapshotSeal(Array(waiting.prefix(SnapshotSeal.byteCount)))
            guard seal.lineage == lineage, seal.position == position else { throw WireError.badValue("log or position") }
            isSealed = true
        } else {
            unpacker = try StreamDecompressor(maximumBytes: .max)
            try unpack(waiting)
        }
        waiting = []
    }

    /// - Throws: `WireError`.
    package mutating func finish() throws {
        if isSealed {
            let sealed = count - Int64(SnapshotSeal.byteCount)
            let last = sealed % Int64(SnapshotSeal.pieceBytes + SpaceCipher.tagBytes)
            // Only an empty snapshot has an empty piece, and a zstd frame is never empty.
            guard sealed > 0, last == 0 || last > SpaceCipher.tagBytes else { throw WireError.truncated }
        } else {
            guard unpacker != nil else { throw WireError.truncated }
            try unpacker?.finish()
            try bounds.finish()
        }
    }

    private mutating func unpack(_ bytes: [UInt8]) throws {
        let count = count
        var bounds = bounds
        try bytes.withUnsafeBytes { try unpacker?.write($0) { try bounds.take($0, packed: count) } }
        self.bounds = bounds
    }
}
