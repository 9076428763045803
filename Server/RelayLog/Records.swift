package import AnnalsCore

/// A replica in the relay's records.
package struct ReplicaRecord: Sendable, Hashable {
    package var replica: ReplicaID
    /// The name that the replica gave itself; empty if it gave none.
    package var name: String
    /// The counter of its last accepted transaction; zero if it never pushed.
    package var counter: Counter
    /// The newest position that it acknowledged: by a pull of the entries after it, or by a push with this base.
    package var position: Position
    /// Milliseconds since 1970.
    package var lastSeen: Int64
    /// When the operator retired it, in milliseconds since 1970; zero if never. A replica that is seen later is live
    /// again.
    package var retired: Int64 = 0
    /// Its owner, as `ReplicaOwner.text`; nil if no owner has pushed as it yet.
    package var owner: String?

    /// The program of its last request, such as `annals/0.1.0`; empty if it never named one.
    package var program: String

    /// The newest position that it has: what it acknowledged, and what it pushed directly after that.
    package var reached: Position

    /// Whether purges and voids wait for it. They do not wait for a replica that only a read-only credential named, or
    /// of a quarantined owner.
    package var holdsBack: Bool

    /// When its owner was quarantined, in milliseconds since 1970; nil if it is not.
    package var quarantined: Int64?

    /// Its owner, or, if it never pushed, the credential that named it in a request; nil if neither is known.
    package var credential: String?

    package var isRetired: Bool { retired > 0 && retired >= lastSeen }

    package init(
        replica: ReplicaID, name: String, counter: Counter, position: Position, lastSeen: Int64, retired: Int64 = 0,
        owner: String? = nil, program: String = "", reached: Position? = nil, holdsBack: Bool = true,
        quarantined: Int64? = nil, credential: String? = nil
    ) {
        self.replica = replica
        self.name = name
        self.counter = counter
        self.position = position
        self.lastSeen = lastSeen
        self.retired = retired
        self.owner = owner
        self.program = program
        self.reached = reached ?? position
        self.holdsBack = holdsBack
        self.quarantined = quarantined
        self.credential = credential
    }
}

/// A snapshot as recorded.
package struct SnapshotRecord: Sendable, Hashable {
    package var position: Position
    package var byteCount: Int64
    package var digest: Digest
    /// The name of the file in the snapshot directory.
    var file: String
    /// Bytes of the log up to the position, since the space was created; set when the snapshot is recorded.
    var logBytes: Int64 = 0
    /// The owner that uploaded it; empty on an open relay.
    var owner = ""
    /// The result of comparisons by replicas of other owners.
    package var verdict = SnapshotVerdict.unchecked
}

/// What is known about a snapshot's rows.
package enum SnapshotVerdict: Sendable, Hashable {
    /// No replica of another owner has compared it.
    case unchecked
    /// A replica of another owner has the same rows.
    case confirmed
    /// A replica of another owner has different rows or cannot use it, and none has confirmed it.
    case refuted
}

/// The last accepted transaction of a replica. It is kept forever, also after the log is purged. With it the relay
/// recognises a repeated push after a lost answer, however late it comes (law 7).
package struct LastAccepted: Sendable, Hashable {
    package var counter: Counter
    package var digest: Digest
    package var position: Position

    package init(counter: Counter, digest: Digest, position: Position = .zero) {
        self.counter = counter
        self.digest = digest
        self.position = position
    }

    package static let none = LastAccepted(counter: .zero, digest: .zero)
}

/// A replica was seen, and had reached a position.
struct ReplicaAcknowledgement: Sendable, Hashable {
    var name: String
    var program = ""
    var position: Position
    var time: Int64
    /// Whether the caller can write, or the relay is open.
    var holdsBack = true
}
