package import AnnalsCore

/// A voided entry of the log. It has no effect, because replicas cannot apply it.
///
/// At its position the relay sends only the clear part (`Codec.voided`), so that positions, counters and digests stay
/// consecutive. A later entry of the relay itself lists the voided entry for all replicas.
package struct VoidedEntry: Hashable, Sendable {
    package var position: Position
    package var digest: Digest

    package init(position: Position, digest: Digest) {
        self.position = position
        self.digest = digest
    }
}

extension ReplicaID {
    /// The author of the relay's own entries. No replica has this id, and no replica may push under it.
    package static let relay = ReplicaID(high: 0, low: 1)
}

/// Makes the bytes that a relay needs to void an entry.
package enum Voiding {
    /// The bytes that the relay sends instead of the batch: its clear part, with its author's signature.
    ///
    /// - Throws: `WireError` if the bytes are not a batch.
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

    /// The relay's own entry that lists the voided entries. Its footprint conflicts with all others, so every later push must
    /// have seen it.
    ///
    /// - Parameters:
    ///   - counter: the relay's next counter in this log, from 1.
    ///   - head: the position before the new entry.
    ///   - time: the time of the entry, in milliseconds since 1970.
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
