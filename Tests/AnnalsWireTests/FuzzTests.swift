import AnnalsCore
import AnnalsWire
import SeededRandom
import Testing

/// Bytes from elsewhere may be anything. They are refused with a `WireError` or read; nothing else may happen: no
/// trap, no memory for what they merely claim. A failure prints its seed; the same seed gives the same bytes.
@Suite struct FuzzTests {
    private static let rounds = 1_500

    /// A few random edits: bits, bytes, cuts, insertions, absurd numbers, repeated stretches.
    private static func mutate(_ bytes: [UInt8], using generator: inout SeededGenerator) -> [UInt8] {
        var bytes = bytes
        for _ in 0...Int.random(in: 0..<3, using: &generator) where !bytes.isEmpty {
            let place = Int.random(in: 0..<bytes.count, using: &generator)
            switch Int.random(in: 0..<7, using: &generator) {
            case 0: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
            case 1: bytes[place] = .random(in: 0...255, using: &generator)
            case 2: bytes.removeSubrange(place...)
            case 3: bytes.insert(.random(in: 0...255, using: &generator), at: place)
            case 4: bytes.replaceSubrange(place...place, with: [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f])
            case 5: bytes.remove(at: place)
            default:
                let end = min(bytes.count, place + Int.random(in: 1..<40, using: &generator))
                bytes.insert(contentsOf: bytes[place..<end], at: Int.random(in: 0...bytes.count, using: &generator))
            }
        }
        return bytes
    }

    /// Runs `read` and lets only `WireError` pass.
    @discardableResult
    private static func survives(_ comment: @autoclosure () -> String, _ read: () throws -> Void) -> Bool {
        do {
            try read()
            return true
        } catch is WireError {
            return false
        } catch {
            Issue.record("\(comment()): \(error)")
            return false
        }
    }

    /// Reads every change, journal entry and schema entry of a body.
    private static func readBody(_ bytes: [UInt8], range: Range<Int>? = nil) throws {
        var body = try BodyReader(bytes: bytes, range: range)
        var change = WireChange()
        while try body.nextTable() != nil {
            while try body.nextChange(into: &change) { _ = body.markedChange(change) }
        }
        _ = try body.schemaEntry()
    }

    private static func readBatch(_ bytes: [UInt8]) throws {
        let batch = try Batch.open(bytes)
        for index in batch.header.certificates.indices { try readBody(batch.plain, range: batch.bodyRange(index)) }
    }

    @Test(arguments: [11, 12] as [UInt64])
    func `altered bodies`(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let originals = [Samples.firstBody, Samples.secondBody, Samples.thirdBody, Samples.decisionsBody]
        for round in 0..<Self.rounds {
            let bytes = Self.mutate(originals[round % 4], using: &generator)
            Self.survives("seed \(seed), round \(round)") { try Self.readBody(bytes) }
        }
    }

    @Test(arguments: [Codec.plain, .zstd])
    func `altered batches, signed anew so that the checksum does not shield them`(codec: Codec) throws {
        let seed: UInt64 = 21
        var generator = SeededGenerator(seed: seed)
        let originals = try [Samples.batch(codec: codec).bytes, Samples.part(BatchPart(number: 1, count: 3)).finish().bytes]
        for round in 0..<Self.rounds {
            let original = originals[round % 2]
            let bytes = Self.mutate(original, using: &generator)
            guard bytes.count > 8, bytes != original else { continue }
            Self.survives("seed \(seed), round \(round)") { try Self.readBatch(bytes) }
            var signed = bytes
            Tampering.resign(&signed)
            Self.survives("seed \(seed), round \(round), signed") { try Self.readBatch(signed) }
        }
    }

    @Test func `an altered footprint is refused or is another in its only encoding`() {
        let seed: UInt64 = 31
        var generator = SeededGenerator(seed: seed)
        for round in 0..<Self.rounds {
            let bytes = Self.mutate(Samples.footprints[round % 3].encode(), using: &generator)
            Self.survives("seed \(seed), round \(round)") {
                let footprint = try Footprint.decode(bytes)
                #expect(footprint.encode() == bytes, "seed \(seed), round \(round)")
            }
        }
    }

    @Test func `altered pages and answers`() throws {
        let seed: UInt64 = 41
        var generator = SeededGenerator(seed: seed)
        for round in 0..<Self.rounds {
            let page = Self.mutate(Samples.page.encode(), using: &generator)
            Self.survives("seed \(seed), round \(round), page") { _ = try Page.decode(page) }
            let answer = Self.mutate(try Samples.answers[round % Samples.answers.count].answer.encode(), using: &generator)
            Self.survives("seed \(seed), round \(round), answer") { _ = try PushAnswer.decode(answer) }
            // Without a page the checksum is the end, so it can be made to fit.
            var signed = Self.mutate(try Samples.answers[0].answer.encode(), using: &generator)
            guard signed.count > 8 else { continue }
            Tampering.resign(&signed)
            Self.survives("seed \(seed), round \(round), signed answer") { _ = try PushAnswer.decode(signed) }
            signed = Self.mutate(
                Page(lineage: Samples.lineage, head: .zero, horizon: .zero, after: .zero, isLast: true).encode(), using: &generator)
            guard signed.count > 8 else { continue }
            Tampering.resign(&signed)
            Self.survives("seed \(seed), round \(round), signed page") { _ = try Page.decode(signed) }
        }
    }

    @Test func `random bytes`() {
        let seed: UInt64 = 51
        var generator = SeededGenerator(seed: seed)
        for round in 0..<Self.rounds {
            let noise = (0..<Int.random(in: 0..<200, using: &generator)).map { _ in UInt8.random(in: 0...255, using: &generator) }
            Self.survives("seed \(seed), round \(round)") { try Self.readBody(noise) }
            Self.survives("seed \(seed), round \(round)") { try Self.readBatch(Array("ANNB".utf8) + [1] + noise) }
            Self.survives("seed \(seed), round \(round)") { _ = try Page.decode(Array("ANNP".utf8) + [1] + noise) }
            Self.survives("seed \(seed), round \(round)") { _ = try PushAnswer.decode(Array("ANNA".utf8) + [1] + noise) }
            Self.survives("seed \(seed), round \(round)") { _ = try Footprint.decode(noise) }
            Self.survives("seed \(seed), round \(round)") {
                _ = try Compression.decompress([0x28, 0xb5, 0x2f, 0xfd] + noise, expected: 1 << 40)
            }
        }
    }

    @Test func `an absurd number at every place of a batch is refused without memory for it`() throws {
        let original = try Samples.batch(codec: .plain).bytes
        for place in 5..<original.count - 8 {
            for absurd: [UInt8] in [[0xff, 0xff, 0xff, 0xff, 0x0f], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]] {
                var bytes = original
                bytes.replaceSubrange(place...place, with: absurd)
                Tampering.resign(&bytes)
                Self.survives("place \(place)") { try Self.readBatch(bytes) }
            }
        }
    }

    @Test(arguments: [Codec.plain, .zstd])
    func `every flipped bit and every truncation of a batch is noticed`(codec: Codec) throws {
        let bytes = try Samples.batch(codec: codec).bytes
        for bit in 0..<bytes.count * 8 {
            var flipped = bytes
            flipped[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(!Self.survives("bit \(bit)") { try Self.readBatch(flipped) }, "bit \(bit)")
        }
        for count in 0..<bytes.count {
            #expect(!Self.survives("\(count) bytes") { try Self.readBatch(Array(bytes[..<count])) }, "\(count) bytes")
        }
    }

    @Test func `every truncation of a body is noticed, and no flipped bit does harm`() {
        for bytes in [Samples.firstBody, Samples.secondBody, Samples.thirdBody, Samples.decisionsBody] {
            for count in 0..<bytes.count {
                #expect(!Self.survives("\(count) bytes") { try Self.readBody(Array(bytes[..<count])) }, "\(count) bytes")
            }
            for bit in 0..<bytes.count * 8 {
                var flipped = bytes
                flipped[bit / 8] ^= 1 << UInt8(bit % 8)
                Self.survives("bit \(bit)") { try Self.readBody(flipped) }
            }
        }
    }

    @Test func `every truncation of a page and a footprint is noticed`() {
        let page = Samples.page.encode()
        for count in 0..<page.count {
            #expect(!Self.survives("\(count) bytes") { _ = try Page.decode(Array(page[..<count])) }, "\(count) bytes")
        }
        for footprint in Samples.footprints {
            let bytes = footprint.encode()
            for count in 0..<bytes.count {
                #expect(!Self.survives("\(count) bytes") { _ = try Footprint.decode(Array(bytes[..<count])) }, "\(count) bytes")
            }
        }
    }
}
