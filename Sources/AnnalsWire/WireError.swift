internal import AnnalsCore

/// Why received bytes were refused. Refused bytes have no effect.
public enum WireError: Error, Hashable, Sendable {
    /// The bytes end before the announced length.
    case truncated
    /// The bytes are of another kind, such as another file or an HTML page.
    case badMagic
    /// The bytes changed in transit.
    case badChecksum
    /// A newer version of Annals wrote this version of the format.
    case newerVersion(UInt8)
    /// A version of the format from before the first release. No program reads it any more.
    case olderVersion(UInt8)
    /// Lengths contradict each other, or bytes are left over.
    case badLength
    /// The named part has a value that the format does not allow.
    case badValue(String)
    /// The pieces of a large body do not fit together.
    case badPiece
    /// The named part exceeds its limit in `WireLimits`.
    case tooLarge(String)
    /// The transaction with this index in the batch does not match its digest.
    case badDigest(index: Int)
    /// The payload is sealed under a key that this replica does not have.
    case missingKey(UInt64)
    /// The payload is not sealed, but the space is.
    case notSealed
    /// The sealed or the clear part was altered, or belongs to another space.
    case badSeal
    /// The replica that the batch names as author did not sign it.
    case badSignature
    /// The entries were voided, so there is no payload to open.
    case voided
}

extension WireError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .truncated: "the bytes end too early"
        case .badMagic: "the bytes have another format"
        case .badChecksum: "the checksum does not match"
        case .newerVersion(let version): "format version \(version) is newer than this program supports"
        case .olderVersion(let version): "format version \(version) is older than this program supports"
        case .badLength: "lengths contradict each other"
        case .badValue(let part): "invalid \(part)"
        case .badPiece: "the pieces of a large body do not fit together"
        case .tooLarge(let part): "the limit for \(part) is exceeded"
        case .badDigest(let index): "transaction \(index) of the batch does not match its digest"
        case .missingKey(let key): "encrypted with the key \(SpaceKey.name(of: key))"
        case .notSealed: "not encrypted"
        case .badSeal: "the seal is broken"
        case .badSignature: "the signature does not match the author"
        case .voided: "voided"
        }
    }
}
