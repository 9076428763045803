package import AnnalsCore

/// How a batch's payload is packed.
package enum Codec: UInt8, Hashable, Sendable {
    case plain = 0
    case zstd = 1
    /// The batch has no payload, because its entries were voided (`VoidedEntry`).
    case voided = 2
}

/// The facts about one transaction that a relay needs to certify and identify it. It reveals nothing of the content.
package struct Certificate: Hashable, Sendable {
    /// The position that the author had applied when it wrote the transaction or rebased it last.
    package var base: Position
    package var digest: Digest
    package var footprint: Footprint
    /// The size of the body, unpacked, in bytes.
    package var bodyLength: Int
    /// The range of the encoded footprint in the batch.
    var footprintRange: Range<Int>
}

/// Which part of a transaction a batch contains, if the transaction is too large for one batch.
package struct BatchPart: Hashable, Sendable {
    /// From 0.
    package var number: Int
    /// The number of parts.
    package var count: Int

    package init(number: Int, count: Int) {
        self.number = number
        self.count = count
    }

    /// A transaction that fits into one batch has one part.
    package static let whole = BatchPart(number: 0, count: 1)

    package var isWhole: Bool { count == 1 }
    package var isLast: Bool { number == count - 1 }
}

/// The clear part of a batch. A relay reads only this part.
///
///     let header = try BatchHeader.parse(body)
///     for (index, certificate) in header.certificates.enumerated() { … header.counter(of: index) … }
package struct BatchHeader: Hashable, Sendable {
    package static let currentVersion: UInt8 = 2
    static let magic: StaticString = "ANNB"
    /// The offset of the codec, after magic and version.
    static let codecOffset = 5

    package var version: UInt8
    package var codec: Codec
    /// The id of the space key that sealed the payload. Zero if the payload is not sealed.
    package var keyID: UInt64
    package var lineage: Lineage
    /// The author of the batch. It is derived from the public key.
    package var replica: ReplicaID
    /// The author's public key. Zeros in the relay's own entries.
    package var publicKey: [UInt8]
    /// The counter of the first transaction. The other transactions have the next counters, without gaps.
    package var firstCounter: Counter
    /// The version of the schema of the author's rows.
    package var schemaVersion: Int64
    /// A part of a transaction is the only content of its batch.
    package var part: BatchPart
    /// What the author had seen of the log when it made the batch: a position, and the log's running digest at it.
    package var seen: SeenLog
    /// The digest of the replica's transaction before the first one. Zero if there is none.
    package var previousDigest: Digest
    /// One certificate for each transaction, in the order of their counters. At least one.
    package var certificates: [Certificate]
    /// The size of the unpacked payload, in bytes.
    package var plainLength: Int
    /// The range before the payload. A seal covers it, too.
    package var clear: Range<Int>
    /// The range of the author's signature.
    package var signature: Range<Int>
    /// The range of the packed payload.
    package var payload: Range<Int>

    package func counter(of index: Int) -> Counter {
        Counter(firstCounter.rawValue + Int64(index))
    }

    /// Whether the entries were voided. Then only the clear part exists, and replicas apply nothing of the batch.
    package var isVoided: Bool { codec == .voided }

    /// The counter of the last transaction.
    package var lastCounter: Counter {
        counter(of: certificates.count - 1)
    }

    /// The digest before the transaction's own digest in the author's chain.
    package func previousDigest(of index: Int) -> Digest {
        index == 0 ? previousDigest : certificates[index - 1].digest
    }

    /// The smallest size of a certificate in bytes: base, digest, length of the footprint, footprint, length of the
    /// body.
    static let minimumCertificateBytes = 1 + Digest.byteCount + 1 + 4 + 1
}

/// What an author had seen of the log: a position, and the running digest (`LogMark`) at it.
///
/// An author signs it with each batch, and a receiver compares it with its own log. So if a relay shows different logs
/// to different replicas, the first entry that reaches both groups reveals it. No transaction of the batch has a later
/// base, so a relay that accepts the batch has compared the digest with its own.
package struct SeenLog: Hashable, Sendable {
    package var position: Position
    /// nil if the author does not know it. Zeros before the first entry.
    package var digest: Digest?

    package init(position: Position, digest: Digest?) {
        self.position = position
        self.digest = position == .zero ? .zero : digest
    }

    package static let nothing = SeenLog(position: .zero, digest: .zero)

    init(from reader: inout ByteReader) throws(WireError) {
        position = try reader.readPosition()
        let found = try reader.readDigest()
        guard position > .zero || found == .zero else { throw .badValue("seen digest") }
        digest = position > .zero && found == .zero ? nil : found
    }

    func encode(into writer: inout ByteWriter) {
        writer.position(position)
        writer.digest(digest ?? .zero)
    }
}

extension BatchHeader {
    /// Reads the clear part of a batch. Checks the version, the checksum, the limits, and that all lengths agree.
    ///
    /// The payload is not unpacked. `bytes` must contain the batch and nothing else.
    package static func parse(_ bytes: [UInt8], limits: BatchLimits = .standard) throws(WireError) -> BatchHeader {
        guard bytes.count <= limits.batchBytes else { throw .tooLarge("batch") }
        var reader = ByteReader(bytes)
        // The version comes first because another version may have another checksum.
        try reader.readMagic(magic, version: currentVersion)
        guard bytes.count >= reader.offset + Checksum.byteCount else { throw .truncated }
        let end = bytes.count - Checksum.byteCount
        guard Checksum.of(bytes[..<end]).elementsEqual(bytes[end...]) else { throw .badChecksum }
        reader = ByteReader(bytes, range: reader.offset..<end)
        return try parse(&reader, limits: limits)
    }

    private static func parse(_ reader: inout ByteReader, limits: BatchLimits) throws(WireError) -> BatchHeader {
        guard let codec = Codec(rawValue: try reader.readByte()) else { throw .badValue("codec") }
        let keyID = try reader.readFixed64LE()
        let lineage = try reader.readIdentifier(Lineage.self)
        let publicKey = try reader.readBytes(ReplicaKey.publicByteCount)
        let isRelay = publicKey.allSatisfy { $0 == 0 }
        let replica = isRelay ? .relay : ReplicaKey.replica(of: publicKey)
        let firstCounter = Counter(try reader.readPosition().rawValue)
        let schemaVersion = try reader.readNumber()
        let part = BatchPart(number: try reader.readInt(), count: try reader.readInt())
        let count = try reader.readInt()
        guard part.number < part.count, part.isWhole || count == 1 else { throw .badValue("part") }
        guard part.count <= WireLimits.maximumParts else { throw .tooLarge("parts") }
        guard count > 0, firstCounter > .zero else { throw .badValue("counter") }
        guard count <= limits.transactions else { throw .tooLarge("transactions") }
        let seen = try SeenLog(from: &reader)
        let previousDigest = try reader.readDigest()
        guard count <= reader.remaining / minimumCertificateBytes else { throw .truncated }
        var certificates: [Certificate] = []
        certificates.reserveCapacity(count)
        var bodies = 0
        for _ in 0..<count {
            let certificate = try parseCertificate(&reader)
            guard certificate.base <= seen.position else { throw .badValue("base") }
            guard certificate.bodyLength <= limits.plainBytes - bodies else { throw .tooLarge("payload") }
            bodies += certificate.bodyLength
            certificates.append(certificate)
        }
        let plainLength = try reader.readInt()
        guard plainLength <= limits.plainBytes else { throw .tooLarge("payload") }
        guard plainLength >= bodies else { throw .badLength }
        let clear = 0..<reader.offset
        let signature = try reader.readRange(ReplicaKey.signatureByteCount)
        guard !isRelay || reader.bytes[signature].allSatisfy({ $0 == 0 }) else { throw .badSignature }
        let payload = try reader.readLengthPrefixed()
        try reader.expectEnd()
        let overhead = keyID == 0 ? 0 : SpaceCipher.overhead
        let isRight =
            switch codec {
            case .plain: payload.count - overhead == plainLength
            case .zstd: payload.count >= overhead
            case .voided: payload.isEmpty
            }
        guard isRight else { throw .badLength }
        return BatchHeader(
            version: currentVersion, codec: codec, keyID: keyID, lineage: lineage, replica: replica, publicKey: publicKey,
            firstCounter: firstCounter, schemaVersion: schemaVersion, part: part, seen: seen, previousDigest: previousDigest,
            certificates: certificates, plainLength: plainLength, clear: clear, signature: signature, payload: payload)
    }

    private static func parseCertificate(_ reader: inout ByteReader) throws(WireError) -> Certificate {
        let base = try reader.readPosition()
        let digest = try reader.readDigest()
        let footprintRange = try reader.readLengthPrefixed()
        var inner = ByteReader(reader.bytes, range: footprintRange)
        let footprint = try Footprint.decode(from: &inner)
        try inner.expectEnd()
        let bodyLength = try reader.readInt()
        return Certificate(base: base, digest: digest, footprint: footprint, bodyLength: bodyLength, footprintRange: footprintRange)
    }
}
