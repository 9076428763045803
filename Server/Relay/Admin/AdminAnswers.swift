internal import AnnalsCore
internal import AnnalsWire
internal import RelayLog

// What the operator's endpoints answer, as JSON. Times are milliseconds since 1970; what is unknown is left out.

struct SpaceList: Encodable {
    var spaces: [Space]
    /// Whether there are no more behind these.
    var isLast: Bool
    /// The relay's clock.
    var time: Int64

    struct Space: Encodable {
        var space: String
        var lineage: Lineage
        var head: Position
        var horizon: Position
        var created: Int64
        /// Of the batches that are kept.
        var logBytes: Int64
        var snapshot: SpaceDescription.Snapshot?
        var snapshots: Int64
        var snapshotBytes: Int64
        var replicas: Int64
        /// Owners that may read and not write.
        var quarantined: [Quarantined]
        var lastPush: Int64?
        /// Days on which something came, oldest first.
        var days: [Day]

        init(_ summary: SpaceSummary) {
            space = summary.description.space
            lineage = summary.description.lineage
            head = summary.description.head
            horizon = summary.description.horizon
            created = summary.created
            logBytes = summary.logBytes
            snapshot = summary.description.snapshot
            snapshots = summary.snapshots
            snapshotBytes = summary.snapshotBytes
            replicas = summary.replicas
            quarantined = summary.quarantines.map(Quarantined.init)
            lastPush = summary.lastPush
            days = summary.days.map(Day.init)
        }
    }

    struct Quarantined: Encodable {
        var owner: String
        var since: Int64

        init(_ quarantine: Quarantine) {
            owner = ReplicaOwner.shown(quarantine.owner)
            since = quarantine.since
        }
    }

    struct Day: Encodable {
        /// When the day begins, by universal time.
        var begins: Int64
        var bytes: Int64
        var positions: Int64

        init(_ day: DayOfGrowth) {
            begins = day.day * DayOfGrowth.milliseconds
            bytes = day.bytes
            positions = day.positions
        }
    }
}

struct ReplicaList: Encodable {
    var head: Position
    var replicas: [Replica]
    var time: Int64

    struct Replica: Encodable {
        var replica: ReplicaID
        var name: String
        var program: String
        /// The newest that it has acknowledged.
        var position: Position
        /// How many positions it has not taken in, as far as the relay knows.
        var lag: Int64
        var counter: Int64
        var lastSeen: Int64
        /// When it was retired; left out for one that counts.
        var retired: Int64?
        /// `token 3`, or a provider's subject; left out where it is nobody's.
        var owner: String?
        /// Since when its owner may not write; left out where it may.
        var quarantined: Int64?

        init(_ record: ReplicaRecord, head: Position) {
            replica = record.replica
            name = record.name
            program = record.program
            position = record.position
            lag = max(0, head.rawValue - record.reached.rawValue)
            counter = record.counter.rawValue
            lastSeen = record.lastSeen
            retired = record.isRetired ? record.retired : nil
            owner = record.owner.map(ReplicaOwner.shown)
            quarantined = record.quarantined
        }
    }
}

struct PushList: Encodable {
    var pushes: [Push]
    var time: Int64

    struct Push: Encodable {
        /// Of its first transaction.
        var position: Position
        var count: Int64
        var bytes: Int64
        var received: Int64
        var replica: ReplicaID
        var name: String

        init(_ record: PushRecord) {
            position = record.position
            count = record.count
            bytes = record.bytes
            received = record.received
            replica = record.replica
            name = record.name
        }
    }
}

struct PurgeAnswer: Encodable {
    var dryRun: Bool
    /// The log began after this position before.
    var before: Position
    /// And begins, or would begin, after this one.
    var horizon: Position
    var head: Position
    var positions: Int64
    var bytes: Int64
    var snapshots: Int
    var newestSnapshot: Position?
    /// A snapshot that would let more go, were it confirmed by a replica of another owner.
    var unconfirmedSnapshot: Position?
    /// Live replicas that have not come to the newest snapshot.
    var holding: [ReplicaList.Replica]

    init(_ outcome: PurgeOutcome, dryRun: Bool) {
        self.dryRun = dryRun
        before = outcome.before
        horizon = outcome.horizon
        head = outcome.head
        positions = outcome.positions
        bytes = outcome.positions > 0 ? outcome.bytes : 0
        snapshots = outcome.snapshots
        newestSnapshot = outcome.newestSnapshot
        unconfirmedSnapshot = outcome.unconfirmed?.position
        holding = outcome.holding.map { .init($0, head: outcome.head) }
    }
}

/// What the sender may administer.
struct AccessAnswer: Encodable {
    /// Left out where it is all of them.
    var space: String?
    /// The token's number; left out where the relay is open.
    var token: Int64?
    var expires: Int64?
    var time: Int64
}

struct TokenList: Encodable {
    var tokens: [TokenAnswer]
    var time: Int64
}

struct TokenAnswer: Encodable {
    var id: Int64
    var label: String
    var space: String?
    var scope: String
    var created: Int64
    var expires: Int64?
    var revoked: Int64?
    /// The secret, in the answer to its making and never again.
    var token: String?

    init(_ record: TokenRecord, secret: String? = nil) {
        id = record.id
        label = record.label
        space = record.space?.description
        scope = record.scope.rawValue
        created = record.created
        expires = record.expires
        revoked = record.revoked
        token = secret
    }
}

struct AuditList: Encodable {
    var lines: [Line]
    var time: Int64

    struct Line: Encodable {
        var number: Int64
        var time: Int64
        var actor: String
        var action: String
        var space: String?
        var subject: String
        var outcome: String

        init(_ line: AuditLine) {
            number = line.number
            time = line.time
            actor = line.actor
            action = line.action
            space = line.space?.description
            subject = line.subject
            outcome = line.outcome
        }
    }
}
