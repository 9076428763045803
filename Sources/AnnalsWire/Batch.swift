package import AnnalsCore

/// An unpacked and verified batch. A replica reads it.
///
///     let batch = try Batch.open(frame.batch)
///     for index in frame.firstIndex..<frame.firstIndex + frame.acceptedCount {
///         var body = try batch.body(index)
///         …
///     }
package struct Batch: Sendable {
    package let header: BatchHeader
    /// The layouts for the table numbers in the bodies.
    package let layouts: [Int: TableLayout]
    /// The unpacked payload. Each body is at its `bodyRange`.
    package let plain: [UInt8]
    private let bodies: [Range<Int>]

    /// Reads, unpacks and verifies a whole batch: checksum, lengths and the digest of every transaction.
    ///
    /// The content of a body is checked when the body is read.
    ///
    /// - Parameter cipher: the cipher of a sealed space. With it, a batch that is not sealed is refused. Without it, a
    ///   sealed batch is refused. Throws `missingKey`, `notSealed` or `badSeal`.
    package static func open(
        _ bytes: [UInt8], cipher: SpaceCipher? = nil, limits: BatchLimits = .standard
    ) throws(WireError) -> Batch {
        let header = try BatchHeader.parse(bytes, limits: limits)
        guard !header.isVoided else { throw .voided }
        let (plain, secret) = try unpack(bytes, header, cipher)
        var start = plain.count - header.certificates.reduce(0) { $0 + $1.bodyLength }
        var reader = ByteReader(plain, range: 0..<start)
        let dictionary = try BatchDictionary(from: &reader)
        var bodies: [Range<Int>] = []
        let digester = BatchDigest(
            replica: header.replica, firstCounter: header.firstCounter, schemaVersion: header.schemaVersion, part: header.part,
            secret: secret)
        for (index, certificate) in header.certificates.enumerated() {
            let range = start..<start + certificate.bodyLength
            let layouts = try dictionary.digests(of: try BodyReader(bytes: plain, range: range).tables)
            let digest = digester.digest(
                index: index, previous: header.previousDigest(of: index), base: certificate.base,
                footprint: bytes[certificate.footprintRange], layouts: layouts, body: range, in: plain)
            guard digest == certificate.digest else { throw .badDigest(index: index) }
            bodies.append(range)
            start = range.upperBound
        }
        let batch = Batch(header: header, layouts: dictionary.layouts, plain: plain, bodies: bodies)
        if header.replica == .relay { try batch.checkVoids() }
        return batch
    }

    /// Returns the unpacked payload and the secret prefix of the digests. The prefix is empty if the batch is not
    /// sealed.
    private static func unpack(
        _ bytes: [UInt8], _ header: BatchHeader, _ cipher: SpaceCipher?
    ) throws(WireError) -> (plain: [UInt8], secret: [UInt8]) {
        guard header.keyID != 0 else {
            // The relay has no key, so its own entries are not sealed. They can only void other entries.
            guard cipher == nil || header.replica == .relay else { throw .notSealed }
            return (try unpack(bytes, header.payload, header), [])
        }
        guard let cipher else { throw .missingKey(header.keyID) }
        let packed = try cipher.open(bytes[header.payload], clear: bytes[header.clear], keyID: header.keyID)
        return (try unpack(packed, 0..<packed.count, header), try cipher.keys(header.keyID).digestSecret)
    }

    private static func unpack(_ bytes: [UInt8], _ packed: Range<Int>, _ header: BatchHeader) throws(WireError) -> [UInt8] {
        switch header.codec {
        case .plain: Array(bytes[packed])
        case .voided: throw .voided
        case .zstd: try Compression.decompress(bytes, range: packed, expected: header.plainLength)
        }
    }

    /// The relay's own entries may only void other entries.
    private func checkVoids() throws(WireError) {
        guard header.keyID == 0, header.part.isWhole else { throw .badValue("void") }
        for index in bodies.indices {
            var body = try body(index)
            let rest = try body.rest()
            guard body.tables.isEmpty, rest == BodyReader.Rest(voids: rest.voids), !rest.voids.isEmpty else { throw .badValue("void") }
        }
    }

    /// The range of a transaction's body in `plain`.
    package func bodyRange(_ index: Int) -> Range<Int> {
        bodies[index]
    }

    /// A reader for a transaction's body.
    package func body(_ index: Int) throws(WireError) -> BodyReader {
        try BodyReader(bytes: plain, range: bodyRange(index))
    }
}
