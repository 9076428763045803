public import AnnalsCore

/// The result of a replica's comparison of a snapshot, and the log after it, with its own rows.
public struct SnapshotCheck: Sendable, Hashable {
    public var position: Position
    /// SHA-256 of the received bytes of the snapshot. The result applies to exactly these bytes.
    public var digest: Digest
    /// Whether the rows are equal.
    public var isGood: Bool

    public init(position: Position, digest: Digest, isGood: Bool) {
        self.position = position
        self.digest = digest
        self.isGood = isGood
    }
}

/// The same result as JSON.
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

    /// nil if a value is impossible. A position beyond the wire's limit is not refused here: no log has it, and the
    /// relay reports that.
    package var check: SnapshotCheck? {
        guard position >= 0, let digest = Digest(digest) else { return nil }
        return SnapshotCheck(position: Position(position), digest: digest, isGood: good)
    }
}
