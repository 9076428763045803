internal import AnnalsCore

/// The content of a *piece*: a range of the bytes of a body that is too large for one part.
package struct BodyPiece: Hashable, Sendable {
    /// The size of the whole body, in bytes.
    package var total: Int
    /// The offset of its bytes in the whole body.
    package var offset: Int
    /// The range of its bytes in the reader's bytes.
    package var range: Range<Int>

    package var isLast: Bool { offset + range.count == total }
}

/// Divides bodies that are too large for one part. These have one change of a row with a value of many megabytes.
package enum BodyPieces {
    /// Visits the parts of a body: the body itself, or its pieces. Each piece is a body and separately in memory.
    ///
    /// - Parameters:
    ///   - body: the body in buffers. The first buffer has everything that comes before the sections.
    ///   - pieceBytes: the largest number of the body's bytes in one piece.
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

/// Joins the pieces of a body, in their order.
///
///     var joined = try JoinedBody(first, partsAtMost: parts)
///     while !joined.isWhole { try joined.add(next) }
///     var body = try joined.reader()
package struct JoinedBody {
    private let first: BodyReader
    private let total: Int
    /// The size of every piece except the last, in bytes. The last piece is not larger.
    private let pieceBytes: Int
    private var bytes: [UInt8] = []

    /// - Parameter partsAtMost: the largest possible number of pieces, including this one. A body that they cannot fill
    ///   is refused.
    package init(_ first: BodyReader, partsAtMost parts: Int) throws(WireError) {
        guard let piece = try first.piece(), piece.offset == 0, !piece.isLast else { throw .badPiece }
        guard piece.total <= WireLimits.maximumBodyBytes else { throw .tooLarge("body") }
        guard (piece.total - 1) / piece.range.count < parts else { throw .badPiece }
        self.first = first
        total = piece.total
        pieceBytes = piece.range.count
        take(first.bytes[piece.range])
    }

    package var isWhole: Bool { bytes.count == total }

    /// The allocated memory, in bytes.
    var room: Int { bytes.capacity }

    /// Adds the next piece.
    package mutating func add(_ next: BodyReader) throws(WireError) {
        guard let piece = try next.piece(), piece.total == total, piece.offset == bytes.count, next.info == first.info,
            next.tables == first.tables, piece.range.count == pieceBytes || (piece.isLast && piece.range.count < pieceBytes)
        else { throw .badPiece }
        take(next.bytes[piece.range])
    }

    /// Memory is allocated in this multiple of the received bytes. The first piece states the size of the body, but
    /// pieces with repeated content pack to almost nothing. So the memory depends only on received bytes. Doubling
    /// would leave half of a large body unused.
    private static let growth = 8

    private mutating func take(_ piece: ArraySlice<UInt8>) {
        let count = bytes.count + piece.count
        // The product cannot overflow: `count` is at most the total, and the total is within its limit.
        if count > bytes.capacity { bytes.reserveCapacity(min(total, count * Self.growth)) }
        bytes += piece
    }

    /// A reader of the complete body. Throws if the body differs from its pieces in info or tables.
    package func reader() throws(WireError) -> BodyReader {
        guard isWhole else { throw .truncated }
        let body = try BodyReader(bytes: bytes)
        guard body.info == first.info, body.tables == first.tables, try body.piece() == nil else { throw .badPiece }
        return body
    }
}
