@testable import AnnalsCore
@testable import AnnalsWire

/// Batches as replicas push them and relays deliver them.
enum BatchFuzzing {
    static let target = FuzzTarget("batch", seeds: { try $0.files("batch") }) { bytes in
        try? read(bytes)
        try read(try Mending.batch(bytes))
    }

    private static func read(_ bytes: [UInt8]) throws(WireError) {
        let header = try BatchHeader.parse(bytes)
        _ = try? header.checkSignature(in: bytes)
        _ = header.pushName
        for index in header.certificates.indices { _ = (header.counter(of: index), header.previousDigest(of: index)) }
        voidIt(bytes, header)
        do throws(WireError) {
            let batch = try Batch.open(bytes)
            for index in batch.header.certificates.indices { try? DecodedBody(batch.plain, batch.bodyRange(index)).expectRoundTrip() }
        } catch .missingKey {
            _ = try Batch.open(bytes, cipher: SealedSpace.cipher)
        }
    }

    private static func voidIt(_ bytes: [UInt8], _ header: BatchHeader) {
        guard let voided = try? Voiding.voided(bytes), let there = try? BatchHeader.parse(voided) else {
            return expect(false, "a batch whose header can be read can be voided")
        }
        expect(there.isVoided && there.certificates == header.certificates, "voiding keeps the certificates")
        expect(
            BatchSignature.message(clear: voided[there.clear]) == BatchSignature.message(clear: bytes[header.clear]),
            "voiding keeps what was signed")
    }
}

/// The space of the encrypted fixtures.
enum SealedSpace {
    static let cipher: SpaceCipher? = SpaceKey(bytes: (0..<32).map { $0 }).flatMap { key in
        SpaceName("shop").map { SpaceKeyRing(key).cipher(for: $0) }
    }
}
