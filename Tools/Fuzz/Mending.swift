@testable import AnnalsCore
@testable import AnnalsWire

/// Corrects checksums and digests after a change of bytes. Otherwise no input would reach the code behind these checks.
enum Mending {
    /// The batch with a correct checksum, and with correct digests of its transactions as far as they can be computed.
    static func batch(_ bytes: [UInt8]) throws(WireError) -> [UInt8] {
        var bytes = bytes
        mendEnd(&bytes)
        let header = try BatchHeader.parse(bytes)
        guard header.keyID == 0, !header.isVoided else { return bytes }
        let packed = Array(bytes[header.payload])
        let plain = header.codec == .plain ? packed : try Compression.decompress(packed, expected: header.plainLength)
        var start = plain.count - header.certificates.reduce(0) { $0 + $1.bodyLength }
        var reader = ByteReader(plain, range: 0..<start)
        let dictionary = try BatchDictionary(from: &reader)
        let digester = BatchDigest(
            replica: header.replica, firstCounter: header.firstCounter, schemaVersion: header.schemaVersion, part: header.part)
        var previous = header.previousDigest
        for (index, certificate) in header.certificates.enumerated() {
            let body = start..<start + certificate.bodyLength
            previous = digester.digest(
                index: index, previous: previous, base: certificate.base, footprint: bytes[certificate.footprintRange],
                layouts: try dictionary.digests(of: try BodyReader(bytes: plain, range: body).tables), body: body, in: plain)
            let end = certificate.footprintRange.lowerBound - lengthBytes(certificate.footprintRange.count)
            bytes.replaceSubrange(end - Digest.byteCount..<end, with: previous.bytes)
            start = body.upperBound
        }
        mendEnd(&bytes)
        return bytes
    }

    static func page(_ bytes: [UInt8], from start: Int = 0) throws(WireError) -> [UInt8] {
        var reader = ByteReader(bytes, range: start..<bytes.count)
        try reader.readMagic(Page.magic, version: Page.currentVersion)
        _ = try reader.readIdentifier(Lineage.self)
        for _ in 0..<3 { _ = try reader.readPosition() }
        _ = try reader.readBool()
        for _ in 0..<(try reader.readCount(minimumBytes: LogFrame.minimumHeadBytes)) { _ = try LogFrame.decodeHead(from: &reader) }
        return try mended(bytes, start..<reader.offset)
    }

    static func answer(_ bytes: [UInt8]) throws(WireError) -> [UInt8] {
        var reader = ByteReader(bytes)
        try reader.readMagic(PushAnswer.magic, version: PushAnswer.currentVersion)
        _ = try reader.readIdentifier(ReplicaID.self)
        _ = try reader.readPosition()
        _ = try reader.readDigest()
        if let number = [1: 1, 5: 1][try reader.readByte()] { for _ in 0..<number { _ = try reader.readVarint() } }
        _ = try reader.readIdentifier(Lineage.self)
        _ = try reader.readPosition()
        _ = try reader.readMilliseconds()
        for _ in 0..<(try reader.readCount()) { _ = try reader.readVarint() }
        let hasPage = try reader.readBool()
        let answer = try mended(bytes, 0..<reader.offset)
        return hasPage ? try page(answer, from: reader.offset + Checksum.byteCount) : answer
    }

    private static func mendEnd(_ bytes: inout [UInt8]) {
        let end = max(0, bytes.count - Checksum.byteCount)
        bytes.replaceSubrange(end..., with: Checksum.of(bytes[..<end]))
    }

    private static func mended(_ bytes: [UInt8], _ covered: Range<Int>) throws(WireError) -> [UInt8] {
        guard bytes.count >= covered.upperBound + Checksum.byteCount else { throw .truncated }
        var bytes = bytes
        bytes.replaceSubrange(covered.upperBound..<covered.upperBound + Checksum.byteCount, with: Checksum.of(bytes[covered]))
        return bytes
    }

    private static func lengthBytes(_ count: Int) -> Int {
        var writer = ByteWriter()
        writer.varint(count)
        return writer.count
    }
}
