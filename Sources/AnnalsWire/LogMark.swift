public import AnnalsCore

/// What a replica has seen of a log: enough for a relay to tell whether it still has the same one (merge rule 41).
///
/// The running digest of a log is 32 zero bytes before its first entry, and then SHA-256 of the running digest before an
/// entry and that entry's own digest. A relay that was restored from an older backup and went on from there has another.
public struct LogMark: Hashable, Sendable {
    public var lineage: Lineage
    public var position: Position
    /// The running digest at `position`; nil where it is not known.
    public var digest: Digest?
    /// Who has seen it; nil for whoever is no replica of its own, such as a copy made to compare rows with.
    public var replica: ReplicaID?

    public init(lineage: Lineage, position: Position = .zero, digest: Digest? = nil, replica: ReplicaID? = nil) {
        self.replica = replica
        self.lineage = lineage
        self.position = position
        self.digest = digest
    }

    /// As it stands in the header `Annals-Seen`: the position, a hyphen, the running digest in hexadecimal.
    public var headerValue: String? {
        digest.map { "\(position)-\($0)" }
    }

    /// nil when the text is no header value.
    public init?(lineage: Lineage, headerValue text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, let position = Int64(parts[0]).flatMap(Position.init(fromElsewhere:)), let digest = Digest(String(parts[1]))
        else { return nil }
        self.init(lineage: lineage, position: position, digest: digest)
    }
}

extension Digest {
    /// The running digest of a log behind an entry, where this is the one before it.
    package func following(_ entry: Digest) -> Digest {
        Digest.sha256(bytes[...], entry.bytes[...])
    }
}
