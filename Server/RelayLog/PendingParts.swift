package import AnnalsCore
package import AnnalsWire

/// The parts of one transaction that came before its last: they wait beside the log, since a transaction takes its place
/// in one commit, whatever its size (law 6).
///
/// A replica has at most one such transaction, and any other push of it gives this one up: an author sends one after
/// another, so what is begun anew is what counts.
package struct PendingParts: Hashable, Sendable {
    let firstCounter: Counter
    let count: Int
    let base: Position
    let footprint: Footprint
    /// Of the parts that are here, from the first without gaps.
    package private(set) var digests: [Digest]
    /// Of their batches.
    private(set) var byteCount: Int64

    /// - Parameters:
    ///   - first: the first part.
    ///   - byteCount: of its batch.
    package init(first: BatchHeader, byteCount: Int) {
        firstCounter = first.firstCounter
        count = first.part.count
        base = first.certificates[0].base
        footprint = first.certificates[0].footprint
        digests = [first.certificates[0].digest]
        self.byteCount = Int64(byteCount)
    }

    /// Whether this part is here already.
    package func holds(_ header: BatchHeader) -> Bool {
        let number = header.part.number
        return belongs(header) && number < digests.count && digests[number] == header.certificates[0].digest
    }

    /// Whether this part is the next one of the same transaction.
    func isFollowed(by header: BatchHeader) -> Bool {
        belongs(header) && header.part.number == digests.count && header.previousDigest == digests.last
    }

    /// One footprint is certified for all parts, so they must agree on it.
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
