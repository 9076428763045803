internal import AnnalsCore

/// What the author of a batch signs: all that stands in the clear, and thereby everything, since the digests in it cover the payload.
///
/// A voided batch keeps its signature: the codec's byte, which voiding changes, is signed as zero.
package enum BatchSignature {
    private static let purpose = Array("annals batch".utf8)

    /// The bytes that are signed.
    package static func message(clear: ArraySlice<UInt8>) -> [UInt8] {
        let codec = clear.startIndex + BatchHeader.codecOffset
        return purpose + Digest.sha256(clear[..<codec], [0], clear[(codec + 1)...]).bytes
    }
}

extension BatchHeader {
    /// Whether the replica that the batch names signed it. The relay's own entries are signed by nobody.
    ///
    /// - Parameter bytes: the batch that this header was read from.
    /// - Throws: `WireError.badSignature`.
    package func checkSignature(in bytes: [UInt8]) throws(WireError) {
        guard replica != .relay else { return }
        let message = BatchSignature.message(clear: bytes[clear])
        guard ReplicaKey.isSigned(message, by: publicKey, signature: bytes[signature]) else { throw .badSignature }
    }
}
