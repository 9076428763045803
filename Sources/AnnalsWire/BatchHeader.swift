package import AnnalsCore

/// How a batch's payload is packed.
package enum Codec: UInt8, Hashable, Sendable {
    case plain = 0
    case zstd = 1
    /// There is no payload: the entries were voided (`VoidedEntry`).
    case voided = 2
}

/// What a relay must know of one transaction: enough to certify and identify it, and nothing of its content.
package struct Certificate: Hashable, Sendable {
    /// The position that the author had looked at when it made or last rebased the transaction.
    package var base: Position
    package var digest: Digest
    package var footprint: Footprint
    /// Unpacked bytes of its body.
    package var bodyLength: Int
    /// Where the encoded footprint lies in the batch.
    var footprintRange: Range<Int>
}

/// Which part of a transaction too large for one batch a batch holds.
package struct BatchPart: Hashable, Sendable {
    /// From 0.
    package var number: Int
    /// How many there are.
    package var count: Int

    package init(number: Int, count: Int) {
        self.number = number
        self.count = count
    }

    /// Transactions that fit into one batch are not divided.
    package static let whole = BatchPart(number: 0, count: 1)

    package var isWhole: Bool { count == 1 }
    package var isLast: Bool { number == count - 1 }
}

/// The clear part of a batch: all that a relay reads.
///
///     let header = try BatchHeader.parse(body)
///     for (index, certificate) in header.certificates.enumerated() { … header.counter(of: index) … }
package struct BatchHeader: Hashable, Sendable {
    package static let currentVersion: UInt8 = 1
    static let magic: StaticString = "ANNB"
    /// Where the codec stands, behind magic and version.
    static let codecOffset = 5

    package var version: UInt8
    package var codec: Codec
    /// Names the space key that sealed the payload; zero where it is not sealed.
    package var keyID: UInt64
    package var lineage: Lineage
    package var replica: ReplicaID
    /// The counter of the first transaction; the others follow without gaps.
    package var firstCounter: Counter
    /// The schema that the author's rows had.
    package var schemaVersion: Int64
    /// A part of a transaction is alone in its batch.
    package var part: BatchPart
    /// The digest of the replica's transaction before the first; zero where there is none.
    package var previousDigest: Digest
    /// One for each transaction, in the order of their counters; at least one.
    package var certificates: [Certificate]
    /// Bytes of the unpacked payload.
    package var plainLength: Int
    /// What stands before the payload: a seal covers it, too.
    package var clear: Range<Int>
    /// Where the packed payload lies in the batch.
    package var payload: Range<Int>

    package func counter(of index: Int) -> Counter {
        Counter(firstCounter.rawValue + Int64(index))
    }

    /// Only the clear part is left: nothing of it takes place.
    package var isVoided: Bool { codec == .voided }

    /// The counter of the last transaction.
    package var lastCounter: Counter {
        counter(of: certificates.count - 1)
    }

    /// The digest that the transaction follows upon.
    package func previousDigest(of index: Int) -> Digest {
        index == 0 ? previousDigest : certificates[index - 1].digest
    }

    /// Bytes that each transaction's certificate takes at least: base, digest, footprint and its length, body length.
    static let minimumCertificateBytes = 1 + Digest.byteCount + 1 + 4 + 1
}

extension BatchHeader {
    /// Reads the clear part of a batch and checks version, checksum, limits and that all lengths agree.
    ///
    /// The payload is not unpacked. Bytes must be the batch and nothing else.
    package static func parse(_ bytes: [UInt8], limits: BatchLimits = .standard) throws(WireError) -> BatchHeader {
        guard bytes.count <= limits.batchBytes else { throw .tooLarge("batch") }
        var reader = ByteReader(bytes)
        // Another version may have another checksum, so the version comes first.
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
        let replica = try reader.readIdentifier(ReplicaID.self)
        let firstCounter = Counter(try reader.readPosition().rawValue)
        let schemaVersion = try reader.readNumber()
        let part = BatchPart(number: try reader.readInt(), count: try reader.readInt())
        let count = try reader.readInt()
        guard part.number < part.count, part.isWhole || count == 1 else { throw .badValue("part") }
        guard part.count <= WireLimits.maximumParts else { throw .tooLarge("parts") }
        guard count > 0, firstCounter > .zero else { throw .badValue("counter") }
        guard count <= limits.transactions else { throw .tooLarge("transactions") }
        let previousDigest = try reader.readDigest()
        guard count <= reader.remaining / minimumCertificateBytes else { throw .truncated }
        var certificates: [Certificate] = []
        certificates.reserveCapacity(count)
        var bodies = 0
        for _ in 0..<count {
            let certificate = try parseCertificate(&reader)
            guard certificate.bodyLength <= limits.plainBytes - bodies else { throw .tooLarge("payload") }
            bodies += certificate.bodyLength
            certificates.append(certificate)
        }
        let plainLength = try reader.readInt()
        guard plainLength <= limits.plainBytes else { throw .tooLarge("payload") }
        guard plainLength >= bodies else { throw .badLength }
        let clear = 0..<reader.offset
        let payload = try reader.readLengthPrefixed()
        try reader.expectEnd()
        let overhead = keyID == 0 ? 0 : SpaceCipher.overhead
        let isRight =
            switch codec {
            case .plain: payload.count == plainLength + overhead
            case .zstd: payload.count >= overhead
            case .voided: payload.isEmpty
            }
        guard isRight else { throw .badLength }
        return BatchHeader(
            version: currentVersion, codec: codec, keyID: keyID, lineage: lineage, replica: replica, firstCounter: firstCounter,
            schemaVersion: schemaVersion, part: part, previousDigest: previousDigest,
            certificates: certificates, plainLength: plainLength, clear: clear, payload: payload)
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
