internal import AnnalsCore

/// Where a body is a *piece*: a stretch of the bytes of a body that is too large to travel as one part.
package struct BodyPiece: Hashable, Sendable {
    /// Bytes of the whole body.
    package var total: Int
    /// Where in the whole body its bytes stand.
    package var offset: Int
    /// Where its bytes lie in the reader's.
    package var range: Range<Int>

    package var isLast: Bool { offset + range.count == total }
}

/// Cuts bodies that are too large for one part: what holds one change of a row with a value of many megabytes.
package enum BodyPieces {
    /// Visits what a body travels as: itself, or its pieces, each of them a body and in memory by itself.
    ///
    /// - Parameters:
    ///   - body: in buffers, of which the first holds all that comes before the sections.
    ///   - pieceBytes: the most that one of them holds of the body.
    package static func forEach(
        of body: [[UInt8]], pieceBytes: Int, _ visit: (_ part: [[UInt8]], _ isLast: Bool) throws -> Void
    ) throws {
        let total = body.reduce(0) { $0 + $1.count }
        guard total > pieceBytes, pieceBytes > 0, let first = body.first else { return try visit(body, true) }
        let head = first[..<(try BodyReader(bytes: first).headEnd)]
        var source = body[...]
        var rest = source.popFirst().map { $0[...] } ?? []
        for offset in stride(from: 0, to: total, by: pieceBytes) {
            let count = min(pieceBytes, total - offset)
            var piece = ByteWriter(capacity: head.count + count + 32)
            piece.bytes(head)
            piece.byte(BodySection.piece)
            piece.varint(total)
            piece.varint(offset)
            piece.varint(count)
            var missing = count
            while missing > 0 {
                if rest.isEmpty { rest = source.popFirst().map { $0[...] } ?? [] }
                let taken = rest.prefix(missing)
                piece.bytes(taken)
                missing -= taken.count
                rest = rest.dropFirst(taken.count)
            }
            piece.byte(BodySection.end)
            try visit([piece.bytes], offset + count == total)
        }
    }
}

/// Puts a body together from its pieces, in their order.
///
///     var joined = try JoinedBody(first, partsAtMost: parts)
///     while !joined.isWhole { try joined.add(next) }
///     var body = try joined.reader()
package struct JoinedBody {
    private let first: BodyReader
    private let total: Int
    /// Bytes of every piece but the last, which has no more.
    private let pieceBytes: Int
    private var bytes: [UInt8] = []

    /// - Parameter partsAtMost: how many pieces there can be, this one included: a body that they cannot fill is refused.
    package init(_ first: BodyReader, partsAtMost parts: Int) throws(WireError) {
        guard let piece = try first.piece(), piece.offset == 0, !piece.isLast else { throw .badValue("piece") }
        guard piece.total <= WireLimits.maximumBodyBytes else { throw .tooLarge("body") }
        guard (piece.total - 1) / piece.range.count < parts else { throw .badValue("piece") }
        self.first = first
        total = piece.total
        pieceBytes = piece.range.count
        take(first.bytes[piece.range])
    }

    package var isWhole: Bool { bytes.count == total }

    /// Bytes that memory is set aside for.
    var room: Int { bytes.capacity }

    /// Takes the next piece.
    package mutating func add(_ next: BodyReader) throws(WireError) {
        guard let piece = try next.piece(), piece.total == total, piece.offset == bytes.count, next.info == first.info,
            next.tables == first.tables, piece.range.count == pieceBytes || (piece.isLast && piece.range.count < pieceBytes)
        else { throw .badValue("piece") }
        take(next.bytes[piece.range])
    }

    /// Room that is made at once, in multiples of what has come. The first piece says how large the body is, and pieces that repeat
    /// pack to almost nothing, so only what has come is believed. Doubling would leave half of a large body unused.
    private static let growth = 8

    private mutating func take(_ piece: ArraySlice<UInt8>) {
        let count = bytes.count + piece.count
        // Eight times what is at most the total, which is within its limit.
        if count > bytes.capacity { bytes.reserveCapacity(min(total, count * Self.growth)) }
        bytes += piece
    }

    /// A reader of the body, which is whole and says of itself what its pieces say.
    package func reader() throws(WireError) -> BodyReader {
        guard isWhole else { throw .truncated }
        let body = try BodyReader(bytes: bytes)
        guard body.info == first.info, body.tables == first.tables, try body.piece() == nil else { throw .badValue("piece") }
        return body
    }
}
