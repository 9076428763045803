import AnnalsCore
import Testing

@testable import AnnalsWire

/// Transactions too large for one batch.
@Suite struct PartTests {
    /// Encodes the same changes whole, and in parts of about so many bytes.
    private func bodies(partBytes: Int) -> (whole: [UInt8], parts: [[UInt8]]) {
        var whole = BodyEncoder(info: Samples.firstInfo)
        var cut = BodyEncoder(info: Samples.firstInfo)
        var parts: [[UInt8]] = []
        for round in 0..<50 {
            for (table, changes) in Samples.firstChanges {
                for change in changes {
                    if cut.byteCount >= partBytes { parts.append(Array(cut.finishPart().joined())) }
                    whole.beginTable(table)
                    whole.change(change)
                    cut.beginTable(table)
                    cut.change(change)
                }
            }
            if round == 25 {
                for entry in Samples.journal {
                    if cut.byteCount >= partBytes { parts.append(Array(cut.finishPart().joined())) }
                    whole.journal(entry)
                    cut.journal(entry)
                }
                cut.schema(Samples.schema)
                whole.schema(Samples.schema)
                cut.policies(Samples.policies)
                whole.policies(Samples.policies)
            }
        }
        #expect(cut.changeCount == whole.changeCount)
        parts.append(cut.finish())
        return (whole.finish(), parts)
    }

    private func changes(_ bodies: [[UInt8]]) throws -> [MarkedChange] {
        try bodies.flatMap { try decodeChanges($0).flatMap(\.changes) }
    }

    @Test(arguments: [1, 100, 1_000, 5_000, 1_000_000])
    func `parts hold together what the whole body holds`(partBytes: Int) throws {
        let (whole, parts) = bodies(partBytes: partBytes)
        #expect(parts.count > 1 || partBytes == 1_000_000)
        #expect(try changes(parts) == changes([whole]))
        var journal: [JournalEntry] = []
        for (number, part) in parts.enumerated() {
            var reader = try BodyReader(bytes: part)
            #expect(reader.info == Samples.firstInfo)
            var rest = try reader.rest()
            journal += rest.journal
            rest.journal = []
            let expected = BodyReader.Rest(schema: Samples.schema, policies: Samples.policies)
            #expect(number == parts.count - 1 ? rest == expected : rest == BodyReader.Rest(), "part \(number)")
        }
        #expect(journal == Samples.journal)
        if parts.count == 1 { #expect(parts == [whole]) }
    }

    @Test func `a part says which it is, and its digest covers that`() throws {
        let encoded = try Samples.part(BatchPart(number: 1, count: 3)).finish()
        let header = try Batch.open(encoded.bytes).header
        #expect(header.part == BatchPart(number: 1, count: 3))
        #expect(header.certificates.map(\.digest) == encoded.digests)
        let others = [BatchPart(number: 0, count: 3), BatchPart(number: 1, count: 4), .whole]
        for other in others { #expect(try Samples.part(other).finish().digests != encoded.digests) }
        // The relay cannot hand out a part as a whole transaction, or as another part.
        let place = try #require(encoded.bytes.indices.first { encoded.bytes[$0..<($0 + 2)] == [1, 3] && $0 > 46 })
        for (number, count) in [(0, 1), (2, 3), (1, 2)] as [(UInt8, UInt8)] {
            var bytes = encoded.bytes
            bytes.replaceSubrange(place..<place + 2, with: [number, count])
            Tampering.resign(&bytes)
            #expect(throws: WireError.badDigest(index: 0)) { try Batch.open(bytes) }
        }
    }

    @Test func `what is no part is refused`() throws {
        let encoded = try Samples.part(BatchPart(number: 1, count: 3)).finish()
        let place = try #require(encoded.bytes.indices.first { encoded.bytes[$0..<($0 + 2)] == [1, 3] && $0 > 46 })
        for bad in [[3, 3], [0, 0], [4, 3]] as [[UInt8]] {
            var bytes = encoded.bytes
            bytes.replaceSubrange(place..<place + 2, with: bad)
            Tampering.resign(&bytes)
            #expect(throws: WireError.badValue("part")) { try BatchHeader.parse(bytes) }
        }
        var two = Samples.part(BatchPart(number: 0, count: 2))
        two.append(body: Samples.firstBody, base: .zero, footprint: .everything)
        #expect(throws: WireError.badValue("part")) { try two.finish() }
        let many = Samples.part(BatchPart(number: 0, count: WireLimits.maximumParts + 1))
        #expect(throws: WireError.tooLarge("parts")) { try many.finish() }
    }
}
