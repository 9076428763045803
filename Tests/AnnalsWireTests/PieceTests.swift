import AnnalsCore
import SeededRandom
import Testing

@testable import AnnalsWire

/// Bodies too large for one part, which travel in pieces.
@Suite struct PieceTests {
    private static let large = (0..<5_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }

    /// A row with a value that is larger than all else.
    private static var body: BodyEncoder {
        var body = BodyEncoder(info: Samples.firstInfo)
        body.beginTable(200)
        body.insert([.integer(7), .text("blue"), .blob(large)])
        body.update(key: [.integer(7)], columns: [ColumnChange(column: 2, old: .blob(large), new: .text(ByteString(large)))])
        for entry in Samples.journal { body.journal(entry) }
        return body
    }

    private static func pieces(_ body: [[UInt8]], _ pieceBytes: Int) throws -> [[UInt8]] {
        var pieces: [[UInt8]] = []
        try BodyPieces.forEach(of: body, pieceBytes: pieceBytes) { part, isLast in
            pieces.append(Array(part.joined()))
            #expect(isLast == (pieces.count == max(1, (body.joined().count + pieceBytes - 1) / pieceBytes)))
        }
        return pieces
    }

    private static func join(_ pieces: [[UInt8]], partsAtMost parts: Int? = nil) throws -> BodyReader {
        var joined = try JoinedBody(BodyReader(bytes: pieces[0]), partsAtMost: parts ?? pieces.count)
        for piece in pieces.dropFirst() { try joined.add(BodyReader(bytes: piece)) }
        return try joined.reader()
    }

    @Test(arguments: [1, 7, 100, 1_024, 5_000, 15_000])
    func `pieces hold together what the body holds, and each has its head`(pieceBytes: Int) throws {
        var encoder = Self.body
        let body = encoder.finish()
        let pieces = try Self.pieces([body], pieceBytes)
        for piece in pieces {
            let reader = try BodyReader(bytes: piece)
            #expect(reader.info == Samples.firstInfo && reader.tables == [200])
            #expect(try #require(try reader.piece()).range.count <= pieceBytes)
        }
        #expect(try Self.join(pieces).bytes == body)
    }

    @Test func `a body that is small enough is not cut`() throws {
        var encoder = Self.body
        let body = encoder.finish()
        #expect(try Self.pieces([body], body.count) == [body])
        #expect(try BodyReader(bytes: body).piece() == nil)
        #expect(try Self.pieces([body], body.count - 1).count == 2)
    }

    @Test func `a large value is not copied into the body, whose buffers come to the same bytes`() throws {
        let value = [UInt8](repeating: 5, count: BodyEncoder.pieceBytes + 3)
        func encode() -> BodyEncoder {
            var body = BodyEncoder(info: Samples.firstInfo)
            body.beginTable(200)
            body.insert([.integer(7), .blob(value), .text(ByteString(value))])
            body.insert([.integer(8), .null, .null])
            return body
        }
        var (streamed, whole) = (encode(), encode())
        let buffers = streamed.finishInPieces()
        #expect(buffers.count { $0.count == value.count } == 2)
        let body = whole.finish()
        #expect(Array(buffers.joined()) == body)
        let changes = try decodeChanges(body)[0].changes.map(\.change)
        #expect(changes == [.insert([.integer(7), .blob(value), .text(ByteString(value))]), .insert([.integer(8), .null, .null])])
        #expect(try Self.join(Self.pieces(buffers, 100_000)).bytes == body)
    }

    @Test func `a piece is not a body: reading it as one is an error`() throws {
        var encoder = Self.body
        for piece in try Self.pieces([encoder.finish()], 2_000) {
            #expect(throws: WireError.badValue("section")) {
                var reader = try BodyReader(bytes: piece)
                _ = try reader.rest()
            }
            #expect(throws: WireError.badValue("section")) { try decodeChanges(piece) }
        }
    }

    @Test func `pieces that lie are refused`() throws {
        var encoder = Self.body
        let body = encoder.finish()
        let pieces = try Self.pieces([body], 4_000)
        #expect(pieces.count == 4)
        let other = try Self.pieces([body], 3_000)
        for wrong in [
            [pieces[1], pieces[2], pieces[3]], [pieces[0], pieces[2], pieces[3]], [pieces[0], pieces[0]], [pieces[0], other[1]],
            pieces + [pieces[3]], [body], [pieces[0], body],
        ] {
            #expect(throws: WireError.badPiece) { try Self.join(wrong) }
        }
        #expect(throws: WireError.truncated) { try Self.join(pieces.dropLast(), partsAtMost: 4) }
        // More than the parts that are there can hold takes no memory.
        #expect(throws: WireError.badPiece) { try Self.join(pieces, partsAtMost: 3) }
        // Another transaction's, or other tables'.
        let head = try BodyReader(bytes: body).headEnd
        let stranger = BodyEncoder(info: Samples.secondInfo)
        var strangers = stranger
        let otherHead = strangers.finish().dropLast()
        let forged = pieces.map { Array(otherHead) + $0[head...] }
        #expect(throws: WireError.badPiece) { try Self.join([pieces[0]] + forged.dropFirst()) }
        #expect(throws: WireError.badPiece) { try Self.join(forged) }
        // Pieces of pieces.
        let nested = try Self.pieces([pieces[0]], 1_000)
        #expect(throws: WireError.badPiece) { try Self.join(nested) }
    }

    @Test func `a piece with absurd numbers is refused`() throws {
        func piece(_ total: Int, _ offset: Int, _ count: Int, _ end: [UInt8] = [0]) -> [UInt8] {
            var body = BodyEncoder(info: Samples.thirdInfo)
            var writer = ByteWriter()
            writer.bytes(body.finish().dropLast())
            writer.byte(BodySection.piece)
            for number in [total, offset, count] { writer.varint(number) }
            writer.bytes([UInt8](repeating: 1, count: min(count, 10)) + end)
            return writer.bytes
        }
        #expect(try BodyReader(bytes: piece(20, 0, 10)).piece()?.total == 20)
        for (total, offset) in [(9, 0), (20, 11), (20, .max), (0, 0)] {
            #expect(throws: WireError.badPiece) { try BodyReader(bytes: piece(total, offset, 10)).piece() }
        }
        #expect(throws: WireError.badPiece) { try BodyReader(bytes: piece(20, 0, 0)).piece() }
        #expect(throws: WireError.truncated) { try BodyReader(bytes: piece(20, 0, .max)).piece() }
        #expect(throws: WireError.badLength) { try BodyReader(bytes: piece(20, 0, 10, [0, 0])).piece() }
        #expect(throws: WireError.badValue("section")) { try BodyReader(bytes: piece(20, 0, 10, [1])).piece() }
        #expect(throws: WireError.tooLarge("body")) {
            try JoinedBody(BodyReader(bytes: piece(WireLimits.maximumBodyBytes + 1, 0, 10)), partsAtMost: .max)
        }
        #expect(throws: WireError.badPiece) {
            try JoinedBody(BodyReader(bytes: piece(WireLimits.maximumBodyBytes, 0, 10)), partsAtMost: WireLimits.maximumParts)
        }
    }

    @Test func `a body takes room as its pieces come, and not for what the first one claims`() throws {
        let first = try BodyReader(bytes: Self.claiming(WireLimits.maximumBodyBytes, of: 1 << 20))
        #expect(try JoinedBody(first, partsAtMost: WireLimits.maximumParts).room <= 16 << 20)
    }

    /// A first piece of a body that is said to be larger.
    private static func claiming(_ total: Int, of bytes: Int) -> [UInt8] {
        var body = BodyEncoder(info: Samples.thirdInfo)
        var writer = ByteWriter()
        writer.bytes(body.finish().dropLast())
        writer.byte(BodySection.piece)
        for number in [total, 0, bytes] { writer.varint(number) }
        writer.bytes([UInt8](repeating: 1, count: bytes))
        writer.byte(BodySection.end)
        return writer.bytes
    }

    @Test(arguments: [61, 62] as [UInt64])
    func `altered pieces are refused, or are another body`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var encoder = Self.body
        let pieces = try Self.pieces([encoder.finish()], 1_500)
        for round in 0..<1_500 {
            var altered = pieces
            let number = Int.random(in: 0..<pieces.count, using: &generator)
            let place = Int.random(in: 0..<(Bool.random(using: &generator) ? 80 : pieces[number].count), using: &generator)
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: altered[number][place] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            case 1: altered[number].remove(at: place)
            case 2: altered[number].replaceSubrange(place...place, with: [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f])
            default: altered.swapAt(number, Int.random(in: 0..<pieces.count, using: &generator))
            }
            do {
                var reader = try Self.join(altered)
                _ = try reader.rest()
            } catch is WireError {
                continue
            } catch {
                Issue.record("seed \(seed), round \(round): \(error)")
            }
        }
    }
}
