import AnnalsCore
import AnnalsWire
import Testing

/// What a relay keeps of a sealed space opens for who has the key, and only as it was sent.
@Suite struct SealedBatchTests {
    private static func batch(
        _ cipher: SpaceCipher?, codec: Codec = .zstd, key: ReplicaKey = Samples.key, counter: Int64 = 41, note: String = "a"
    ) throws -> EncodedBatch {
        var body = BodyEncoder(info: Samples.firstInfo)
        body.beginTable(200)
        body.insert([.integer(7), .text(ByteString(Array(note.utf8))), .text("secret secret secret secret secret secret secret")])
        var encoder = BatchEncoder(
            lineage: Samples.lineage, signer: key, firstCounter: Counter(counter), previousDigest: .sha256([1]), schemaVersion: 1,
            codec: codec, cipher: cipher)
        encoder.layout(ref: 200, Samples.seats)
        encoder.append(body: body.finish(), base: Position(5), footprint: Footprint(keyID: cipher?.keyID ?? 0))
        return try encoder.finish()
    }

    @Test(arguments: [Codec.plain, .zstd])
    func `a sealed batch opens to what was sealed, and shows nothing of it`(codec: Codec) throws {
        let cipher = try Samples.cipher()
        let sealed = try Self.batch(cipher, codec: codec)
        let batch = try Batch.open(sealed.bytes, cipher: cipher)
        #expect(batch.header.keyID == Samples.spaceKey.id && batch.header.codec == codec)
        #expect(try batch.plain == Batch.open(Self.batch(nil).bytes).plain)
        #expect(batch.header.certificates.map(\.digest) == sealed.digests)
        for word in ["secret", "seats", "Ada", "form"] { #expect(sealed.bytes.firstRange(of: Array(word.utf8)) == nil, "\(word)") }
    }

    @Test func `law 7: the same batch is sealed into the same bytes`() throws {
        let cipher = try Samples.cipher()
        #expect(try Self.batch(cipher) == Self.batch(Samples.cipher()))
        let samples = Samples.encoder(codec: .zstd, cipher: cipher)
        #expect(try samples.finish() == samples.finish())
    }

    @Test func `what is sealed under one counter twice with other content has nothing in common`() throws {
        let cipher = try Samples.cipher()
        let bytes = try ["a", "b"].map { try Self.batch(cipher, codec: .plain, note: $0).bytes }
        let payloads = try bytes.map { Array($0[try BatchHeader.parse($0).payload].dropFirst(32)) }
        #expect(payloads[0].count == payloads[1].count)
        let equal = zip(payloads[0], payloads[1]).count { $0 == $1 }
        #expect(equal < payloads[0].count / 16, "\(equal) of \(payloads[0].count) bytes are equal")
    }

    @Test func `a digest tells nothing to who tries out what was digested`() throws {
        #expect(try Self.batch(Samples.cipher()).digests != Self.batch(nil).digests)
        #expect(try Self.batch(Samples.cipher()).digests != Self.batch(Samples.cipher([Samples.otherKey])).digests)
    }

    @Test(arguments: [Codec.plain, .zstd])
    func `every bit that is altered is noticed, also under a right checksum`(codec: Codec) throws {
        let cipher = try Samples.cipher()
        let original = try Self.batch(cipher, codec: codec).bytes
        for place in 0..<original.count - 8 {
            for bit in 0..<8 {
                var bytes = original
                bytes[place] ^= 1 << UInt8(bit)
                Tampering.resign(&bytes)
                #expect(throws: WireError.self, "bit \(bit) of byte \(place)") {
                    try Batch.open(bytes, cipher: cipher).header.checkSignature(in: bytes)
                }
            }
        }
    }

    /// Puts the payload of one batch into the other.
    private static func swap(_ payload: [UInt8], into clear: [UInt8]) throws -> [UInt8] {
        let (from, to) = (try BatchHeader.parse(payload).payload, try BatchHeader.parse(clear).payload)
        #expect(from.count == to.count)
        var bytes = clear
        bytes.replaceSubrange(to, with: payload[from])
        Tampering.resign(&bytes)
        return bytes
    }

    @Test func `a payload belongs to its counter and its replica`() throws {
        let cipher = try Samples.cipher()
        let one = try Self.batch(cipher, codec: .plain).bytes
        for other in try [
            Self.batch(cipher, codec: .plain, counter: 42).bytes, Self.batch(cipher, codec: .plain, key: Samples.signingKey(0x51)).bytes,
            Self.batch(cipher, codec: .plain, note: "b").bytes,
        ] {
            #expect(throws: WireError.badSeal) { try Batch.open(Self.swap(one, into: other), cipher: cipher) }
            #expect(throws: WireError.badSeal) { try Batch.open(Self.swap(other, into: one), cipher: cipher) }
        }
    }

    @Test func `a batch belongs to its space`() throws {
        let bytes = try Self.batch(Samples.cipher()).bytes
        #expect(throws: WireError.badSeal) { try Batch.open(bytes, cipher: Samples.cipher(space: "other")) }
    }

    @Test func `without a key, with another, and unsealed where all is sealed`() throws {
        let (cipher, other) = (try Samples.cipher(), try Samples.cipher([Samples.otherKey]))
        let (sealed, plain) = (try Self.batch(cipher).bytes, try Self.batch(nil).bytes)
        #expect(throws: WireError.missingKey(Samples.spaceKey.id)) { try Batch.open(sealed) }
        #expect(throws: WireError.missingKey(Samples.spaceKey.id)) { try Batch.open(sealed, cipher: other) }
        #expect(throws: WireError.notSealed) { try Batch.open(plain, cipher: cipher) }
        // Who claims another key's id has not its bytes.
        var claimed = sealed
        withUnsafeBytes(of: Samples.otherKey.id.littleEndian) { claimed.replaceSubrange(6..<14, with: $0) }
        Tampering.resign(&claimed)
        #expect(throws: WireError.badSeal) { try Batch.open(claimed, cipher: Samples.cipher([Samples.spaceKey, Samples.otherKey])) }
    }

    @Test func `the last key of a file seals, and every one opens`() throws {
        let both = try Samples.cipher([Samples.spaceKey, Samples.otherKey])
        #expect(both.keyID == Samples.otherKey.id && both.footprintKey.id == Samples.otherKey.id)
        let (old, new) = (try Self.batch(Samples.cipher()).bytes, try Self.batch(both).bytes)
        #expect(try BatchHeader.parse(new).keyID == Samples.otherKey.id)
        for bytes in [old, new] { #expect(try Batch.open(bytes, cipher: both).header.certificates.count == 1) }
        #expect(throws: WireError.missingKey(Samples.otherKey.id)) { try Batch.open(new, cipher: Samples.cipher()) }
    }

    @Test func `a key file is a key a line, and an error repeats nothing of it`() throws {
        let (one, two) = (Samples.spaceKey.line, Samples.otherKey.line)
        let ring = try SpaceKeyRing(text: "# ours\r\n\(one)\r\n\n  \(two)  \n#")
        #expect(ring.keys == [Samples.spaceKey, Samples.otherKey] && ring.sealing == Samples.otherKey)
        #expect(ring.key(Samples.spaceKey.id) == Samples.spaceKey && ring.key(7) == nil)
        #expect(throws: SpaceKeyError.empty) { try SpaceKeyRing(text: "# nothing\n") }
        for bad in [String(one.dropLast(2)), one + "A", "annals-key-2:" + one.dropFirst(13), "secret", String(one.dropFirst(13))] {
            #expect(throws: SpaceKeyError.badLine(2)) { try SpaceKeyRing(text: "\(two)\n\(bad)") }
        }
        #expect(!"\(SpaceKeyError.badLine(2)) \(Samples.spaceKey) \(ring)".contains(one.dropFirst(13)))
        #expect(!String(reflecting: ring).contains(one.dropFirst(13)))
        #expect(SpaceKey.random() != SpaceKey.random())
        #expect(Samples.spaceKey.id != 0 && Samples.spaceKey.id != Samples.otherKey.id)
    }

    @Test func `keys of footprints are each space's own`() throws {
        let keys = try [Samples.cipher(), Samples.cipher(space: "other"), Samples.cipher([Samples.otherKey])].map(\.footprintKey)
        #expect(Set(keys.map { "\($0.low) \($0.high)" }).count == 3)
        #expect(keys[0].id == keys[1].id && keys[0] != .none)
        let hashes = keys.map { FootprintHash(key: $0).rowHash(table: "seats", key: [.integer(1)]) }
        #expect(Set(hashes + [FootprintHash().rowHash(table: "seats", key: [.integer(1)])]).count == 4)
    }

    @Test func `a payload that would be longer than can be counted is refused, whatever the limits are`() throws {
        var batch = BatchEncoder(
            lineage: Samples.lineage, signer: Samples.key, firstCounter: Counter(1), previousDigest: .zero, schemaVersion: 1, codec: .plain,
            cipher: try Samples.cipher())
        batch.append(body: Samples.thirdBody, base: .zero, footprint: Samples.footprints[0])
        var bytes = try batch.finish().bytes
        let header = try BatchHeader.parse(bytes)
        // The clear part ends with the length, which takes two bytes.
        var length = ByteWriter()
        length.varint(Int.max)
        bytes.replaceSubrange(header.clear.upperBound - 2..<header.clear.upperBound, with: length.bytes)
        bytes.removeLast(8)
        bytes += Digest.sha256(bytes[...]).bytes.prefix(8)
        #expect(throws: WireError.tooLarge("payload")) { try BatchHeader.parse(bytes) }
        let limits = BatchLimits(batchBytes: .max, plainBytes: .max, transactions: .max)
        #expect(throws: WireError.badLength) { try BatchHeader.parse(bytes, limits: limits) }
    }
}
