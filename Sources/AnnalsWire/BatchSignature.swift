internal import AnnalsCore

/// The message that the author of a batch signs. It has the whole clear part. The clear part contains the digests, and
/// they cover the payload, so the signature covers everything.
///
/// The codec's byte is signed as zero, because voiding changes it. So a voided batch keeps a valid signature.
package enum BatchSignature {
    private static let purpose = Array("annals batch".utf8)

    /// The bytes to sign.
    package static func message(clear: ArraySlice<UInt8>) -> [UInt8] {
        let codec = clear.startIndex + BatchHeader.codecOffset
        return purpose + Digest.sha256(clear[..<codec], [0], clear[(codec + 1)...]).bytes
    }
}

extension BatchHeader {
    /// Checks that the replica in the header signed the batch. The relay's own entries have no signature.
    ///
    /// - Parameter bytes: the batch that this header was read from.
    /// - Throws: `WireError.badSignature`.
    package func checkSignature(in bytes: [UInt8]) throws(WireError) {
        guard replica != .relay else { return }
        let message = BatchSignature.message(clear: bytes[clear])
        guard ReplicaKey.isSigned(message, by: publicKey, signature: bytes[signature]) else { throw .badSignature }
    }
}
