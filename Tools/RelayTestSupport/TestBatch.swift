package import AnnalsCore
package import AnnalsWire

/// A batch made byte by byte, with any certificates that a test needs. The payload is arbitrary, because a relay does not read it.
package struct TestBatch: Sendable {
    package struct Transaction: Sendable {
        package var base: Position
        package var digest: Digest
        package var footprint: Footprint

        package init(base: Position, digest: Digest, footprint: Footprint) {
            self.base = base
            self.digest = digest
            self.footprint = footprint
        }
    }

    package var lineage: Lineage
    /// The key that signs; nil makes an entry of the relay.
    package var key: ReplicaKey?
    /// What its author says about the log; the default is the newest base, without a digest.
    package var seen: SeenLog?
    package var firstCounter: Counter
    package var previousDigest: Digest
    package var transactions: [Transaction]
    package var payload: [UInt8]
    package var partNumber = 0
    package var partCount = 1

    package init(
        lineage: Lineage, key: ReplicaKey, firstCounter: Counter, previousDigest: Digest, transactions: [Transaction],
        payload: [UInt8] = [UInt8](repeating: 0x5a, count: 100)
    ) {
        self.lineage = lineage
        self.key = key
        self.firstCounter = firstCounter
        self.previousDigest = previousDigest
        self.transactions = transactions
        self.payload = payload
    }

    package var replica: ReplicaID { key?.replica ?? .relay }

    package var bytes: [UInt8] {
        var writer = ByteWriter()
        writer.bytes(Array("ANNB".utf8))
        writer.byte(BatchHeader.currentVersion)
        writer.byte(Codec.plain.rawValue)
        writer.fixed64LE(0)
        writer.identifier(lineage)
        writer.bytes(key?.publicBytes ?? [UInt8](repeating: 0, count: ReplicaKey.publicByteCount))
        writer.varint(UInt64(firstCounter.rawValue))
        writer.varint(1)
        writer.varint(partNumber)
        writer.varint(partCount)
        writer.varint(transactions.count)
        let seen = seen ?? SeenLog(position: transactions.map(\.base).max() ?? .zero, digest: nil)
        writer.position(seen.position)
        writer.digest(seen.digest ?? .zero)
        writer.digest(previousDigest)
        for transaction in transactions {
            writer.position(transaction.base)
            writer.digest(transaction.digest)
            writer.lengthPrefixed(transaction.footprint.encode())
            writer.varint(0)
        }
        writer.varint(payload.count)
        let signature = try? key?.sign(BatchSignature.message(clear: writer.bytes[...]))
        writer.bytes(signature ?? [UInt8](repeating: 0, count: ReplicaKey.signatureByteCount))
        writer.lengthPrefixed(payload)
        let checksum = Digest.sha256(writer.bytes[...]).bytes[..<8]
        writer.bytes(checksum)
        return writer.bytes
    }

    package func header() throws -> BatchHeader {
        try BatchHeader.parse(bytes)
    }
}

extension Footprint {
    /// A footprint of one table.
    package static func writing(_ hashes: UInt64..., reading reads: [UInt64] = [], table: UInt64 = 1) -> Footprint {
        Footprint(groups: [Group(table: table, writes: Set(hashes).sorted(), reads: Set(reads).sorted())])
    }
}

extension Digest {
    /// A digest of a number, to distinguish test transactions.
    package static func test(_ seed: UInt64) -> Digest {
        Digest.sha256(withUnsafeBytes(of: seed.littleEndian) { Array($0) }[...])
    }
}

extension ReplicaKey {
    /// A key made from a number, to distinguish test replicas.
    package static func test(_ number: UInt64) -> ReplicaKey {
        ReplicaKey(bytes: Digest.sha256(Array("test replica".utf8)[...], withUnsafeBytes(of: number.littleEndian) { Array($0) }[...]).bytes)
            ?? .random()
    }
}

/// A replica that numbers and chains its transactions correctly.
package struct TestReplica: Sendable {
    package let key: ReplicaKey
    package var id: ReplicaID { key.replica }
    package var counter = Counter.zero
    package var digest = Digest.zero
    private var made: UInt64

    package init(_ number: UInt64) {
        key = .test(number)
        made = number << 32
    }

    /// A batch of transactions after the last accepted ones. Only `accept` makes it count as accepted.
    package mutating func batch(_ lineage: Lineage, base: Position, _ footprints: Footprint..., payload: [UInt8]? = nil) -> TestBatch {
        batch(lineage, base: base, footprints: footprints, payload: payload)
    }

    package mutating func batch(_ lineage: Lineage, base: Position, footprints: [Footprint], payload: [UInt8]? = nil) -> TestBatch {
        let transactions = footprints.map { footprint in
            made += 1
            return TestBatch.Transaction(base: base, digest: .test(made), footprint: footprint)
        }
        var batch = TestBatch(
            lineage: lineage, key: key, firstCounter: counter.next, previousDigest: digest, transactions: transactions)
        if let payload { batch.payload = payload }
        return batch
    }

    /// One transaction in parts, after the last accepted one.
    package mutating func parts(_ lineage: Lineage, base: Position, _ footprint: Footprint, count: Int) -> [TestBatch] {
        var parts: [TestBatch] = []
        for number in 0..<count {
            var part = batch(lineage, base: base, footprint)
            part.firstCounter = Counter(counter.rawValue + Int64(number) + 1)
            part.previousDigest = parts.last?.transactions[0].digest ?? digest
            (part.partNumber, part.partCount) = (number, count)
            parts.append(part)
        }
        return parts
    }

    /// Notes that all parts are in the log.
    package mutating func accept(_ parts: [TestBatch]) {
        guard let last = parts.last else { return }
        counter = last.firstCounter
        digest = last.transactions[0].digest
    }

    /// Notes that the first `count` transactions of the batch, or all, are in the log.
    package mutating func accept(_ batch: TestBatch, count: Int? = nil) {
        let count = count ?? batch.transactions.count
        guard count > 0 else { return }
        counter = Counter(batch.firstCounter.rawValue + Int64(count) - 1)
        digest = batch.transactions[count - 1].digest
    }
}
