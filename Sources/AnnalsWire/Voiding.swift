package import AnnalsCore

/// An entry of the log that counts as if it had never been written, since no replica can take it in.
///
/// Where it stood the relay hands out its clear part alone (`Codec.voided`), so that positions, counters and digests go on; and
/// an entry of the relay's own, later in the log, says so to everybody.
package struct VoidedEntry: Hashable, Sendable {
    package var position: Position
    package var digest: Digest

    package init(position: Position, digest: Digest) {
        self.position = position
        self.digest = digest
    }
}

extension ReplicaID {
    /// Who writes the relay's own entries. No replica has this id, and none may push as it.
    package static let relay = ReplicaID(high: 0, low: 1)
}

/// Makes what a relay puts into the log when an entry is voided.
package enum Voiding {
    /// What is handed out instead of a batch: its clear part, with its author's signature.
    ///
    /// - Throws: `WireError` when the bytes are no batch.
    package static func voided(_ batch: [UInt8], limits: BatchLimits = .standard) throws(WireError) -> [UInt8] {
        let header = try BatchHeader.parse(batch, limits: limits)
        var writer = ByteWriter(capacity: header.clear.count + 16)
        writer.bytes(batch[header.clear])
        writer.bytes[BatchHeader.codecOffset] = Codec.voided.rawValue
        writer.bytes(batch[header.signature])
        writer.varint(0)
        writer.checksum()
        return writer.bytes
    }

    /// The relay's own entry that says what was voided. Its footprint is everything, so that nobody's work passes it unseen.
    ///
    /// - Parameters:
    ///   - counter: the relay's next in this log, from 1.
    ///   - head: the position that it comes behind.
    ///   - time: when, in milliseconds since 1970.
    package static func entry(
        _ voided: [VoidedEntry], in lineage: Lineage, counter: Counter, previous: Digest, after head: Position, id: TransactionID,
        time: Int64
    ) throws -> EncodedBatch {
        var body = BodyEncoder(info: TransactionInfo(id: id, time: HybridTime(milliseconds: time, counter: 0), contextName: "void"))
        body.voids(voided)
        var batch = BatchEncoder(
            lineage: lineage, signer: nil, firstCounter: counter, previousDigest: previous, schemaVersion: 0, codec: .plain)
        batch.append(body: body.finish(), base: head, footprint: .everything)
        return try batch.finish()
    }
}

extension ByteWriter {
    mutating func voidedEntry(_ entry: VoidedEntry) {
        position(entry.position)
        digest(entry.digest)
    }
}

extension ByteReader {
    mutating func readVoidedEntry() throws(WireError) -> VoidedEntry {
        VoidedEntry(position: try readPosition(), digest: try readDigest())
    }
}
