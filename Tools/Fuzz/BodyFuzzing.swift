@testable import AnnalsCore
@testable import AnnalsWire

/// Bodies of transactions.
enum BodyFuzzing {
    static let target = FuzzTarget("body", seeds: { try $0.bodies() }) { bytes in
        _ = try? BodyReader(bytes: bytes).piece()
        try DecodedBody(bytes).expectRoundTrip()
    }
}

/// The whole content of a body as values.
struct DecodedBody: Hashable {
    struct Change: Hashable {
        var table: Int
        var change: MarkedChange
    }

    let info: TransactionInfo
    private(set) var changes: [Change] = []
    let rest: BodyReader.Rest

    init(_ bytes: [UInt8], _ range: Range<Int>? = nil) throws(WireError) {
        var body = try BodyReader(bytes: bytes, range: range)
        info = body.info
        var change = WireChange()
        while let table = try body.nextTable() {
            while try body.nextChange(into: &change) { changes.append(Change(table: table, change: body.markedChange(change))) }
        }
        rest = try body.rest()
    }

    func encode() -> [UInt8] {
        var body = BodyEncoder(info: info)
        for change in changes {
            body.beginTable(change.table)
            body.change(change.change)
        }
        for entry in rest.journal { body.journal(entry) }
        if let schema = rest.schema { body.schema(schema) }
        body.policies(rest.policies)
        body.resolutions(rest.resolutions)
        body.references(rest.references)
        body.voids(rest.voids)
        return body.finish()
    }

    /// Tables without a change, and sections that could be joined, are not written again. So the second encoding is compared.
    func expectRoundTrip() {
        let bytes = encode()
        let again = try? DecodedBody(bytes)
        expect(again == self, "a body that is written again has the same content")
        expect(again?.encode() == bytes, "one content is written in one way")
    }
}

/// Bodies that are cut into pieces.
enum PieceFuzzing {
    /// The first byte is the size of the pieces.
    static let target = FuzzTarget("piece", seeds: { try $0.bodies().map { [5] + $0 } }) { bytes in
        guard let first = bytes.first else { return }
        let body = Array(bytes.dropFirst())
        if let reader = try? BodyReader(bytes: body) { _ = try? JoinedBody(reader, partsAtMost: WireLimits.maximumParts) }
        var pieces: [[UInt8]] = []
        try BodyPieces.forEach(of: [body], pieceBytes: Int(first) + 1) { part, _ in pieces.append(Array(part.joined())) }
        guard pieces.count > 1 else { return }
        var joined = try JoinedBody(BodyReader(bytes: pieces[0]), partsAtMost: pieces.count)
        for piece in pieces.dropFirst() { try joined.add(BodyReader(bytes: piece)) }
        expect(joined.isWhole, "pieces are a whole")
        let whole = try joined.reader()
        expect(whole.bytes == body, "pieces are the body that was cut")
    }
}
