import AnnalsCore
import AnnalsWire
import Testing

@Suite struct VoidedBatchTests {
    @Test func `of a voided batch its clear part is left, and it opens for nobody`() throws {
        let cipher = try Samples.cipher()
        for encoded in try [Samples.batch(codec: .zstd), Samples.encoder(codec: .zstd, cipher: cipher).finish()] {
            let bytes = try Voiding.voided(encoded.bytes)
            let (before, after) = (try BatchHeader.parse(encoded.bytes), try BatchHeader.parse(bytes))
            #expect(after.isVoided && !before.isVoided && after.payload.isEmpty)
            #expect(after.certificates.map(\.digest) == encoded.digests)
            #expect(after.certificates.map(\.footprint) == before.certificates.map(\.footprint))
            #expect(after.keyID == before.keyID && after.replica == before.replica && after.lastCounter == before.lastCounter)
            #expect(throws: WireError.voided) { try Batch.open(bytes) }
            #expect(throws: WireError.voided) { try Batch.open(bytes, cipher: cipher) }
            #expect(try Voiding.voided(bytes) == bytes)
        }
    }

    private static func entry(_ change: (inout BodyEncoder) -> Void = { _ in }) throws -> [UInt8] {
        var body = BodyEncoder(info: Samples.secondInfo)
        change(&body)
        var encoder = BatchEncoder(
            lineage: Samples.lineage, signer: nil, firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 0)
        encoder.layout(ref: 200, Samples.seats)
        encoder.append(body: body.finish(), base: .zero, footprint: .everything)
        return try encoder.finish().bytes
    }

    @Test func `the relay's own entry is in the clear everywhere, and voids and does nothing else`() throws {
        let voids = [VoidedEntry(position: Position(7), digest: .sha256([7]))]
        let entry = try Voiding.entry(
            voids, in: Samples.lineage, counter: Counter(1), previous: .zero, after: Position(9), id: Samples.firstInfo.id, time: 5)
        for cipher in [nil, try Samples.cipher()] {
            var body = try Batch.open(entry.bytes, cipher: cipher).body(0)
            #expect(try body.rest() == BodyReader.Rest(voids: voids))
        }
        #expect(throws: WireError.badValue("void")) { try Batch.open(Self.entry()) }
        #expect(throws: WireError.badValue("void")) {
            try Batch.open(Self.entry { $0.policies(Samples.policies) }, cipher: Samples.cipher())
        }
        #expect(throws: WireError.badValue("void")) {
            try Batch.open(
                Self.entry {
                    $0.beginTable(200)
                    $0.insert([.integer(1), .null, .null])
                })
        }
    }
}
