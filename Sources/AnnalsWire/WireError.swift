internal import AnnalsCore

/// Why bytes from elsewhere were refused. Nothing is done with bytes that were.
public enum WireError: Error, Hashable, Sendable {
    /// The bytes end before what they announce.
    case truncated
    /// Not of the kind that was expected: another file, or an HTML page.
    case badMagic
    /// A bit changed on the way.
    case badChecksum
    /// A newer Annals wrote this version of the format.
    case newerVersion(UInt8)
    /// A version of the format from before the first release, which nothing reads any more.
    case olderVersion(UInt8)
    /// Lengths that contradict each other, or bytes left over.
    case badLength
    /// The part named holds something the format does not allow.
    case badValue(String)
    /// The part named is beyond its limit in `WireLimits`.
    case tooLarge(String)
    /// The transaction with this index in the batch is not what its digest says.
    case badDigest(index: Int)
    /// The payload is sealed under a key that this replica does not have.
    case missingKey(UInt64)
    /// Not sealed, in a space in which everything is.
    case notSealed
    /// What is sealed, or what stands beside it in the clear, was altered, or is of another space.
    case badSeal
    /// The signature is not one of the replica that the batch names.
    case badSignature
    /// Voided: there is nothing to open.
    case voided
}

extension WireError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .truncated: "the bytes end too early"
        case .badMagic: "the bytes are of another kind"
        case .badChecksum: "the checksum does not match"
        case .newerVersion(let version): "format version \(version) is newer than this program knows"
        case .olderVersion(let version): "format version \(version) is older than this program reads"
        case .badLength: "lengths contradict each other"
        case .badValue(let part): "bad \(part)"
        case .tooLarge(let part): "\(part) beyond the limit"
        case .badDigest(let index): "transaction \(index) of the batch does not match its digest"
        case .missingKey(let key): "sealed under the key \(SpaceKey.name(of: key))"
        case .notSealed: "not sealed"
        case .badSeal: "the seal is broken"
        case .badSignature: "the signature is not its author's"
        case .voided: "voided"
        }
    }
}
