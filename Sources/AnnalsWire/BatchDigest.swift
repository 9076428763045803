internal import AnnalsCore

/// What a transaction's digest covers: all that its author said, and the digest before it, so that one digest
/// stands for a replica's whole past. It does not depend on the batch that the transaction travels in.
struct BatchDigest {
    let replica: ReplicaID
    let firstCounter: Counter
    let schemaVersion: Int64
    let part: BatchPart
    /// Begins what is digested where the batch is sealed (`SpaceCipher`); else nothing.
    var secret: [UInt8] = []

    /// Says with the count of tables that a part's number and count follow, so that no whole transaction has its digest.
    private static let partFlag: UInt64 = 1 << 63

    /// - Parameters:
    ///   - layouts: the digests of the dictionary entries that the body names, in ascending order of their numbers.
    ///   - body: its place in `plain`.
    func digest(
        index: Int, previous: Digest, base: Position, footprint: ArraySlice<UInt8>, layouts: [Digest], body: Range<Int>,
        in plain: [UInt8]
    ) -> Digest {
        var hasher = hasher(index: index, previous: previous, base: base, footprint: footprint, layouts: layouts)
        hasher.update(plain[body])
        return hasher.finish()
    }

    /// Has taken in everything but the body, which follows.
    func hasher(index: Int, previous: Digest, base: Position, footprint: ArraySlice<UInt8>, layouts: [Digest]) -> Digest.Hasher {
        var head = ByteWriter(capacity: 96 + Digest.byteCount * layouts.count)
        head.digest(previous)
        head.identifier(replica)
        head.fixed64LE(UInt64(firstCounter.rawValue) + UInt64(index))
        head.fixed64LE(UInt64(base.rawValue))
        head.fixed64LE(UInt64(schemaVersion))
        head.fixed64LE(UInt64(footprint.count))
        head.bytes(footprint)
        head.fixed64LE(UInt64(layouts.count) | (part.isWhole ? 0 : Self.partFlag))
        if !part.isWhole {
            head.fixed64LE(UInt64(part.number))
            head.fixed64LE(UInt64(part.count))
        }
        for layout in layouts { head.digest(layout) }
        var hasher = Digest.Hasher()
        hasher.update(secret[...])
        hasher.update(head.bytes[...])
        return hasher
    }
}
