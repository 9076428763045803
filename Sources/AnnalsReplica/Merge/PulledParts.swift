import AnnalsCore
import AnnalsSchema
import AnnalsWire
import GRDB

/// Opens the parts of one transaction one after another, buffered parts and parts of the page.
///
/// Each part must have the author of the part before it, the next counter and the digest of that part. A caller that reads all
/// parts in order has checked this.
final class PulledParts {
    private let db: Database
    private let parts: Entries.Parts
    private let state: ReplicaState
    private let cipher: SpaceCipher?
    private var headers: [Int: BatchHeader] = [:]
    private var info: TransactionInfo?
    private var opened: (number: Int, batch: Batch)?

    init(_ db: Database, _ parts: Entries.Parts, _ state: ReplicaState, _ cipher: SpaceCipher?) {
        self.db = db
        self.state = state
        self.cipher = cipher
        self.parts = parts
    }

    package var content: TransactionParts {
        TransactionParts(count: parts.count) { number in
            let batch = try self.open(number)
            return TransactionParts.Part(reader: try batch.body(0), layouts: batch.layouts)
        }
    }

    /// The digests of the parts, in order. All parts must have been read.
    package var digests: [Digest] {
        (0..<parts.count).compactMap { headers[$0]?.certificates[0].digest }
    }

    private func open(_ number: Int) throws -> Batch {
        if let opened, opened.number == number { return opened.batch }
        opened = nil
        let position = parts.first.advanced(by: number)
        let bytes = try parts.frames.first { $0.firstPosition == position }?.batch ?? BufferedParts.batch(db, at: position)
        let batch = try SealedEntry.open(bytes, at: position, state, cipher)
        try check(batch, number)
        opened = (number, batch)
        return batch
    }

    private func check(_ batch: Batch, _ number: Int) throws {
        var header = batch.header
        let info = try batch.body(0).info
        guard header.part == BatchPart(number: number, count: parts.count) else { throw WireError.badValue("part") }
        if let before = headers[number - 1] {
            let follows =
                header.replica == before.replica && header.firstCounter == before.firstCounter.next
                && header.previousDigest == before.certificates[0].digest && info == self.info
            guard follows else { throw WireError.badValue("part") }
        }
        self.info = info
        // All parts have the same footprint, and it can be large.
        header.certificates[0].footprint = .everything
        headers[number] = header
    }
}
