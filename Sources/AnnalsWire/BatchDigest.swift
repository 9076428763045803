internal import AnnalsCore

/// Computes the digest of a transaction. The digest covers everything that the author wrote, and the digest before it.
/// So one digest covers all earlier transactions of the replica. It does not depend on the batch that carries the
/// transaction.
struct BatchDigest {
    let replica: ReplicaID
    let firstCounter: Counter
    let schemaVersion: Int64
    let part: BatchPart
    /// The first bytes of the digest's input if the batch is sealed (`SpaceCipher`). Otherwise empty.
    var secret: [UInt8] = []

    /// Marks, in the count of tables, that the number and count of a part follow. So no whole transaction has the
    /// digest of a part.
    private static let partFlag: UInt64 = 1 << 63

    /// - Parameters:
    ///   - layouts: the digests of the dictionary entries that the body refers to, in ascending order of their numbers.
    ///   - body: the range of the body in `plain`.
    func digest(
        index: Int, previous: Digest, base: Position, footprint: ArraySlice<UInt8>, layouts: [Digest], body: Range<Int>,
        in plain: [UInt8]
    ) -> Digest {
        var hasher = hasher(index: index, previous: previous, base: base, footprint: footprint, layouts: layouts)
        hasher.update(plain[body])
        return hasher.finish()
    }

    /// A hasher that has everything but the body. The caller adds the body.
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
