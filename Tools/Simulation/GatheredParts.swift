import AnnalsCore
import AnnalsWire

/// The parts of one transaction that the log has so far, from its first part on. They have no gaps and the same author, base and
/// footprint, and each contains the digest of the part before it.
struct GatheredParts {
    let span: ClosedRange<Int64>
    private var header: BatchHeader
    private var gathered: DecodedBody?
    private var pieces = GatheredPieces()
    /// The transaction's id and author, from its first part.
    private(set) var info: TransactionInfo?

    init(_ batch: Batch, at position: Int64) throws(Violation) {
        header = batch.header
        guard header.part.number == 0 else { throw Violation("law 6", "position \(position) is part \(header.part.number) of nothing") }
        span = position...position + Int64(header.part.count) - 1
    }

    /// Adds the next part; throws if the batch is not the next part.
    func adding(_ batch: Batch, at position: Int64) throws(Violation) -> GatheredParts {
        let next = batch.header
        let (certificate, expected) = (next.certificates[0], header.certificates[0])
        guard next.replica == header.replica, next.part == BatchPart(number: header.part.number + 1, count: header.part.count),
            next.firstCounter == header.firstCounter.next, next.previousDigest == expected.digest,
            certificate.base == expected.base, certificate.footprint == expected.footprint
        else { throw Violation("law 6", "position \(position) stands between the parts of \(text)") }
        var parts = self
        parts.header = next
        return parts
    }

    mutating func add(_ body: [UInt8], table: (Int) -> String?) throws {
        let said = try BodyReader(bytes: body).info
        if info == nil { info = said }
        guard said == info else { throw Violation("law 6", "a part of \(text) says that it is of \(said.id)") }
        guard let whole = try pieces.add(body, parts: header.part.count - header.part.number) else { return }
        let decoded = try DecodedBody(whole, table: table)
        if gathered == nil { gathered = decoded } else { try gathered?.append(decoded) }
    }

    /// The content of all parts.
    var content: DecodedBody {
        get throws(Violation) {
            guard let gathered, !pieces.isAmid else { throw Violation("law 6", "\(text) ends amid a body") }
            return gathered
        }
    }

    var text: String { "the transaction at \(span)" }
}
