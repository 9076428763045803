package import AnnalsCore
package import AnnalsWire

/// The parts of a transaction that came before its last part. They are buffered outside the log, because the log gets a
/// transaction of any size in one commit (law 6).
///
/// A replica has at most one unfinished transaction. An author sends one transaction after another, so any other push
/// of the replica drops its buffered parts.
package struct PendingParts: Hashable, Sendable {
    let firstCounter: Counter
    let count: Int
    let base: Position
    let footprint: Footprint
    /// Digests of the received parts, from the first on, without gaps.
    package private(set) var digests: [Digest]
    /// Bytes of the batches of these parts.
    private(set) var byteCount: Int64

    /// - Parameters:
    ///   - first: the first part.
    ///   - byteCount: bytes of its batch.
    package init(first: BatchHeader, byteCount: Int) {
        firstCounter = first.firstCounter
        count = first.part.count
        base = first.certificates[0].base
        footprint = first.certificates[0].footprint
        digests = [first.certificates[0].digest]
        self.byteCount = Int64(byteCount)
    }

    /// Whether this part was received already.
    package func holds(_ header: BatchHeader) -> Bool {
        let number = header.part.number
        return belongs(header) && number < digests.count && digests[number] == header.certificates[0].digest
    }

    /// Whether this part is the next one of the same transaction.
    func isFollowed(by header: BatchHeader) -> Bool {
        belongs(header) && header.part.number == digests.count && header.previousDigest == digests.last
    }

    /// One footprint is certified for all parts, so all must carry the same one.
    private func belongs(_ header: BatchHeader) -> Bool {
        let first = Counter(header.firstCounter.rawValue - Int64(header.part.number))
        let certificate = header.certificates[0]
        return first == firstCounter && header.part.count == count && certificate.base == base && certificate.footprint == footprint
    }

    package mutating func append(_ header: BatchHeader, byteCount: Int) {
        append(header.certificates[0].digest, byteCount: Int64(byteCount))
    }

    mutating func append(_ digest: Digest, byteCount: Int64) {
        digests.append(digest)
        self.byteCount += byteCount
    }
}
