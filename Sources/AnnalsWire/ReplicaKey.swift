package import AnnalsCore
internal import Crypto

/// The Ed25519 key pair (RFC 8032) of a replica. The replica signs its pushes with it.
///
/// The id of a replica is a digest of its public key. So anyone with a batch can verify its author. No list of keys
/// must be stored, ordered or distributed. Neither a relay nor another member of the space can write in the name of a
/// replica.
///
///     let key = ReplicaKey.random()
///     var batch = BatchEncoder(lineage: lineage, signer: key, firstCounter: counter, previousDigest: digest, schemaVersion: 1)
package struct ReplicaKey: Sendable {
    package static let byteCount = 32
    package static let publicByteCount = 32
    package static let signatureByteCount = 64

    /// The secret key, 32 bytes.
    package let bytes: [UInt8]
    package let publicBytes: [UInt8]
    /// The replica that signs with this key.
    package let replica: ReplicaID
    private let key: Curve25519.Signing.PrivateKey

    /// nil if there are not exactly 32 bytes.
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

    /// A key from the system's random number generator.
    package static func random() -> ReplicaKey { ReplicaKey(Curve25519.Signing.PrivateKey()) }

    /// The replica of a public key: the first 16 bytes of a SHA-256, with the version and variant bits of a UUID of
    /// version 8 (RFC 9562).
    package static func replica(of publicBytes: [UInt8]) -> ReplicaID {
        var bytes = Array(Digest.sha256(Array("annals replica".utf8)[...], publicBytes[...]).bytes.prefix(16))
        bytes[6] = bytes[6] & 0x0f | 0x80
        bytes[8] = bytes[8] & 0x3f | 0x80
        return ReplicaID(bytes: bytes) ?? .relay
    }

    /// Signs a message.
    ///
    /// - Throws: `WireError.badSignature` if the cryptographic library fails.
    package func sign(_ message: [UInt8]) throws(WireError) -> [UInt8] {
        guard let signature = try? key.signature(for: message) else { throw .badSignature }
        return [UInt8](signature)
    }

    /// Whether the secret key of this public key signed the message.
    package static func isSigned(_ message: [UInt8], by publicBytes: [UInt8], signature: ArraySlice<UInt8>) -> Bool {
        guard let key = try? Curve25519.Signing.PublicKey(rawRepresentation: publicBytes) else { return false }
        return key.isValidSignature(Array(signature), for: message)
    }
}
