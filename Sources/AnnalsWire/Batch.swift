public import AnnalsCore

/// A batch unpacked and verified: what a replica reads.
///
///     let batch = try Batch.open(frame.batch)
///     for index in frame.firstIndex..<frame.firstIndex + frame.acceptedCount {
///         var body = try batch.body(index)
///         …
///     }
public struct Batch: Sendable {
    public let header: BatchHeader
    /// What the numbers in the bodies mean.
    public let layouts: [Int: TableLayout]
    /// The unpacked payload, in which bodies lie at their `bodyRange`.
    public let plain: [UInt8]
    private let bodies: [Range<Int>]

    /// Reads, unpacks and verifies a whole batch: checksum, lengths and every transaction's digest.
    ///
    /// Bodies' contents are checked when they are read.
    public static func open(_ bytes: [UInt8], limits: BatchLimits = .standard) throws(WireError) -> Batch {
        let header = try BatchHeader.parse(bytes, limits: limits)
        guard header.keyID == 0 else { throw .missingKey(header.keyID) }
        let plain: [UInt8] =
            switch header.codec {
            case .plain: Array(bytes[header.payload])
            case .zstd: try Compression.decompress(bytes, range: header.payload, expected: header.plainLength)
            }
        var start = plain.count - header.certificates.reduce(0) { $0 + $1.bodyLength }
        var reader = ByteReader(plain, range: 0..<start)
        let dictionary = try BatchDictionary(from: &reader)
        var bodies: [Range<Int>] = []
        let digester = BatchDigest(
            replica: header.replica, firstCounter: header.firstCounter, schemaVersion: header.schemaVersion, part: header.part)
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
        return Batch(header: header, layouts: dictionary.layouts, plain: plain, bodies: bodies)
    }

    /// Where a transaction's body lies in `plain`.
    public func bodyRange(_ index: Int) -> Range<Int> {
        bodies[index]
    }

    /// A reader of a transaction's body.
    public func body(_ index: Int) throws(WireError) -> BodyReader {
        try BodyReader(bytes: plain, range: bodyRange(index))
    }
}
