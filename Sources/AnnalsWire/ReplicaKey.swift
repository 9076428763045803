package import AnnalsCore
internal import Crypto

/// The Ed25519 key pair (RFC 8032) with which a replica signs what it pushes.
///
/// The id of a replica is a digest of its public key. So everybody who has a batch can check whose it is: nobody has to keep, order or
/// hand on a list of keys, and neither a relay nor another member of the space can write in a replica's name.
///
///     let key = ReplicaKey.random()
///     var batch = BatchEncoder(lineage: lineage, signer: key, firstCounter: counter, previousDigest: digest, schemaVersion: 1)
package struct ReplicaKey: Sendable {
    package static let byteCount = 32
    package static let publicByteCount = 32
    package static let signatureByteCount = 64

    /// The secret: 32 bytes.
    package let bytes: [UInt8]
    package let publicBytes: [UInt8]
    /// Who signs with it.
    package let replica: ReplicaID
    private let key: Curve25519.Signing.PrivateKey

    /// nil unless there are exactly 32 bytes.
    package init?(bytes: [UInt8]) {
        guard bytes.count == Self.byteCount, let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: bytes) else { return nil }
        self.bytes = bytes
        self.key = key
        publicBytes = [UInt8](key.publicKey.rawRepresentation)
        replica = Self.replica(of: publicBytes)
    }

    private init(_ key: Curve25519.Signing.PrivateKey) {
        self.key = key
        bytes = [UInt8](key.rawRepresentation)
        publicBytes = [UInt8](key.publicKey.rawRepresentation)
        replica = Self.replica(of: publicBytes)
    }

    /// A key from the system's randomness.
    package static func random() -> ReplicaKey { ReplicaKey(Curve25519.Signing.PrivateKey()) }

    /// Which replica a public key belongs to: the first 16 bytes of a SHA-256, with the bits that make them a UUID of version 8 (RFC 9562).
    package static func replica(of publicBytes: [UInt8]) -> ReplicaID {
        var bytes = Array(Digest.sha256(Array("annals replica".utf8)[...], publicBytes[...]).bytes.prefix(16))
        bytes[6] = bytes[6] & 0x0f | 0x80
        bytes[8] = bytes[8] & 0x3f | 0x80
        return ReplicaID(bytes: bytes) ?? .relay
    }

    /// The signature of a message.
    ///
    /// - Throws: `WireError.badSignature` where the cryptographic library fails.
    package func sign(_ message: [UInt8]) throws(WireError) -> [UInt8] {
        guard let signature = try? key.signature(for: message) else { throw .badSignature }
        return [UInt8](signature)
    }

    /// Whether a message was signed with the secret of this public key.
    package static func isSigned(_ message: [UInt8], by publicBytes: [UInt8], signature: ArraySlice<UInt8>) -> Bool {
        guard let key = try? Curve25519.Signing.PublicKey(rawRepresentation: publicBytes) else { return false }
        return key.isValidSignature(Array(signature), for: message)
    }
}
