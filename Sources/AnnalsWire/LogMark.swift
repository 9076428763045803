public import AnnalsCore

/// What a replica has seen of a log. With it a relay can check that it still has the same log (merge rule 41).
///
/// The running digest of a log is 32 zero bytes before its first entry. After an entry it is the SHA-256 of the running
/// digest before the entry and the entry's own digest. A relay that was restored from an older backup and then got
/// other entries has another running digest.
public struct LogMark: Hashable, Sendable {
    public var lineage: Lineage
    public var position: Position
    /// The running digest at `position`. nil if it is not known.
    public var digest: Digest?
    /// The replica that has seen it. nil for a reader without a replica id, such as a copy that is only made to compare
    /// rows.
    public var replica: ReplicaID?

    public init(lineage: Lineage, position: Position = .zero, digest: Digest? = nil, replica: ReplicaID? = nil) {
        self.replica = replica
        self.lineage = lineage
        self.position = position
        self.digest = digest
    }

    /// The value of the header `Annals-Seen`: the position, a hyphen, the running digest in hexadecimal.
    public var headerValue: String? {
        digest.map { "\(position)-\($0)" }
    }

    /// nil if the text is not a valid header value.
    public init?(lineage: Lineage, headerValue text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, let position = Int64(parts[0]).flatMap(Position.init(fromElsewhere:)), let digest = Digest(String(parts[1]))
        else { return nil }
        self.init(lineage: lineage, position: position, digest: digest)
    }
}

extension Digest {
    /// The running digest after `entry`. This digest is the running digest before it.
    package func following(_ entry: Digest) -> Digest {
        Digest.sha256(bytes[...], entry.bytes[...])
    }
}
