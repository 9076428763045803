public import AnnalsCore

/// What a replica found when it compared a snapshot, and the log after it, with its own rows.
public struct SnapshotCheck: Sendable, Hashable {
    public var position: Position
    /// SHA-256 of the snapshot's bytes as they came: the word is about these and no others.
    public var digest: Digest
    /// The rows are the same.
    public var isGood: Bool

    public init(position: Position, digest: Digest, isGood: Bool) {
        self.position = position
        self.digest = digest
        self.isGood = isGood
    }
}

/// The same as JSON.
package struct SnapshotCheckRequest: Codable, Sendable, Hashable {
    package static let members: Set = ["position", "digest", "good"]

    package var position: Int64
    /// Hexadecimal.
    package var digest: String
    package var good: Bool

    package init(_ check: SnapshotCheck) {
        position = check.position.rawValue
        digest = check.digest.description
        good = check.isGood
    }

    /// nil where a value is none that can be. No log has a position beyond the wire's limit, and the relay says so.
    package var check: SnapshotCheck? {
        guard position >= 0, let digest = Digest(digest) else { return nil }
        return SnapshotCheck(position: Position(position), digest: digest, isGood: good)
    }
}
