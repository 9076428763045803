import AnnalsCore
import AnnalsWire
import Testing

/// Everybody who has a batch can tell whose it is, and nobody can write in another's name.
@Suite struct SignatureTests {
    @Test func `a batch names its author by the key that signed it`() throws {
        let bytes = try Samples.batch(codec: .zstd).bytes
        let header = try BatchHeader.parse(bytes)
        #expect(header.replica == Samples.key.replica && header.publicKey == Samples.key.publicBytes)
        #expect(header.seen == Samples.seen)
        try header.checkSignature(in: bytes)
    }

    @Test func `every altered bit of the clear part or the signature is noticed, also under a right checksum`() throws {
        let original = try Samples.batch(codec: .plain).bytes
        let header = try BatchHeader.parse(original)
        for place in 5..<header.signature.upperBound where place != BatchHeaderPlaces.codec {
            var bytes = original
            bytes[place] ^= 1 << UInt8(place % 8)
            Tampering.resign(&bytes)
            #expect(throws: WireError.self, "byte \(place)") { try BatchHeader.parse(bytes).checkSignature(in: bytes) }
        }
    }

    @Test func `nobody signs as another replica`() throws {
        var bytes = try Samples.batch(codec: .plain).bytes
        let header = try BatchHeader.parse(bytes)
        let other = Samples.signingKey(0x51)
        let signature = try other.sign(BatchSignature.message(clear: bytes[header.clear]))
        bytes.replaceSubrange(header.signature, with: signature)
        Tampering.resign(&bytes)
        #expect(throws: WireError.badSignature) { try BatchHeader.parse(bytes).checkSignature(in: bytes) }
    }

    @Test func `what is voided keeps its author's signature, and the relay's own entries have none`() throws {
        let voided = try Voiding.voided(Samples.batch(codec: .zstd).bytes)
        try BatchHeader.parse(voided).checkSignature(in: voided)
        let entry = try Voiding.entry(
            [VoidedEntry(position: Position(1), digest: .zero)], in: Samples.lineage, counter: Counter(1), previous: .zero,
            after: Position(4), id: Samples.firstInfo.id, time: 0
        ).bytes
        let header = try BatchHeader.parse(entry)
        #expect(header.replica == .relay && header.publicKey.allSatisfy { $0 == 0 })
        try header.checkSignature(in: entry)
        var signed = entry
        signed[header.signature.lowerBound] = 1
        Tampering.resign(&signed)
        #expect(throws: WireError.badSignature) { try BatchHeader.parse(signed) }
    }

    @Test func `no base lies beyond what the author says that it has seen`() throws {
        var encoder = BatchEncoder(
            lineage: Samples.lineage, signer: Samples.key, seen: SeenLog(position: Position(4), digest: .sha256([4])),
            firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 1)
        encoder.layout(ref: 200, Samples.seats)
        encoder.append(body: Samples.secondBody, base: Position(5), footprint: Footprint())
        let bytes = try encoder.finish().bytes
        #expect(throws: WireError.badValue("base")) { try BatchHeader.parse(bytes) }
    }

    @Test func `an answer whose positions do not ascend is an error and no trap`() {
        for positions in [[Position(3), Position(3)], [Position(4), Position(2)], [.zero]] {
            let answer = PushAnswer(
                outcome: .accepted, to: Samples.pushName, positions: positions, lineage: Samples.lineage, head: Position(9), receivedAt: 1)
            #expect(throws: WireError.badValue("position")) { try answer.encode() }
        }
    }

    @Test func `an answer names the push that it belongs to`() throws {
        let bytes = try Samples.batch(codec: .plain).bytes
        let header = try BatchHeader.parse(bytes)
        let name = try PushName(of: bytes)
        #expect(name == PushName(replica: header.replica, firstCounter: Counter(41), lastDigest: header.certificates[2].digest))
        let answer = PushAnswer(outcome: .gap, to: name, lineage: Samples.lineage, head: Position(9), receivedAt: 1)
        #expect(try PushAnswer.decode(answer.encode()).push == name)
    }
}

/// Where things stand in a batch, for tests that alter them.
private enum BatchHeaderPlaces {
    /// Behind magic and version; it is signed as zero.
    static let codec = 5
}
