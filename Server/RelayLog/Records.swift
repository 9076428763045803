package import AnnalsCore

/// A replica as the relay knows it.
package struct ReplicaRecord: Sendable, Hashable {
    package var replica: ReplicaID
    /// The name it gave itself; empty when it never did.
    package var name: String
    /// Of its last accepted transaction; zero when it never pushed.
    package var counter: Counter
    /// The newest position it has acknowledged by asking for what follows, or by pushing on top of it.
    package var position: Position
    /// Milliseconds since 1970.
    package var lastSeen: Int64
}

/// A space's newest snapshot as recorded.
package struct SnapshotRecord: Sendable, Hashable {
    package var position: Position
    package var byteCount: Int64
    package var digest: Digest
    /// The file's name within the snapshots' directory.
    var file: String
}

/// The counter and digest of the last transaction accepted from a replica.
package struct LastAccepted: Sendable, Hashable {
    package var counter: Counter
    package var digest: Digest

    package static let none = LastAccepted(counter: .zero, digest: .zero)
}

/// That a replica was there, and how far it had come.
struct Sighting: Sendable, Hashable {
    var name: String
    var position: Position
    var time: Int64
}
