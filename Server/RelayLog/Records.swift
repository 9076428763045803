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
    /// When the operator retired it, in milliseconds since 1970; zero when never. It counts again once it is seen again.
    package var retired: Int64 = 0
    /// Whose it is, as `ReplicaOwner` tells it; nil when nobody with a token pushed as it yet.
    package var owner: String?

    /// The program by which it was there last, such as `annals/0.1.0`; empty when it never said.
    package var program: String

    /// The newest position that it has: what it acknowledged, and what it pushed right on top of that.
    package var reached: Position

    /// Whether purges and voids wait for it: not for one that only a credential for reading has named, nor for a quarantined owner's.
    package var holdsBack: Bool

    /// Since when its owner is quarantined, in milliseconds since 1970; nil where it is not.
    package var quarantined: Int64?

    /// Its owner, or where it never pushed whose credential named it in a request; nil where neither is known.
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
    /// The file's name within the snapshots' directory.
    var file: String
    /// Bytes of the log up to the position, from the space's beginning on; set when it is recorded.
    var logBytes: Int64 = 0
    /// Who sent it; empty at a relay that is open to everybody.
    var owner = ""
    /// What replicas of other owners found when they compared it with their rows.
    package var verdict = SnapshotVerdict.unchecked
}

/// What is known of a snapshot's rows.
package enum SnapshotVerdict: Sendable, Hashable {
    /// No replica of another owner has compared it.
    case unchecked
    /// A replica of another owner has the same rows.
    case confirmed
    /// A replica of another owner has other rows or cannot use it, and none has confirmed it.
    case refuted
}

/// The last transaction accepted from a replica. It is known for ever, also when the log no longer goes back so far: by it a
/// push whose answer got lost is recognised however late it comes again (law 7).
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

/// That a replica was there, and how far it had come.
struct Sighting: Sendable, Hashable {
    var name: String
    var program = ""
    var position: Position
    var time: Int64
    /// Whether the caller may write, or the relay serves everybody.
    var holdsBack = true
}
